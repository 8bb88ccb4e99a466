package stricthttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// served is a server of the tests and one connection to it.
type served struct {
	t      testing.TB
	server *Server
	addr   string
	conn   *net.TCPConn
	in     *bufio.Reader
}

func serve(t testing.TB, h http.HandlerFunc, change func(*Server)) *served {
	t.Helper()
	return serveNatively(t, Standard(h), change)
}

func serveNatively(t testing.TB, h Handler, change func(*Server)) *served {
	t.Helper()
	s := &Server{
		Handler: h, HeadTimeout: time.Minute, IdleTimeout: time.Minute, RestTimeout: time.Minute, HeadBytes: 32 << 10,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if change != nil {
		change(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	v := &served{t: t, server: s, addr: l.Addr().String()}
	v.dial()
	return v
}

func (v *served) dial() {
	v.t.Helper()
	c, err := net.Dial("tcp", v.addr)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		v.t.Fatal(err)
	}
	v.conn, v.in = c.(*net.TCPConn), bufio.NewReader(c)
}

func (v *served) send(text string) {
	v.t.Helper()
	if _, err := io.WriteString(v.conn, text); err != nil {
		v.t.Fatal(err)
	}
}

// answer reads one answer to a request of the method.
func (v *served) answer(method string) (*http.Response, string) {
	v.t.Helper()
	resp, err := http.ReadResponse(v.in, &http.Request{Method: method})
	if err != nil {
		v.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp, string(text)
}

// over checks that the server ends the connection.
func (v *served) over() {
	v.t.Helper()
	if rest, err := io.ReadAll(v.in); err != nil || len(rest) > 0 {
		v.t.Errorf("the connection goes on: %q %v", rest, err)
	}
}

func within[T any](t *testing.T, what string, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("never: %s", what)
	}
	return got
}

const get = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"

func post(body string, header ...string) string {
	return fmt.Sprintf("POST /a HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", strings.Join(append(header, ""), "\r\n"), len(body), body)
}

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %v %q %v", r.Method, r.RequestURI, r.Host, r.Header["A"], body, err)
}

// Requests are answered in order, however they come.
func TestAnswersInOrder(t *testing.T) {
	v := serve(t, echo, nil)
	large := strings.Repeat("b", 100_000)
	for _, text := range []string{
		get + post("hello", "A: 1", "A: 2") + post("") + post(large) + get,
		"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
	} {
		go func() { _, _ = io.WriteString(v.conn, text) }()
		for range strings.Count(text, "HTTP/1.1") {
			resp, body := v.answer("GET")
			if resp.StatusCode != 200 || resp.Header.Get("Date") == "" || !strings.HasSuffix(body, "<nil>") {
				t.Errorf("%d %v %.100s", resp.StatusCode, resp.Header, body)
			}
			switch {
			case strings.HasPrefix(body, "GET /a x []"), strings.Contains(body, `[1 2] "hello"`), strings.Contains(body, `"abcde"`):
			case strings.Contains(body, `[] ""`), strings.Contains(body, large):
			default:
				t.Errorf("%.100s", body)
			}
		}
	}
}

// What is no request gets a status, and the connection ends.
func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		status     int
	}{
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400},
		{"two hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400},
		{"a host that is none", "GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400},
		{"a name with a space", "GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400},
		{"a length with a space", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n\r\nabc", 400},
		{"an encoding with a space", "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n", 400},
		{"no colon", "GET / HTTP/1.1\r\nHost: x\r\nA\r\n\r\n", 400},
		{"no name", "GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", 400},
		{"a control character", "GET / HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n", 400},
		{"a bad escape", "GET /% HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"an expectation", "GET / HTTP/1.1\r\nHost: x\r\nExpect: b\r\n\r\n", 417},
		{"an expectation twice", "GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nexpect: 100-continue\r\n\r\n", 417},
		{"a long head", "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 64) + "\r\n", 431},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it came to the handler") }, nil)
			v.send(tt.text + get)
			if resp, _ := v.answer("GET"); resp.StatusCode != tt.status || !resp.Close {
				t.Errorf("got %d, close %v", resp.StatusCode, resp.Close)
			}
			v.over()
		})
	}
}

