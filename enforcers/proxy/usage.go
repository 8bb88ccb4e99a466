package proxy

import (
	"bytes"
	"errors"
	"mime"
	"strconv"
	"strings"
	"sync"
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
func (c *counts) field(name []byte) *int64 {
	switch string(name) {
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
	final bool // its "type" is that of the last one with a count
	usage bool // there is one at the top
	at    [3]counts
}

// Where a usage object may be.
const (
	atTop      = iota
	atMessage  // of message_start
	atResponse // of response.completed
)

// counter reads parts of answers, one after the other. Of one it keeps nothing
// for the next but memory.
type counter struct {
	walker strictjson.Walker
	said   said
}

// listen reads JSON. It returns false where that is none, or a count is none.
func (c *counter) listen(text []byte) (s said, ok bool) {
	err := c.walker.Walk(text, &c.said)
	s, c.said = c.said, said{}
	return s, err == nil
}

var errNoCount = errors.New("not a count")

// Visit is called for each value.
func (s *said) Visit(path strictjson.Path, v strictjson.Value) error {
	if len(path) == 0 {
		return nil
	}
	at := atTop
	switch string(path[0]) {
	case "type":
		if len(path) == 1 {
			kind := v.Text()
			s.final = string(kind) == "message_delta" || string(kind) == "response.completed"
		}
		return nil
	case "usage":
		if len(path) == 1 {
			s.usage = v.Kind == strictjson.Object
		}
	case "message":
		at, path = atMessage, path[1:]
	case "response":
		at, path = atResponse, path[1:]
	}
	if len(path) < 2 || string(path[0]) != "usage" {
		return nil
	}
	count := s.at[at].in(path[1:])
	if count == nil || v.Kind == strictjson.Null {
		return nil
	}
	var err error
	if *count, err = strconv.ParseInt(string(v.Raw), 10, 64); err != nil {
		return errNoCount
	}
	return nil
}

// in is where the count at a path inside of a usage object is kept, nil for
// what is none.
func (c *counts) in(path strictjson.Path) *int64 {
	switch {
	case len(path) == 1:
		return c.field(path[0])
	case path.Is("cache_creation", "ephemeral_1h_input_tokens"):
		return &c.cacheWriteLong
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

	counters *sync.Pool // of *counter
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

// newMeter returns the meter for an answer of the media type. It is so short that
// it is inlined: the meter is then on its user's stack.
func newMeter(kind string, counters *sync.Pool) *meter {
	return &meter{told: tells(kind), counters: counters}
}

// tells is where an answer of the media type tells what was used.
func tells(kind string) told {
	switch {
	case kind == "text/event-stream":
		return inLines
	case kind == "application/vnd.amazon.eventstream":
		return inFrames
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		return inDocument
	}
	return nowhere
}

// feed takes the next bytes.
func (m *meter) feed(p []byte) {
	switch m.told {
	case inLines:
		m.feedLines(p)
	case inFrames:
		m.feedFrames(p)
	case inDocument:
		m.document.feed(p)
	}
}

func (m *meter) feedLines(p []byte) {
	for len(p) > 0 {
		var line []byte
		if line, p = m.lines.next(p); line != nil {
			m.line(line)
		}
	}
}

func (m *meter) feedFrames(p []byte) {
	for len(p) > 0 {
		var payload []byte
		if payload, p = m.frames.next(p); payload != nil {
			m.frame(payload)
		}
	}
}

// listen reads JSON with what any meter may use.
func (m *meter) listen(text []byte) (said, bool) {
	c, ok := m.counters.Get().(*counter)
	if !ok {
		c = &counter{}
	}
	s, ok := c.listen(text)
	m.counters.Put(c)
	return s, ok
}

// end says that the answer is whole.
func (m *meter) end() {
	if m.told != inDocument || m.document.over {
		return
	}
	if s, ok := m.listen(m.document.text); ok && s.usage {
		m.add(&s.at[atTop])
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
	s, ok := m.listen(data)
	if !ok {
		return
	}
	for i := range s.at {
		m.add(&s.at[i])
	}
	m.complete = m.complete || s.final || s.at[atTop].prompt > 0
}

func (m *meter) add(c *counts) {
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
