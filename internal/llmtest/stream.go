package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// messages answers POST /v1/messages.
func (u *Upstream) messages(w http.ResponseWriter, r *http.Request, body []byte) {
	req, reply, ok := u.ask(w, body)
	if !ok {
		return
	}
	if !req.Stream {
		answer(w, message(req, reply))
		return
	}
	s := u.stream(w, r, reply)
	s.event("message_start", map[string]any{"type": "message_start", "message": start(req, reply)})
	s.event("content_block_start", map[string]any{"type": "content_block_start", "index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
	s.event("ping", map[string]any{"type": "ping"})
	s.words(reply, func(word string) {
		s.delta(0, map[string]any{"type": "text_delta", "text": word})
	})
	s.event("content_block_stop", map[string]any{"type": "content_block_stop", "index": 0})
	if reply.Tool != "" {
		s.tool(reply)
	}
	s.event("message_delta", map[string]any{
		"type": "message_delta", "delta": map[string]any{"stop_reason": stopReason(reply), "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": reply.Output},
	})
	s.event("message_stop", map[string]any{"type": "message_stop"})
}

func stopReason(r Reply) string {
	if r.Tool != "" {
		return "tool_use"
	}
	return "end_turn"
}

func usage(r Reply, output int64) map[string]any {
	return map[string]any{"input_tokens": r.InputUsed, "cache_creation_input_tokens": 0, "cache_read_input_tokens": r.CacheRead, "output_tokens": output}
}

func start(req Request, r Reply) map[string]any {
	return map[string]any{
		"id": "msg_llmtest", "type": "message", "role": "assistant", "model": req.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usage(r, 1),
	}
}

func message(req Request, r Reply) map[string]any {
	m := start(req, r)
	content := []any{map[string]any{"type": "text", "text": r.Text}}
	if r.Tool != "" {
		content = append(content, map[string]any{"type": "tool_use", "id": "toolu_llmtest", "name": r.Tool, "input": r.Input})
	}
	m["content"], m["stop_reason"], m["usage"] = content, stopReason(r), usage(r, r.Output)
	return m
}

// stream writes events and flushes each.
type stream struct {
	w     http.ResponseWriter
	flush func() error
	gone  <-chan struct{}
	left  func()
	gap   time.Duration
}

func (u *Upstream) stream(w http.ResponseWriter, r *http.Request, reply Reply) *stream {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	return &stream{w: w, flush: http.NewResponseController(w).Flush, gone: r.Context().Done(), left: u.left, gap: reply.Gap}
}

// event writes one; when the client is gone it ends the handler.
func (s *stream) event(name string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	_, err = fmt.Fprintf(s.w, "%sdata: %s\n\n", name, b)
	if err != nil || s.flush() != nil {
		s.quit()
	}
	if s.gap > 0 {
		s.wait(time.After(s.gap))
	}
}

func (s *stream) quit() {
	s.left()
	panic(http.ErrAbortHandler)
}

func (s *stream) delta(index int, delta any) {
	s.event("content_block_delta", map[string]any{"type": "content_block_delta", "index": index, "delta": delta})
}

// words says the text, and waits after the first word if so told.
func (s *stream) words(r Reply, say func(word string)) {
	for i, word := range strings.SplitAfter(r.Text, " ") {
		say(word)
		if i == 0 && r.Hold != nil {
			select {
			case <-r.Hold:
			case <-s.gone:
				s.quit()
			}
		}
	}
}

func (s *stream) wait(c <-chan time.Time) {
	select {
	case <-c:
	case <-s.gone:
		s.quit()
	}
}

// tool asks for the use of a tool, its input in two parts.
func (s *stream) tool(r Reply) {
	input, err := json.Marshal(r.Input)
	if err != nil {
		panic(err)
	}
	s.event("content_block_start", map[string]any{"type": "content_block_start", "index": 1, "content_block": map[string]any{"type": "tool_use", "id": "toolu_llmtest", "name": r.Tool, "input": map[string]any{}}})
	half := len(input) / 2
	for _, part := range []string{string(input[:half]), string(input[half:])} {
		s.delta(1, map[string]any{"type": "input_json_delta", "partial_json": part})
	}
	s.event("content_block_stop", map[string]any{"type": "content_block_stop", "index": 1})
}

// completions answers POST /v1/chat/completions.
func (u *Upstream) completions(w http.ResponseWriter, r *http.Request, body []byte) {
	req, reply, ok := u.ask(w, body)
	if !ok {
		return
	}
	used := map[string]any{"prompt_tokens": reply.InputUsed, "completion_tokens": reply.Output, "total_tokens": reply.InputUsed + reply.Output}
	if !req.Stream {
		answer(w, map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "model": req.Model, "usage": used, "choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": reply.Text}}}})
		return
	}
	s := u.stream(w, r, reply)
	s.words(reply, func(word string) {
		s.event("", map[string]any{"object": "chat.completion.chunk", "model": req.Model, "choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": word}}}})
	})
	s.event("", map[string]any{"object": "chat.completion.chunk", "model": req.Model, "choices": []any{}, "usage": used})
	if _, err := fmt.Fprint(w, "data: [DONE]\n\n"); err != nil || s.flush() != nil {
		s.quit()
	}
}
