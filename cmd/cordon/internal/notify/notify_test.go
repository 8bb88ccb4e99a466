package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

const (
	secretPath = "/services/T000/B000/verysecret"
	sha        = "0123456789abcdef0123456789abcdef01234567"
	sha2       = "fedcba9876543210fedcba9876543210fedcba98"
)

func is(s string) func() (string, error) { return func() (string, error) { return s, nil } }

func drift(i int) loop.Event {
	return loop.Event{
		Time: time.Unix(int64(i), 0), Kind: loop.DriftSeen, Part: "network",
		Addr: reconciler.Addr(fmt.Sprint("network.member.llm.", i)), Text: "it is <gone> & @here\nfor good",
	}
}

// peer is the other end, without a network: it answers in order, then 200.
type peer struct {
	mu      sync.Mutex
	answers []func(*http.Request) (*http.Response, error)
	got     []got
}

type got struct {
	at     time.Time
	url    string
	header http.Header
	body   []byte
}

func (p *peer) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, _ := io.ReadAll(r.Body)
	p.got = append(p.got, got{time.Now(), r.URL.String(), r.Header, b})
	if len(p.answers) > 0 {
		answer := p.answers[0]
		p.answers = p.answers[1:]
		return answer(r)
	}
	return response(200, "")(r)
}

func response(code int, retryAfter string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {retryAfter}, "Location": {"https://elsewhere.example/"}}, Body: http.NoBody, Request: r}, nil
	}
}

func refused(*http.Request) (*http.Response, error) {
	return nil, errors.New("dial tcp: lookup hooks.example on 192.0.2.1:53: no such host")
}

func (p *peer) messages(t *testing.T) []Message {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Message
	for _, g := range p.got {
		var m Message
		if err := json.Unmarshal(g.body, &m); err != nil {
			t.Fatalf("%v: %s", err, g.body)
		}
		out = append(out, m)
	}
	return out
}

// started runs a Notifier to one webhook until the bubble's test ends.
func started(t *testing.T, p *peer, log io.Writer) *Notifier {
	t.Helper()
	n := New(Options{
		Host: "web1", Version: "1", Log: slog.New(slog.NewTextHandler(log, nil)), Client: &http.Client{Transport: p},
		Webhooks: []Webhook{{Kind: Generic, URL: is("https://hooks.example" + secretPath)}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { n.Run(ctx) })
	t.Cleanup(func() { cancel(); all.Wait() })
	return n
}

func TestBurstIsOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		n := started(t, p, io.Discard)
		for i := range 500 {
			n.Emit(drift(i))
		}
		n.Emit(loop.Event{Kind: loop.ChangeMade})
		n.Emit(loop.Event{Kind: loop.SessionStarted})
		time.Sleep(time.Hour)
		list := p.messages(t)
		if len(list) != 1 || list[0].Counts[loop.DriftSeen] != 500 || len(list[0].Counts) != 1 || len(list[0].Events) != keptEvents || list[0].Omitted != 450 {
			t.Fatalf("got %d messages: %+v", len(list), list)
		}
		if m := list[0]; m.First.Unix() != 0 || m.Last.Unix() != 499 || m.Host != "web1" || m.FormatVersion != "1.0" || !strings.HasPrefix(m.Text, "cordon on web1: 500 × drift\n• drift network.member.llm.0 it is") || !strings.HasSuffix(m.Text, "… and 490 more") {
			t.Errorf("got %+v", m)
		}
		// The next thing is a message of its own.
		n.Emit(loop.Event{Kind: loop.PartRecovered, Part: "network"})
		time.Sleep(time.Minute)
		if list := p.messages(t); len(list) != 2 || list[1].Counts[loop.PartRecovered] != 1 || len(list[1].Counts) != 1 {
			t.Errorf("got %+v", list)
		}
	})
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		for range 40 {
			p.answers = append(p.answers, refused)
		}
		p.answers = append(p.answers, response(503, ""), response(429, "1800"))
		var log bytes.Buffer
		n := started(t, p, &log)
		n.Emit(drift(0))
		for i := range 1000 { // while it is away
			time.Sleep(time.Second)
			n.Emit(drift(1 + i))
		}
		time.Sleep(24 * time.Hour)
		p.mu.Lock()
		count, last := len(p.got), p.got[len(p.got)-1]
		gap := p.got[43-1].at.Sub(p.got[42-1].at)
		pause := p.got[30].at.Sub(p.got[29].at)
		first, again := p.got[0].header.Get(DeliveryHeader), p.got[42].header.Get(DeliveryHeader)
		p.mu.Unlock()
		if count != 44 {
			t.Fatalf("asked %d times, want 40 + 2 + 1 for the first message and 1 for all that came meanwhile", count)
		}
		if gap < 1800*time.Second {
			t.Errorf("asked again after %s, though told to wait for 30 minutes", gap)
		}
		if pause < lastRetry/2 || pause > lastRetry {
			t.Errorf("the pause is %s in the end", pause)
		}
		if first == "" || first != again || first == last.header.Get(DeliveryHeader) {
			t.Errorf("a message is not known again: %q, %q, then %q", first, again, last.header.Get(DeliveryHeader))
		}
		list := p.messages(t)
		if one, rest := list[42], list[43]; one.Counts[loop.DriftSeen]+rest.Counts[loop.DriftSeen] != 1001 || len(rest.Events) != keptEvents {
			t.Errorf("told of %v and %v", one.Counts, rest.Counts)
		}
		if s := log.String(); strings.Contains(s, "verysecret") || strings.Contains(s, "hooks.example") || !strings.Contains(s, "no such host") || !strings.Contains(s, "webhook 1 (generic)") {
			t.Errorf("the log: %s", s[:min(len(s), 2000)])
		}
	})
}