// A chunked body must end as it should.
func TestChunkedBodyThatDoesNotEnd(t *testing.T) {
	const endless = "0\r\n\n"
	for name, text := range map[string]string{"a trailer": "0\r\nA: b\r\n\r\n", "a trailer that has not ended": endless, "no end": "3\r\nabc\r\n", "half an end": "0\r\n", "no size": "x\r\n", "too short": "5\r\nabc"} {
		t.Run(name, func(t *testing.T) {
			v := serve(t, echo, nil)
			v.send("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + text)
			if text != endless { // for whose end nobody waits
				if err := v.conn.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			if resp, body := v.answer("POST"); strings.HasSuffix(body, "<nil>") || !resp.Close {
				t.Errorf("it is taken for a whole one: %s, close %v", body, resp.Close)
			}
			v.over()
		})
	}
}

// How long a body may take is the handler's matter, wherever in it the client pauses.
func TestSlowBody(t *testing.T) {
	const short = 100 * time.Millisecond
	v := serve(t, echo, func(s *Server) { s.HeadTimeout, s.IdleTimeout = short, short })
	for _, text := range []string{"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", post("abc")} {
		for cut := strings.Index(text, "\r\n\r\n") + 4; cut < len(text); cut++ {
			v.dial()
			v.send(text[:cut])
			_ = v.conn.SetReadDeadline(time.Now().Add(2 * short))
			if b, err := v.in.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("after %q: %q %v", text[:cut], b, err)
			}
			_ = v.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			v.send(text[cut:])
			if _, body := v.answer("POST"); !strings.Contains(body, `"abc" <nil>`) {
				t.Errorf("after %q: %s", text[:cut], body)
			}
		}
	}
}

// A client that waits for a word before it sends its body gets it when the
// body is read, and not otherwise.
func TestContinue(t *testing.T) {
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("A") == "read" {
			echo(w, r)
		}
	}, nil)
	head := func(a string) string {
		return "POST /a HTTP/1.1\r\nHost: x\r\nA: " + a + "\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
	}
	v.send(head("read"))
	if line, err := v.in.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatal(line, err)
	}
	_, _ = v.in.ReadString('\n')
	v.send("abc")
	if resp, body := v.answer("POST"); !strings.Contains(body, `"abc"`) || resp.Close {
		t.Error(body)
	}
	v.send(head("no"))
	if resp, _ := v.answer("POST"); resp.StatusCode != 200 || !resp.Close {
		t.Error(resp)
	}
	v.over()
}

// Once the answer has begun it is too late for that word: it would be part of it.
func TestContinueWithinAnAnswer(t *testing.T) {
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "ab")
		_ = http.NewResponseController(w).Flush()
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}, nil)
	v.send("POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	resp, err := http.ReadResponse(v.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	v.send("cde")
	if body, err := io.ReadAll(resp.Body); string(body) != "abcde" {
		t.Errorf("%q %v", body, err)
	}
}

// What a handler leaves of a body is never taken for a request.
func TestUnreadBody(t *testing.T) {
	v := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "no") }, nil)
	v.send(post(get) + post(get)) // short ones are there, and passed over
	for range 2 {
		if resp, body := v.answer("POST"); body != "no" || resp.Close {
			t.Error(body, resp.Close)
		}
	}
	go func() { _, _ = io.WriteString(v.conn, post(strings.Repeat(get, 10_000))+get) }()
	if resp, body := v.answer("POST"); body != "no" || !resp.Close {
		t.Error(body, resp.Close)
	}
	if rest, _ := io.ReadAll(v.in); len(rest) > 0 { // an error may say that not all was taken
		t.Errorf("%.100q", rest)
	}
}

