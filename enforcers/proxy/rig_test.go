package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aicodesit/cordon/enforcers/proxy/token"
	"github.com/aicodesit/cordon/internal/llmtest"
	"github.com/aicodesit/cordon/specs"
)

const realKey = "sk-ant-real-key-0123456789"

// fakeSessions are sessions in slots that are loopback addresses.
type fakeSessions struct {
	mu sync.Mutex
	m  map[netip.Addr]Session
}

func (f *fakeSessions) ByAddr(a netip.Addr) (Session, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.m[a]
	return s, ok
}

// rig is a proxy between clients and an upstream of the tests.
type rig struct {
	t        testing.TB
	server   *Server
	addr     string // of the proxy
	up       *llmtest.Upstream
	upURL    string
	sessions *fakeSessions
	token    string // of the session at 127.0.0.1
	end      context.CancelFunc
	audit    *lockedBuffer
	stop     func()     // of the proxy, and waits
	inTurn   sync.Mutex // tells the race detector of the order that sockets make, which internal/rawsys hides from it
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newRig starts a proxy; change may alter its options before.
func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, up: &llmtest.Upstream{Key: realKey}, sessions: &fakeSessions{m: map[netip.Addr]Session{}}, audit: &lockedBuffer{}}
	upstream := httptest.NewServer(r.up)
	t.Cleanup(upstream.Close)
	r.upURL = upstream.URL
	o := Options{
		Proxy:    specs.Proxy{Name: "llm", Upstream: upstream.URL, Inject: map[string]string{"x-api-key": "anthropic"}},
		Sessions: r.sessions,
		Secret:   func(string) (string, error) { return realKey, nil },
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Audit:    r.audit,
	}
	if change != nil {
		change(&o)
	}
	secret, forget := o.Secret, o.Forget
	o.Secret = func(name string) (string, error) {
		r.inTurn.Lock()
		defer r.inTurn.Unlock()
		return secret(name)
	}
	o.Forget = func(name string) {
		r.inTurn.Lock()
		defer r.inTurn.Unlock()
		if forget != nil {
			forget(name)
		}
	}
	server, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.server = server
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	r.token, r.end = r.session("127.0.0.1", "aaaaaaaa", "shop")
	return r
}

// session puts a session at an address and returns its token and its end.
func (r *rig) session(addr, id, project string) (string, context.CancelFunc) {
	key := "cc-sess-" + id + strings.Repeat("x", 35)
	sum := sha256.Sum256([]byte(key))
	ctx, end := context.WithCancel(context.Background())
	r.t.Cleanup(end)
	r.sessions.mu.Lock()
	defer r.sessions.mu.Unlock()
	r.sessions.m[netip.MustParseAddr(addr)] = Session{
		Lease: specs.Lease{ID: id, Project: project},
		Token: token.Token{Hash: token.Hash(sum[:]), Proxy: "llm", Issued: time.Now(), Expires: time.Now().Add(time.Hour)},
		Alive: ctx,
	}
	return key, end
}

// from is a client in the slot with the address.
func (r *rig) from(addr string) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

const simple = `{"model":"claude-test-1","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`

var streamed = strings.Replace(simple, "{", `{"stream":true,`, 1)

// post is a request for a message, with headers as name and value in turn.
func (r *rig) post(body string, header ...string) *http.Request {
	req, err := http.NewRequest(http.MethodPost, "http://"+r.addr+"/v1/messages?beta=true", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", r.token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

// do sends a request from 127.0.0.1 and returns the answer's status and body.
func (r *rig) do(req *http.Request) (int, string) {
	r.t.Helper()
	return r.doFrom("127.0.0.1", req)
}

// turn orders what the test did before what the proxy asks of it from now on,
// and the other way round.
func (r *rig) turn() {
	r.inTurn.Lock()
	defer r.inTurn.Unlock()
}

func (r *rig) doFrom(addr string, req *http.Request) (int, string) {
	r.t.Helper()
	r.turn()
	defer r.turn()
	resp, err := r.from(addr).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.Contains(string(b), realKey) {
		r.t.Errorf("the answer holds the key: %s", b)
	}
	return resp.StatusCode, string(b)
}

// refused checks that an answer is an error of the API's form.
func refused(t testing.TB, status int, body string, wantStatus int, wantKind string) {
	t.Helper()
	var e struct {
		Type  string
		Error struct{ Type, Message string }
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Errorf("status %d, not JSON: %q", status, body)
		return
	}
	if status != wantStatus || e.Type != "error" || e.Error.Type != wantKind || !strings.HasPrefix(e.Error.Message, "cordon: ") {
		t.Errorf("got %d %+v, want %d %s", status, e, wantStatus, wantKind)
	}
}

// raw sends text as it is and returns the status of the first answer and
// whether the connection was closed after it.
func (r *rig) raw(text string) (status int, body string) {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: strings.Fields(text)[0]})
	if err != nil {
		r.t.Fatalf("%q: %v", text, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// hash is what is written down of a token.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
