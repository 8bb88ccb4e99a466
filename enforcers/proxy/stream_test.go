package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/llmtest"
)

// held lets the upstream say one word and then wait for the channel.
func held(r *rig, c <-chan struct{}) {
	r.up.Reply = func(llmtest.Request) llmtest.Reply { return llmtest.Reply{Text: "one two", Hold: c} }
}

// until reads lines until one holds the text.
func until(t testing.TB, in *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("before %q: %v", text, err)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

// open starts a stream and reads its first word.
func (r *rig) open(addr string, req *http.Request) (*http.Response, *bufio.Reader) {
	r.t.Helper()
	resp, err := r.from(addr).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	in := bufio.NewReader(resp.Body)
	until(r.t, in, `"text":"one "`)
	return resp, in
}

// witness is a client that notes whether it was waited with for the count.
type witness struct {
	*httptest.ResponseRecorder
	m    *meter
	late bool // something was counted before the client had it
	left int  // bytes that were not sent
	gone bool // it hangs up
}

func (w *witness) Write(p []byte) (int, error) {
	if w.gone {
		return 0, io.ErrClosedPipe
	}
	w.left += len(p)
	return w.ResponseRecorder.Write(p)
}

func (w *witness) Flush() error {
	w.late, w.left = w.late || w.m.counted, 0
	return nil
}

// last is a reader that tells of the end with the last bytes.
type last struct{ text string }

func (l *last) Read(p []byte) (int, error) {
	n := copy(p, l.text)
	l.text = l.text[n:]
	if l.text == "" {
		return n, io.EOF
	}
	return n, nil
}

// All is sent before the answer is let go of, as a client that does not read is
// cut off no longer: of streams and of what does not stream, with the end told
// with the last bytes or after them.
func TestSentInTheEnd(t *testing.T) {
	r := newRig(t, nil)
	for _, streams := range []bool{false, true} {
		for _, body := range []io.Reader{strings.NewReader("data"), &last{"data"}, &last{strings.Repeat("x", 3*bufferSize+1)}} {
			w := &witness{ResponseRecorder: httptest.NewRecorder(), m: &meter{}}
			r.server.pass(context.Background(), w, body, streams, &exchange{start: time.Now()}, w.m)
			if w.left != 0 {
				t.Errorf("streams %v, %T: %d bytes are left", streams, body, w.left)
			}
		}
	}
}

// An event is counted after it was passed on, and also where the client is gone.
func TestCountedOncePassedOn(t *testing.T) {
	const event = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n"
	r := newRig(t, nil)
	for _, gone := range []bool{false, true} {
		m := newMeter("text/event-stream", &r.server.counters)
		w := &witness{ResponseRecorder: httptest.NewRecorder(), m: m, gone: gone}
		func() {
			defer func() {
				if aborted := recover() == http.ErrAbortHandler; aborted != gone {
					t.Errorf("gone %v: aborted %v", gone, aborted)
				}
			}()
			r.server.pass(context.Background(), w, strings.NewReader(event), true, &exchange{start: time.Now()}, m)
		}()
		if w.late || m.used.Input != 10 {
			t.Errorf("gone %v: late %v, counted %+v", gone, w.late, m.used)
		}
	}
}

// Each event is there before the upstream says the next: nothing is kept back.
func TestEventsComeAsTheyAre(t *testing.T) {
	r := newRig(t, nil)
	hold := make(chan struct{})
	held(r, hold)
	resp, in := r.open("127.0.0.1", r.post(streamed)) // the upstream waits until we have this word
	if resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Error(resp.Header)
	}
	close(hold)
	until(t, in, "message_stop")
}

// The answer's head is there before its first byte.
func TestHeadComesFirst(t *testing.T) {
	hold := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-hold
	}))
	defer up.Close()
	r := newRig(t, func(o *Options) { o.Proxy.Upstream = up.URL })
	resp, err := r.from("127.0.0.1").Do(r.post(streamed))
	close(hold)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

func TestHangUpCancelsUpstream(t *testing.T) {
	r := newRig(t, nil)
	held(r, make(chan struct{}))
	gone := r.up.Gone()
	resp, _ := r.open("127.0.0.1", r.post(streamed))
	_ = resp.Body.Close()
	within(t, gone, "the upstream is told")
	eventually(t, "the audit says so", func() bool { return strings.Contains(r.audit.String(), `"reason":"gone"`) })

	// Also before the upstream has said anything.
	entered, ended := make(chan struct{}), make(chan struct{})
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.ReadAll(req.Body)
		close(entered)
		<-req.Context().Done()
		close(ended)
	}))
	defer mute.Close()
	r = newRig(t, func(o *Options) { o.Proxy.Upstream = mute.URL })
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-entered; cancel() }()
	if _, err := r.from("127.0.0.1").Do(r.post(streamed).WithContext(ctx)); err == nil {
		t.Error("an answer")
	}
	within(t, ended, "the upstream is told")
}

func within(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("never: %s", what)
	}
}

