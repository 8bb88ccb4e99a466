package proxy

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	startEvent = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":30,\"cache_read_input_tokens\":20,\"cache_creation\":{\"ephemeral_1h_input_tokens\":10},\"output_tokens\":1}}}\n\n"
	deltaEvent = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"he said \\\"usage\\\"\"}}\n\n"
	lastEvent  = "event: message_delta\r\ndata:{\"type\":\"message_delta\",\"usage\":{\"output_tokens\":42}}\r\n\r\n"
)

var wanted = usage{Input: 5, CacheRead: 20, CacheWrite: 20, CacheWriteLong: 10, Output: 42}

// frame is one of Amazon's event stream around an event.
func frame(event string) string {
	payload := `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(event)) + `","p":"abc"}`
	headers := "\x0b:event-type\x07\x00\x05chunk"
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(headers)+len(payload)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	return string(b) + "CRC1" + headers + payload + "CRC2"
}

func dataOf(event string) string {
	_, data, _ := strings.Cut(event, "data:")
	return strings.TrimSpace(data)
}

func TestMeter(t *testing.T) {
	const sse, frames, doc = "text/event-stream; charset=utf-8", "application/vnd.amazon.eventstream", "application/json"
	for _, tt := range []struct {
		name, kind, text string
		want             usage
		complete         bool
	}{
		{"stream", sse, startEvent + deltaEvent + lastEvent, wanted, true},
		{"stream without event lines", sse, "data: " + dataOf(startEvent) + "\n\ndata: " + dataOf(lastEvent) + "\n\n", wanted, true},
		{"dropped", sse, startEvent + deltaEvent, usage{Input: 5, CacheRead: 20, CacheWrite: 20, CacheWriteLong: 10, Output: 1}, false},
		{"a long line between", sse, startEvent + "data: " + strings.Repeat("x", 3*maxEvent) + "\n\n" + lastEvent, wanted, true},
		{"a count that grows", sse, startEvent + strings.Replace(lastEvent, "42", "7", 1) + lastEvent, wanted, true},
		{"text that looks like a count", sse, startEvent + "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\",\"usage\":{\"output_tokens\":9000}}}\n\n" + lastEvent, wanted, true},
		{"chat completions", sse, "data: {\"choices\":[]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n", usage{Input: 9, Output: 4}, true},
		{"responses", sse, "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":4}}}\n\n", usage{Input: 9, Output: 4}, true},
		{"bedrock", frames, frame(dataOf(startEvent)) + frame(dataOf(deltaEvent)) + frame(dataOf(lastEvent)), wanted, true},
		{"bedrock, a long frame between", frames, frame(dataOf(startEvent)) + frame(strings.Repeat("x", 2*maxEvent)) + frame(dataOf(lastEvent)), wanted, true},
		{"not bedrock", frames, startEvent + lastEvent, usage{}, false},
		{"document", doc, `{"content":[{"text":"x"}],"usage":{"input_tokens":5,"output_tokens":42}}`, usage{Input: 5, Output: 42}, true},
		{"document without a count", doc, `{"content":[]}`, usage{}, false},
		{"half a document", doc, `{"usage":{"input_tokens":5,`, usage{}, false},
		{"a document too long", doc, `{"usage":{"input_tokens":5},"x":"` + strings.Repeat("x", maxDocument) + `"}`, usage{}, false},
		{"nothing known", "text/html", startEvent, usage{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 7, 4096, len(tt.text)} {
				if step < 4096 && len(tt.text) > 1<<20 {
					continue
				}
				m := newMeter(mediaType(tt.kind), new(sync.Pool))
				for rest := tt.text; rest != ""; {
					n := min(step, len(rest))
					m.feed([]byte(rest[:n]))
					rest = rest[n:]
				}
				m.end()
				if m.complete != tt.complete || tt.want != m.used {
					t.Errorf("in steps of %d: %+v complete %v", step, m.used, m.complete)
				}
			}
		})
	}
}