func TestAnswersAreFramed(t *testing.T) {
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		switch r.RequestURI {
		case "/empty":
		case "/none":
			h.Set("Content-Length", "3")
			w.WriteHeader(http.StatusNoContent)
		case "/unknown":
			w.WriteHeader(499)
			fmt.Fprint(w, "ab")
			fmt.Fprint(w, "")
			fmt.Fprint(w, "c")
		case "/known":
			h.Set("Content-Length", "3")
			h.Set("Transfer-Encoding", "chunked")
			h.Set("X-Split", "a\r\nSet-Cookie: b")
			fmt.Fprint(w, "abc")
			if _, err := fmt.Fprint(w, "d"); !errors.Is(err, http.ErrContentLength) {
				t.Error(err)
			}
		case "/short":
			h.Set("Content-Length", "3")
			fmt.Fprint(w, "ab")
		}
	}, nil)
	for _, tt := range []struct {
		request, body string
		status        int
		length        int64
	}{{"GET /empty", "", 200, 0}, {"GET /none", "", 204, 0}, {"GET /unknown", "abc", 499, -1}, {"GET /known", "abc", 200, 3}, {"HEAD /known", "", 200, 3}, {"GET /known", "abc", 200, 3}} {
		v.send(tt.request + " HTTP/1.1\r\nHost: x\r\n\r\n")
		method, _, _ := strings.Cut(tt.request, " ")
		resp, body := v.answer(method)
		if resp.StatusCode != tt.status || body != tt.body || resp.ContentLength != tt.length || resp.Close || resp.Header["Set-Cookie"] != nil {
			t.Errorf("%s: %d %q %d %v", tt.request, resp.StatusCode, body, resp.ContentLength, resp.Header)
		}
	}
	v.send("GET /short HTTP/1.1\r\nHost: x\r\n\r\n" + get)
	rest, _ := io.ReadAll(v.in)
	if !strings.HasSuffix(string(rest), "\r\n\r\nab") {
		t.Errorf("%q", rest)
	}
}

// What frames an answer is told once, and only by the server.
func TestHandlersFraming(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header http.Header
		want   []string
	}{
		{"close", http.Header{"Connection": {"Close", "a"}}, []string{"Connection: close", "Transfer-Encoding: chunked"}},
		{"another option", http.Header{"Connection": {"X-A"}, "X-A": {"b"}}, []string{"Transfer-Encoding: chunked", "X-A: b"}},
		{"an encoding", http.Header{"Transfer-Encoding": {"gzip"}}, []string{"Transfer-Encoding: chunked"}},
		{"two lengths", http.Header{"Content-Length": {"1", "1"}}, []string{"Transfer-Encoding: chunked"}},
		{"no length", http.Header{"Content-Length": {"+1"}}, []string{"Transfer-Encoding: chunked"}},
		{"a length", http.Header{"Content-Length": {"1"}, "Transfer-Encoding": {"chunked"}}, []string{"Content-Length: 1"}},
		{"what is no field", http.Header{"A b": {"c"}, "C": {"d\ne", "f\rg", "h"}}, []string{"C: h", "Transfer-Encoding: chunked"}},
	} {
		v := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), tt.header)
			w.Header()["Date"] = []string{}
			fmt.Fprint(w, "a")
		}, nil)
		v.send(get)
		text := make([]byte, bufferSize)
		n, err := v.in.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text[:n]), "\r\n\r\n")
		got := strings.Split(head, "\r\n")[1:]
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A handler that gives up leaves nothing that looks whole.
func TestAbort(t *testing.T) {
	for _, value := range []any{http.ErrAbortHandler, "a mistake"} {
		v := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "ab")
			_ = http.NewResponseController(w).Flush()
			panic(value)
		}, nil)
		v.send(get)
		resp, err := http.ReadResponse(v.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); err == nil || string(text) != "ab" {
			t.Errorf("%v: %q %v", value, text, err)
		}
	}
}

// The request's context ends when the client hangs up, whether or not the
// answer has begun, and after the handler; the connection of one that was
// watched goes on.
func TestHangUp(t *testing.T) {
	began, gone := make(chan context.Context, 1), make(chan struct{}, 1)
	hold := make(chan struct{})
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if r.Header.Get("A") == "stream" {
			_ = http.NewResponseController(w).Flush()
		}
		began <- r.Context()
		select {
		case <-r.Context().Done():
			gone <- struct{}{}
		case <-hold:
		}
	}, nil)
	for range 2 {
		v.send(post("x"))
		ctx := within(t, "the request comes", began)
		awaitWatch(t, v.only())
		hold <- struct{}{}
		if resp, _ := v.answer("POST"); resp.StatusCode != 200 || resp.Close {
			t.Error(resp)
		}
		if ctx.Err() == nil {
			t.Error("the context outlives the handler")
		}
	}
	for _, a := range []string{"A: stream", "A: wait"} {
		v.dial()
		v.send(post("x", a))
		within(t, "the request comes", began)
		_ = v.conn.Close()
		within(t, "the context ends", gone)
	}
}

// only is the server's end of the one connection.
func (v *served) only() *serving {
	v.server.mu.Lock()
	defer v.server.mu.Unlock()
	for c := range v.server.conns {
		return c
	}
	return nil
}

