package proxy

import (
	"bytes"
	"errors"
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/aicodesit/cordon/internal/strictjson"
)

// usage is how many tokens an answer took, as the upstream counts them.
type usage struct {
	Input          int64 // not from a cache
	CacheRead      int64
	CacheWrite     int64 // for 5 minutes
	CacheWriteLong int64 // for an hour
	Output         int64
}

func (u usage) input() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.CacheWriteLong }

// counts are what the usage objects of the APIs tell.
type counts struct {
	input, output         int64
	cacheRead, cacheWrite int64
	cacheWriteLong        int64 // part of cacheWrite
	prompt, completion    int64 // Chat Completions; cached ones are part of it
}

// field is where a count of the name is kept, nil for names of no count.
func (c *counts) field(name string) *int64 {
	switch name {
	case "input_tokens":
		return &c.input
	case "output_tokens":
		return &c.output
	case "cache_read_input_tokens":
		return &c.cacheRead
	case "cache_creation_input_tokens":
		return &c.cacheWrite
	case "prompt_tokens":
		return &c.prompt
	case "completion_tokens":
		return &c.completion
	}
	return nil
}

// said is a part of an answer, as far as it tells what was used.
type said struct {
	kind  string // its "type"
	usage bool   // there is one at the top
	at    [3]counts
}

// Where a usage object may be.
const (
	atTop      = iota
	atMessage  // of message_start
	atResponse // of response.completed
)

// listen reads JSON. It returns false where that is none, or a count is none.
func listen(text []byte) (s said, ok bool) {
	err := strictjson.Walk(text, func(path strictjson.Path, v strictjson.Value) error { return s.visit(path, v) })
	return s, err == nil
}

var errNoCount = errors.New("not a count")

func (s *said) visit(path strictjson.Path, v strictjson.Value) error {
	at := atTop
	switch {
	case path.Is("type"):
		s.kind = v.Text()
		return nil
	case path.Is("usage"):
		s.usage = v.Kind == strictjson.Object
		return nil
	case path.Begins("usage"):
	case path.Begins("message", "usage"):
		at, path = atMessage, path[1:]
	case path.Begins("response", "usage"):
		at, path = atResponse, path[1:]
	default:
		return nil
	}
	var count *int64
	switch {
	case len(path) == 2:
		count = s.at[at].field(string(path[1]))
	case path.Is("usage", "cache_creation", "ephemeral_1h_input_tokens"):
		count = &s.at[at].cacheWriteLong
	}
	if count == nil || v.Kind == strictjson.Null {
		return nil
	}
	var err error
	if *count, err = strconv.ParseInt(string(v.Raw), 10, 64); err != nil {
		return errNoCount
	}
	return nil
}

// meter reads usage from a copy of an answer. Counts are cumulative, so the
// largest holds.
type meter struct {
	used     usage
	counted  bool  // some count of input was there
	complete bool  // the last count was there
	passed   int64 // bytes of what was said without a count

	told     told
	lines    lines
	frames   frames
	document document
}

// told is where an answer tells what was used.
type told int

const (
	nowhere  told = iota
	inLines       // of an event stream
	inFrames      // of Amazon's
	inDocument
)

// mediaType is the type without its parameters, "" for none.
func mediaType(contentType string) string {
	switch contentType {
	case "application/json", "text/event-stream": // nothing to take apart
		return contentType
	case "text/event-stream; charset=utf-8": // as nearly all say
		return "text/event-stream"
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	return kind
}

// newMeter returns the meter for an answer of the content type.
func newMeter(contentType string) *meter {
	m := &meter{}
	kind := mediaType(contentType)
	switch {
	case kind == "text/event-stream":
		m.told, m.lines.each = inLines, m.line
	case kind == "application/vnd.amazon.eventstream":
		m.told, m.frames.each = inFrames, m.frame
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		m.told = inDocument
	}
	return m
}

// feed takes the next bytes.
func (m *meter) feed(p []byte) {
	switch m.told {
	case inLines:
		m.lines.feed(p)
	case inFrames:
		m.frames.feed(p)
	case inDocument:
		m.document.feed(p)
	}
}

// end says that the answer is whole.
func (m *meter) end() {
	if m.told != inDocument || m.document.over {
		return
	}
	if s, ok := listen(m.document.text); ok && s.usage {
		m.add(s.at[atTop])
		m.complete = true
	}
}

// line takes a line of an event stream.
func (m *meter) line(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return
	}
	m.event(bytes.TrimSpace(data))
}

// event takes the JSON of one event. Only those that can hold a count are parsed.
func (m *meter) event(data []byte) {
	if !bytes.Contains(data, []byte(`"usage"`)) {
		const frame = 90 // what a delta has around its text
		m.passed += max(1, int64(len(data))-frame)
		return
	}
	s, ok := listen(data)
	if !ok {
		return
	}
	for _, c := range s.at {
		m.add(c)
	}
	final := s.kind == "message_delta" || s.kind == "response.completed" || s.at[atTop].prompt > 0
	m.complete = m.complete || final
}

func (m *meter) add(c counts) {
	long := min(c.cacheWriteLong, c.cacheWrite)
	m.used.Input = max(m.used.Input, c.input, c.prompt)
	m.used.CacheRead = max(m.used.CacheRead, c.cacheRead)
	m.used.CacheWrite = max(m.used.CacheWrite, c.cacheWrite-long)
	m.used.CacheWriteLong = max(m.used.CacheWriteLong, long)
	m.used.Output = max(m.used.Output, c.output, c.completion)
	m.counted = m.counted || m.used.input() > 0
}

// fastest is how many tokens a second a model says at most. Of a stream that
// is dropped some were made that never came through, thoughts above all.
const fastest = 400

// charge is what is charged for an answer that took the time: what the
// upstream counted, or at most what was reserved where it did not.
func (m *meter) charge(reserved usage, took time.Duration) usage {
	if m.complete {
		return m.used
	}
	if !m.counted {
		return reserved
	}
	u := m.used
	spoken := max(m.passed, int64(took.Seconds()*fastest), u.Output)
	u.Output = max(u.Output, min(spoken, reserved.Output))
	return u
}

// maxDocument bounds what is kept of an answer to read its usage, in bytes.
const maxDocument = 8 << 20

// document keeps an answer that is no stream.
type document struct {
	text []byte
	over bool
}

func (d *document) feed(p []byte) {
	if d.over = d.over || len(d.text)+len(p) > maxDocument; d.over {
		d.text = nil
		return
	}
	d.text = append(d.text, p...)
}