// Of an event nothing is kept, be it one or not, that the next could show.
func TestCounterKeepsNothing(t *testing.T) {
	var c counter
	for _, text := range []string{
		dataOf(startEvent), dataOf(lastEvent), dataOf(deltaEvent), `{"usage":{"input_tokens":5,"output_tokens":"x"}}`, `{"type":"message_delta","usage":{"input_tokens":`,
		`[{"usage":{}}]`, `{"response":{"usage":{"input_tokens":9}}}`, `{}`, `{"usage":[]}`,
	} {
		want, well := new(counter).listen([]byte(text))
		got, ok := c.listen([]byte(text))
		if got != want || ok != well {
			t.Errorf("%s after others: %+v %v, want %+v %v", text, got, ok, want, well)
		}
		if !reflect.DeepEqual(c, counter{}) {
			t.Errorf("%s: it keeps %+v", text, c)
		}
	}
}

// An answer that comes line by line is metered without an allocation.
func TestMeterAllocations(t *testing.T) {
	text := []byte(deltaEvent)
	counters := new(sync.Pool)
	if n := testing.AllocsPerRun(100, func() {
		m := newMeter("text/event-stream", counters)
		for range 3 {
			m.feed(text)
		}
		m.end()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	var c counter
	event := []byte(dataOf(startEvent))
	if n := testing.AllocsPerRun(100, func() { c.listen(event) }); n > 0 {
		t.Errorf("%v allocations for a count", n)
	}
}

func TestCharge(t *testing.T) {
	reserved := usage{Input: 1000, Output: 100}
	for _, tt := range []struct {
		name string
		m    meter
		took time.Duration
		want usage
	}{
		{"counted", meter{used: usage{Input: 1, Output: 2}, complete: true}, time.Hour, usage{Input: 1, Output: 2}},
		{"no count at all", meter{}, 0, reserved},
		{"dropped at once", meter{used: usage{Input: 9, Output: 1}, counted: true}, 0, usage{Input: 9, Output: 1}},
		{"dropped after some text", meter{used: usage{Input: 9, Output: 1}, counted: true, passed: 50}, 0, usage{Input: 9, Output: 50}},
		{"dropped after some time", meter{used: usage{Input: 9, Output: 1}, counted: true}, 100 * time.Millisecond, usage{Input: 9, Output: 40}},
		{"never beyond what was reserved", meter{used: usage{Input: 9, Output: 1}, counted: true, passed: 1 << 20}, time.Hour, usage{Input: 9, Output: 100}},
	} {
		if got := tt.m.charge(reserved, tt.took); got != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// However an answer is cut, the same is read of it, and little is kept.
func FuzzMeter(f *testing.F) {
	f.Add("text/event-stream", startEvent+lastEvent, 9)
	f.Add("application/vnd.amazon.eventstream", frame(dataOf(startEvent)), 3)
	f.Add("application/json", `{"usage":{"input_tokens":5}}`, 1)
	f.Fuzz(func(t *testing.T, kind, text string, cut int) {
		cut = max(0, min(cut, len(text)))
		whole, parts := newMeter(mediaType(kind), new(sync.Pool)), newMeter(mediaType(kind), new(sync.Pool))
		whole.feed([]byte(text))
		whole.end()
		parts.feed([]byte(text[:cut]))
		parts.feed([]byte(text[cut:]))
		parts.end()
		if fmt.Sprint(whole.used, whole.complete, whole.passed) != fmt.Sprint(parts.used, parts.complete, parts.passed) {
			t.Errorf("%q cut at %d: %+v, whole: %+v", text, cut, parts, whole)
		}
	})
}

func BenchmarkMeter(b *testing.B) {
	text := []byte(startEvent + strings.Repeat(deltaEvent, 100) + lastEvent)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		newMeter("text/event-stream", new(sync.Pool)).feed(text)
	}
}

// BenchmarkEvent is an event with a count, as the first of a stream is.
func BenchmarkEvent(b *testing.B) {
	text := []byte(startEvent)
	m := newMeter("text/event-stream", new(sync.Pool))
	b.ReportAllocs()
	for b.Loop() {
		m.feed(text)
	}
}