// awaitWatch waits until it is watched whether the client hangs up.
func awaitWatch(t *testing.T, c *serving) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); c.stateNow() != watched; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("it is never watched")
			return
		}
	}
}

func (c *serving) stateNow() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Who does not send a head, or a next request, is let go; a request at hand
// may take longer.
func TestTimeouts(t *testing.T) {
	const short = 100 * time.Millisecond
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * short)
		echo(w, r)
		if err := r.Context().Err(); err != nil {
			t.Error(err)
		}
	}, func(s *Server) { s.HeadTimeout, s.IdleTimeout = short, short })
	v.over()
	v.dial()
	v.send(get[:20])
	v.over()
	v.dial()
	v.send(get + post("abc") + post("ab")[:len(post("ab"))-1])
	for i := range 3 {
		if i == 2 {
			time.Sleep(2 * short)
			v.send("b")
		}
		if _, body := v.answer("GET"); !strings.HasSuffix(body, "<nil>") {
			t.Error(body)
		}
	}
	v.over()
}

// Between requests a client has the time for that, also where the first came at once.
func TestIdleAfterTheFirst(t *testing.T) {
	const short = 200 * time.Millisecond
	v := serve(t, echo, func(s *Server) { s.HeadTimeout = short })
	v.send(get)
	v.answer("GET")
	if err := v.conn.SetReadDeadline(time.Now().Add(2 * short)); err != nil {
		t.Fatal(err)
	}
	if b, err := v.in.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it ends: %q %v", b, err)
	}
}

// A deadline that comes late does not hit the next request.
func TestLateDeadline(t *testing.T) {
	var first http.ResponseWriter
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if first == nil {
			first = w
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
		} else if http.NewResponseController(first).SetWriteDeadline(past) == nil {
			t.Error("it is taken")
		}
		echo(w, r)
	}, nil)
	for range 2 {
		v.send(post("x"))
		if _, body := v.answer("POST"); !strings.Contains(body, `"x"`) {
			t.Error(body)
		}
	}
}

// A body is read while the answer goes out, and by whoever still does when
// the handler is through.
func TestFullDuplex(t *testing.T) {
	read := make(chan error, 1)
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		one := make([]byte, 1)
		for range 3 {
			if _, err := r.Body.Read(one); err != nil {
				t.Error(err)
			}
			_, _ = w.Write(one)
			_ = http.NewResponseController(w).Flush()
		}
		go func() {
			_, err := io.ReadAll(r.Body)
			read <- err
		}()
		for b := w.(*standard).body; b.mu.TryLock(); runtime.Gosched() { // until it is being read
			b.mu.Unlock()
		}
	}, nil)
	v.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\na")
	resp, err := http.ReadResponse(v.in, nil)
	if err != nil || !resp.Close {
		t.Fatal(resp, err)
	}
	for _, next := range []string{"b", "c", ""} {
		if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		v.send(next)
	}
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Error(rest, err)
	}
	if within(t, "the body ends", read) == nil {
		t.Error("a body that is cut looks whole")
	}
	v.over()
}

// A connection whose answer had begun before it takes no further request.
func TestShutdownWithinAnAnswer(t *testing.T) {
	hold := make(chan struct{})
	v := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-hold
	}, nil)
	v.send(get)
	if _, err := v.in.Peek(1); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- v.server.Shutdown(context.Background()) }()
	for !v.server.ends() {
		runtime.Gosched()
	}
	close(hold)
	if err := within(t, "it ends", over); err != nil {
		t.Error(err)
	}
	if resp, _ := v.answer("GET"); resp.StatusCode != 200 {
		t.Error(resp)
	}
	v.over()
}

// Shutdown lets idle connections go and waits for the others; Close does not wait for clients.
func TestShutdown(t *testing.T) {
	began, hold := make(chan struct{}, 2), make(chan struct{})
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		wait := hold
		if r.Method == http.MethodPost {
			wait = nil
		}
		began <- struct{}{}
		select {
		case <-wait:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "ok")
	}, nil)
	atRest := *v
	v.dial()
	busy := *v
	v.dial()
	busy.send(get)
	v.send(post(""))
	within(t, "both come", began)
	within(t, "both come", began)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := v.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	atRest.over()
	hold <- struct{}{}
	if resp, body := busy.answer("GET"); body != "ok" || !resp.Close {
		t.Error(body, resp.Close)
	}
	v.server.Close() // ends the other's context
}