func TestWhatIsRefusedIsDropped(t *testing.T) {
	for _, code := range []int{301, 302, 307, 400, 403, 404, 410} {
		synctest.Test(t, func(t *testing.T) {
			p := &peer{answers: []func(*http.Request) (*http.Response, error){response(code, "")}}
			var log bytes.Buffer
			n := started(t, p, &log)
			n.Emit(drift(0))
			time.Sleep(time.Hour)
			n.Emit(drift(1))
			time.Sleep(time.Hour)
			if list := p.messages(t); len(list) != 2 || list[1].Counts[loop.DriftSeen] != 1 || p.got[1].url != "https://hooks.example"+secretPath {
				t.Errorf("%d: got %+v", code, list)
			}
			if !strings.Contains(log.String(), fmt.Sprint(code)) {
				t.Errorf("%d: the log: %s", code, log.String())
			}
		})
	}
}

// Whoever is told slowly, or not at all, holds nobody up: neither who emits
// nor the others that are told.
func TestNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		stuck := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Host, "stuck") {
				<-r.Context().Done() // as a server that never answers
				return nil, r.Context().Err()
			}
			return p.RoundTrip(r)
		})}
		n := New(Options{Host: "h", Log: slog.New(slog.DiscardHandler), Client: stuck, Webhooks: []Webhook{
			{Kind: Generic, URL: is("https://stuck.example/")},
			{Kind: Generic, URL: func() (string, error) { return "", errors.New("the file is away") }},
			{Kind: Generic, URL: is("https://fine.example/")},
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { n.Run(ctx) })
		before := time.Now()
		for i := range 100_000 {
			n.Emit(drift(i))
		}
		if d := time.Since(before); d != 0 {
			t.Errorf("it waited for %s", d)
		}
		time.Sleep(3 * time.Second)
		if list := p.messages(t); len(list) != 1 || list[0].Counts[loop.DriftSeen] != 100_000 {
			t.Errorf("got %+v", list)
		}
		// The end waits for a bounded time, and says what is left.
		n.Emit(loop.Event{Kind: loop.PauseBegan})
		before = time.Now()
		cancel()
		all.Wait()
		if d := time.Since(before); d > farewell {
			t.Errorf("it ended after %s", d)
		}
		if list := p.messages(t); len(list) != 2 || list[1].Counts[loop.PauseBegan] != 1 {
			t.Errorf("got %+v", list)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// server is a real one with TLS. Its requests are checked by who tests.
func server(t *testing.T, handle http.HandlerFunc) (*httptest.Server, *http.Client) {
	t.Helper()
	s := httptest.NewTLSServer(handle)
	t.Cleanup(s.Close)
	return s, s.Client()
}

func TestWebhookOverTLS(t *testing.T) {
	var body []byte
	var header http.Header
	s, client := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header = r.Header
		if r.Method != http.MethodPost || r.URL.Path != secretPath {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for _, kind := range []string{Generic, Slack} {
		var log bytes.Buffer
		o := Options{Host: "web1", Version: "1.2", Client: client, Log: slog.New(slog.NewTextHandler(&log, nil)), Webhooks: []Webhook{{Kind: kind, URL: is(s.URL + secretPath), Key: is("key")}}}
		n := New(o)
		n.Emit(drift(1))
		if more, _, err := n.lanes[0].send(t.Context()); err != nil || !more || log.Len() > 0 {
			t.Fatal(more, err, log.String())
		}
		m := hmac.New(sha256.New, []byte("key"))
		m.Write(body)
		if header.Get(SignatureHeader) != "sha256="+hex.EncodeToString(m.Sum(nil)) || header.Get("Content-Type") != "application/json" || header.Get("User-Agent") != "cordon/1.2" {
			t.Errorf("%s: header %v", kind, header)
		}
		if kind == Slack {
			var got map[string]string
			if err := json.Unmarshal(body, &got); err != nil || len(got) != 1 || got["text"] != "cordon on web1: 1 × drift\n• drift network.member.llm.1 it is &lt;gone&gt; &amp; @here for good" {
				t.Errorf("%v, %q", err, got)
			}
		}
		// An authority that nobody vouches for is not talked to.
		o.Client = nil
		n = New(o)
		n.Emit(drift(1))
		if _, _, err := n.lanes[0].send(t.Context()); err == nil || strings.Contains(err.Error(), "127.0.0.1") || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, address := range []string{"", "hooks.example/x", "http://hooks.example/verysecret", "ftp://h/verysecret", "https:///verysecret", "%zz://verysecret", "https://h/\x00verysecret"} {
		n := New(Options{Host: "h", Log: slog.New(slog.DiscardHandler), Webhooks: []Webhook{{Kind: Generic, URL: is(address)}}})
		n.Emit(drift(0))
		if _, _, err := n.lanes[0].send(t.Context()); err == nil || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("%q: got %v", address, err)
		}
	}
	for _, address := range []string{"http://127.0.0.1:8080/x", "http://[::1]/x", "http://localhost/x", "https://h/x"} {
		if _, err := parse(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestNobodyToTell(t *testing.T) {
	n := New(Options{})
	if n != nil {
		t.Error("there is one")
	}
	n.Emit(drift(0))
	n.Run(t.Context())
}

func TestLongTexts(t *testing.T) {
	var m Message
	m.add(loop.Event{Kind: loop.ChangeFailed, Text: strings.Repeat("t", 1<<20), Error: strings.Repeat("e", 1<<20)})
	if e := m.Events[0]; len(e.Text) > 4*maxText || len(e.Error) > 4*maxText {
		t.Errorf("%d and %d bytes", len(e.Text), len(e.Error))
	}
}
