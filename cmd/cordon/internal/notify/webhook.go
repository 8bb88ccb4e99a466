package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// The kinds of webhooks.
const (
	Generic = "generic" // a [Message] as JSON
	Slack   = "slack"   // {"text": …}, which others than Slack take too
)

const (
	keptEvents = 50    // in one message; the others are counted
	maxText    = 3_000 // characters
	maxLine    = 300   // characters of one event
	shownLines = 10    // events in a text
)

// FormatVersion is that of a [Message].
const FormatVersion = "1.0"

// SignatureHeader holds "sha256=" and the HMAC of the body, in hexadecimal, if
// a webhook has a key.
const SignatureHeader = "X-Cordon-Signature-256"

// DeliveryHeader is the same when a message is sent again.
const DeliveryHeader = "X-Cordon-Delivery"

// Webhook is told of events.
type Webhook struct {
	Kind string                 // [Generic] or [Slack]
	URL  func() (string, error) // a secret
	Key  func() (string, error) // signs; nil: nothing does
}

// Message is what a generic webhook is told.
type Message struct {
	FormatVersion string            `json:"format_version"`
	Host          string            `json:"host"`
	Text          string            `json:"text"` // for people
	First         time.Time         `json:"first"`
	Last          time.Time         `json:"last"`
	Counts        map[loop.Kind]int `json:"counts"`
	Events        []loop.Event      `json:"events"`            // the first of them
	Omitted       int               `json:"omitted,omitempty"` // how many more there were
}

// hook is a messenger to a Webhook.
type hook struct {
	Webhook
	host string

	mu      sync.Mutex
	pending Message // not yet asked for
	sending Message // asked for, and not said
	id      string  // of sending
}

func (h *hook) take(e loop.Event) bool {
	if !slices.Contains(Kinds(), e.Kind) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending.add(e)
	return true
}

func (m *Message) add(e loop.Event) {
	if m.Counts == nil {
		m.Counts, m.First = map[loop.Kind]int{}, e.Time
	}
	m.Counts[e.Kind]++
	m.Last = e.Time
	if len(m.Events) < keptEvents {
		e.Text, e.Error = reconciler.Cut(e.Text, maxText), reconciler.Cut(e.Error, maxText) // a failed command says as much as it likes
		m.Events = append(m.Events, e)
	} else {
		m.Omitted++
	}
}

// request takes up what happened since the last try, but not into a message
// that may have arrived: that one is sent as it was.
func (h *hook) request(ctx context.Context) (*http.Request, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id == "" {
		if h.pending.Counts == nil {
			return nil, nil
		}
		h.sending, h.pending = h.pending, Message{}
		h.id = rand.Text()
	}
	address, err := h.URL()
	if err != nil {
		return nil, err
	}
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	body, err := h.body()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, unnamed(err, u)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(DeliveryHeader, h.id)
	if h.Key != nil {
		key, err := h.Key()
		if err != nil {
			return nil, err
		}
		m := hmac.New(sha256.New, []byte(key))
		_, _ = m.Write(body)
		req.Header.Set(SignatureHeader, "sha256="+hex.EncodeToString(m.Sum(nil)))
	}
	return req, nil
}

func (h *hook) holds(*http.Response) bool { return false }

func (h *hook) ready() error {
	address, err := h.URL()
	if err == nil {
		_, err = parse(address)
	}
	if err == nil && h.Key != nil {
		_, err = h.Key()
	}
	return err
}

func (h *hook) said(bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id, h.sending = "", Message{}
}

func (h *hook) body() ([]byte, error) {
	m := h.sending
	m.FormatVersion, m.Host, m.Text = FormatVersion, h.host, m.text(h.host)
	if h.Kind == Slack {
		// What would begin a mention or a link there.
		text := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(m.Text)
		return json.Marshal(map[string]string{"text": text})
	}
	return json.Marshal(m)
}

// text is the message for people: the counts, and the first events.
func (m *Message) text(host string) string {
	var counts []string
	for _, k := range Kinds() {
		if n := m.Counts[k]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d × %s", n, k))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cordon on %s: %s", host, strings.Join(counts, ", "))
	for i, e := range m.Events {
		if i == shownLines {
			break
		}
		b.WriteString("\n• " + reconciler.Cut(line(e), maxLine))
	}
	if n := len(m.Events) + m.Omitted - shownLines; n > 0 {
		fmt.Fprintf(&b, "\n… and %d more", n)
	}
	return reconciler.Cut(b.String(), maxText)
}

// line is an event in one line.
func line(e loop.Event) string {
	words := []string{string(e.Kind)}
	for _, w := range []string{cmp.Or(string(e.Addr), e.Part), e.Revision, e.Text, e.Error} {
		if w != "" {
			words = append(words, w)
		}
	}
	return reconciler.Line(strings.Join(words, " "))
}
