package proxy

import (
	"bytes"
	"encoding/json"
	"mime"
	"strings"
	"time"
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

// counts are the fields of the usage objects of the APIs.
type counts struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheCreation            struct {
		Long int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`

	PromptTokens     int64 `json:"prompt_tokens"` // Chat Completions; cached ones are part of it
	CompletionTokens int64 `json:"completion_tokens"`
}

// said is a part of an answer, as far as it tells what was used.
type said struct {
	Type    string  `json:"type"`
	Usage   *counts `json:"usage"`
	Message struct {
		Usage *counts `json:"usage"`
	} `json:"message"` // of message_start
	Response struct {
		Usage *counts `json:"usage"`
	} `json:"response"` // of response.completed
}

// meter reads usage from a copy of an answer. Counts are cumulative, so the
// largest holds.
type meter struct {
	used     usage
	counted  bool  // some count of input was there
	complete bool  // the last count was there
	passed   int64 // bytes of what was said without a count

	feed func([]byte) // takes the next bytes
	end  func()       // the answer is whole
}

// mediaType is the type without its parameters, "" for none.
func mediaType(contentType string) string {
	if contentType == "application/json" { // nothing to take apart
		return contentType
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	return kind
}

// newMeter returns the meter for an answer of the content type.
func newMeter(contentType string) *meter {
	m := &meter{end: func() {}}
	kind := mediaType(contentType)
	switch {
	case kind == "text/event-stream":
		m.feed = (&lines{each: m.line}).feed
	case kind == "application/vnd.amazon.eventstream":
		m.feed = (&frames{each: m.frame}).feed
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		whole := &document{}
		m.feed, m.end = whole.feed, func() { m.document(whole) }
	default:
		m.feed = func([]byte) {}
	}
	return m
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
	var s said
	if json.Unmarshal(data, &s) != nil {
		return
	}
	m.add(s.Message.Usage)
	m.add(s.Usage)
	m.add(s.Response.Usage)
	final := s.Type == "message_delta" || s.Type == "response.completed" || s.Usage != nil && s.Usage.PromptTokens > 0
	m.complete = m.complete || final
}

func (m *meter) add(c *counts) {
	if c == nil {
		return
	}
	long := min(c.CacheCreation.Long, c.CacheCreationInputTokens)
	m.used.Input = max(m.used.Input, c.InputTokens, c.PromptTokens)
	m.used.CacheRead = max(m.used.CacheRead, c.CacheReadInputTokens)
	m.used.CacheWrite = max(m.used.CacheWrite, c.CacheCreationInputTokens-long)
	m.used.CacheWriteLong = max(m.used.CacheWriteLong, long)
	m.used.Output = max(m.used.Output, c.OutputTokens, c.CompletionTokens)
	m.counted = m.counted || m.used.input() > 0
}

func (m *meter) document(d *document) {
	var s said
	if d.over || json.Unmarshal(d.text, &s) != nil || s.Usage == nil {
		return
	}
	m.add(s.Usage)
	m.complete = true
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