// A stream ends with its session, with its token's time, and with the server;
// other sessions' go on.
func TestStreamEndsWithItsSession(t *testing.T) {
	r := newRig(t, nil)
	hold := make(chan struct{})
	held(r, hold)
	gone := r.up.Gone()
	other, _ := r.session("127.0.0.2", "bbbbbbbb", "")
	_, in := r.open("127.0.0.1", r.post(streamed))
	req := r.post(streamed)
	req.Header.Set("X-Api-Key", other)
	_, on := r.open("127.0.0.2", req)
	begin := time.Now()
	r.end()
	if _, err := io.Copy(io.Discard, in); err == nil {
		t.Error("the stream's end looks like an end")
	}
	within(t, gone, "the upstream is told")
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
	eventually(t, "the audit says so", func() bool { return strings.Contains(r.audit.String(), `"reason":"ended"`) })
	close(hold)
	until(t, on, "message_stop")
}

func TestStreamEndsWithItsToken(t *testing.T) {
	r := newRig(t, nil)
	held(r, make(chan struct{}))
	r.sessions.mu.Lock()
	for a, s := range r.sessions.m {
		s.Token.Expires = time.Now().Add(300 * time.Millisecond)
		alive, end := context.WithDeadlineCause(s.Alive, s.Token.Expires, errExpired)
		defer end()
		s.Alive = alive
		r.sessions.m[a] = s
	}
	r.sessions.mu.Unlock()
	_, in := r.open("127.0.0.1", r.post(streamed))
	if _, err := io.Copy(io.Discard, in); err == nil {
		t.Error("the stream's end looks like an end")
	}
	eventually(t, "the audit says so", func() bool { return strings.Contains(r.audit.String(), `"reason":"expired"`) })
}

// A request that waits for its answer when the session ends gets an error.
func TestEndBeforeTheAnswer(t *testing.T) {
	entered := make(chan struct{})
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.ReadAll(req.Body)
		close(entered)
		<-req.Context().Done()
	}))
	defer mute.Close()
	r := newRig(t, func(o *Options) { o.Proxy.Upstream = mute.URL })
	go func() { <-entered; r.end() }()
	status, body := r.do(r.post(simple))
	refused(t, status, body, 403, "permission_error")
}

// A reader that does not read holds what the sockets hold and no more; it is
// not cut off for being slow, but when its session ends.
func TestSlowReader(t *testing.T) {
	const most = 256 << 20
	var sent atomic.Int64
	event := "event: x\ndata: " + strings.Repeat("y", 60<<10) + "\n\n"
	finished := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(finished)
		w.Header().Set("Content-Type", "text/event-stream")
		for sent.Load() < most {
			n, err := io.WriteString(w, event)
			if err != nil {
				return
			}
			sent.Add(int64(n))
		}
	}))
	defer up.Close()
	r := newRig(t, func(o *Options) { o.Proxy.Upstream = up.URL })
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	resp, err := r.from("127.0.0.1").Do(r.post(streamed))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	last := int64(-1)
	full := func() {
		since := time.Now()
		eventually(t, "the sockets are full", func() bool {
			if now := sent.Load(); now != last {
				last, since = now, time.Now()
			}
			return time.Since(since) > 300*time.Millisecond
		})
	}
	full()
	runtime.GC() // what is held counts
	runtime.ReadMemStats(&after)
	if last > 64<<20 {
		t.Errorf("%d MiB went into a reader that does not read", last>>20)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, last+(1<<20)); err != nil {
		t.Errorf("a slow reader is cut off: %v", err)
	}
	full()
	r.end()
	within(t, finished, "a reader that does not read ends with its session")
}

// 1,000 streams that say nothing, each after a request of 80 kB: all memory
// of clients, proxy and upstream together.
func TestIdleStreamsAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("1,000 connections")
	}
	r := newRig(t, nil)
	hold := make(chan struct{})
	held(r, hold)
	r.up.Forget = true
	large := strings.Replace(streamed, "hi", strings.Repeat("word ", 16_000), 1)
	const streams, addresses = 1000, 5
	tokens := []string{r.token}
	for i := 2; i <= addresses; i++ {
		token, _ := r.session(fmt.Sprintf("127.0.0.%d", i), fmt.Sprintf("bbbbbbb%d", i), "")
		tokens = append(tokens, token)
	}
	before := memory()
	conns := make([]net.Conn, streams)
	for i := range conns {
		who := i % addresses
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(who+1))}}
		c, err := dialer.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", tokens[who], len(large), large)
		conns[i] = c
	}
	for _, c := range conns {
		until(t, bufio.NewReaderSize(c, 512), `"text":"one "`)
	}
	grown := memory() - before
	t.Logf("%.1f MiB, %.1f KiB a stream, client and upstream included", float64(grown)/(1<<20), float64(grown)/1024/streams)
	if grown > 120<<20 { // of which the proxy has less than half
		t.Error("too much")
	}
	if held := r.server.gates.memory.Load(); held != 0 {
		t.Errorf("%d bytes of bodies are still held", held)
	}
	close(hold)
}

func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
