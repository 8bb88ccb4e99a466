// Package llmtest is an upstream for tests and benchmarks: it speaks the
// streaming Messages API (tool use included) and Chat Completions as far as
// clients need it, says what it is told to, and remembers what it was asked.
package llmtest

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Upstream is an http.Handler. The zero Upstream answers any key with "ok".
type Upstream struct {
	// Key is the credential to ask for, as x-api-key or as a bearer; "" asks
	// for none.
	Key string

	// Reply decides what to answer; nil is [Echo].
	Reply func(Request) Reply

	// Forget leaves requests out of [Upstream.Requests], for benchmarks.
	Forget bool

	mu       sync.Mutex
	requests []Seen
	gone     chan struct{}
}

// Seen is a request as it came.
type Seen struct {
	Method, URI, Host string
	Header            http.Header
	Body              []byte
}

// Request is a request for a message.
type Request struct {
	Model     string    `json:"model"`
	MaxTokens int       `json:"max_tokens"`
	Stream    bool      `json:"stream"`
	Messages  []Message `json:"messages"`
	Tools     []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// Message is one of a conversation; Content is text or a list of blocks.
type Message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// Reply is what the model says, and how.
type Reply struct {
	Text      string   // said word by word
	Tool      string   // name of a tool to use afterwards; "" for none
	Input     any      // of the tool
	Status    int      // an error instead of all else; 0 for none
	Header    []string // more headers, name and value in turn
	InputUsed int64    // input tokens used, 10 when 0
	Output    int64    // output tokens used, one for each word when 0
	CacheRead int64

	Gap  time.Duration   // between two events
	Hold <-chan struct{} // after the first word wait for it to close
}

// Requests returns what came so far, in order.
func (u *Upstream) Requests() []Seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.requests)
}

// Gone returns a channel that gets a value for each client that hung up
// before its stream was through.
func (u *Upstream) Gone() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone == nil {
		u.gone = make(chan struct{}, 1024)
	}
	return u.gone
}

func (u *Upstream) left() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone != nil {
		u.gone <- struct{}{}
	}
}

// ServeHTTP answers a request.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	if !u.Forget {
		u.mu.Lock()
		u.requests = append(u.requests, Seen{r.Method, r.RequestURI, r.Host, r.Header.Clone(), body})
		u.mu.Unlock()
	}
	if !u.authorized(r) {
		Error(w, http.StatusUnauthorized, "authentication_error", "invalid x-api-key")
		return
	}
	w.Header().Set("request-id", "req_llmtest")
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages"):
		u.messages(w, r, body)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/count_tokens"):
		answer(w, map[string]any{"input_tokens": len(body) / 4})
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		u.completions(w, r, body)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
		answer(w, map[string]any{"data": []any{map[string]any{"type": "model", "id": "claude-test-1", "display_name": "Test 1", "created_at": "2026-01-01T00:00:00Z"}}, "has_more": false})
	default:
		Error(w, http.StatusNotFound, "not_found_error", "no such path")
	}
}

func (u *Upstream) authorized(r *http.Request) bool {
	if u.Key == "" {
		return true
	}
	for _, got := range []string{r.Header.Get("X-Api-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")} {
		if subtle.ConstantTimeCompare([]byte(got), []byte(u.Key)) == 1 {
			return true
		}
	}
	return false
}

// Error answers as the API does.
func Error(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// ask parses the request and decides the reply, with its defaults.
func (u *Upstream) ask(w http.ResponseWriter, body []byte) (Request, Reply, bool) {
	var req Request
	if err := json.Unmarshal(body, &req); err != nil {
		Error(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return req, Reply{}, false
	}
	say := u.Reply
	if say == nil {
		say = Echo
	}
	reply := say(req)
	for i := 0; i+1 < len(reply.Header); i += 2 {
		w.Header().Add(reply.Header[i], reply.Header[i+1])
	}
	if reply.Status != 0 {
		Error(w, reply.Status, "api_error", "as told")
		return req, reply, false
	}
	if reply.InputUsed == 0 {
		reply.InputUsed = 10
	}
	if reply.Output == 0 {
		reply.Output = int64(len(strings.Fields(reply.Text))) + 1
	}
	return req, reply, true
}

// Echo says "ok", or what the tools before said. A last message of the form
// "run: COMMAND" makes it use the tool Bash when there is one.
func Echo(r Request) Reply {
	if len(r.Messages) == 0 {
		return Reply{Text: "ok"}
	}
	last := string(r.Messages[len(r.Messages)-1].Content)
	if strings.Contains(last, `"tool_result"`) {
		return Reply{Text: "the tool said " + last}
	}
	_, command, found := strings.Cut(last, "run: ")
	if i := strings.IndexAny(command, `"\`); i >= 0 {
		command = command[:i]
	}
	for _, t := range r.Tools {
		if found && t.Name == "Bash" {
			return Reply{Text: "running it", Tool: "Bash", Input: map[string]any{"command": command, "description": "as asked"}}
		}
	}
	return Reply{Text: "ok"}
}
