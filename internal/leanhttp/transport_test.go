package leanhttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counted is a server that counts the connections to it.
func counted(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	var conns atomic.Int32
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s, &conns
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("X-A"), b)
}

func post(t *testing.T, ctx context.Context, url, body string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-A", "a")
	return req
}

func send(t *testing.T, tr *Transport, req *http.Request) string {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// kept are the idle connections to a server.
func kept(tr *Transport, url string) []*conn {
	scheme, host, _ := strings.Cut(url, "://")
	return tr.idle[origin{scheme, host}]
}

func TestKeepsConnections(t *testing.T) {
	s, conns := counted(t, echo)
	tr := &Transport{}
	defer tr.CloseIdleConnections()
	large := strings.Repeat("x", 1<<20)
	for _, body := range []string{"one", large, "", "two"} {
		if got := send(t, tr, post(t, context.Background(), s.URL, body)); got != "POST a "+body {
			t.Errorf("got %.80q", got)
		}
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections", conns.Load())
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() { send(t, tr, post(t, context.Background(), s.URL, "x")) })
	}
	wait.Wait()
	if n := len(kept(tr, s.URL)); n == 0 || n > 20 {
		t.Errorf("%d are kept", n)
	}
	// Those that the server closed are not used.
	s.CloseClientConnections()
	once := post(t, context.Background(), s.URL, "once")
	once.GetBody = nil // it could not be sent again
	if got := send(t, tr, once); got != "POST a once" {
		t.Errorf("got %q", got)
	}
	s.CloseClientConnections()
	if got := send(t, tr, post(t, context.Background(), s.URL, "after")); got != "POST a after" {
		t.Errorf("got %q", got)
	}
}

// An answer that is not read to its end takes its connection with it.
func TestUnreadAnswer(t *testing.T) {
	s, conns := counted(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20)) })
	tr := &Transport{}
	defer tr.CloseIdleConnections()
	for range 2 {
		resp, err := tr.RoundTrip(post(t, context.Background(), s.URL, "x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Error("a closed body reads on")
		}
	}
	if conns.Load() != 2 {
		t.Errorf("%d connections", conns.Load())
	}
}

func TestContextEnds(t *testing.T) {
	hold, gone := make(chan struct{}), make(chan struct{}, 2)
	s, _ := counted(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if r.Header.Get("X-A") == "stream" {
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-r.Context().Done():
			gone <- struct{}{}
		case <-hold:
		}
	})
	defer close(hold)
	tr := &Transport{}
	defer tr.CloseIdleConnections()
	cause := errors.New("told so")

	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
	if _, err := tr.RoundTrip(post(t, ctx, s.URL, "x")); !errors.Is(err, cause) {
		t.Errorf("before the head: %v", err)
	}
	<-gone

	ctx, cancel = context.WithCancelCause(context.Background())
	req := post(t, ctx, s.URL, "x")
	req.Header.Set("X-A", "stream")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("in the body: no error")
	}
	<-gone
	if len(kept(tr, s.URL)) != 0 {
		t.Error("its connection is kept")
	}
}

// answering serves one connection after the other by hand.
func answering(t *testing.T, serve func(n int, c net.Conn, in *bufio.Reader)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(n, c, bufio.NewReader(c))
			_ = c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// A kept connection that is closed as the request goes out costs nothing but
// another one; a new one that is closed is a failure.
func TestRepeatsOnAKeptConnectionOnly(t *testing.T) {
	url := answering(t, func(n int, c net.Conn, in *bufio.Reader) {
		for i := range 2 {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.ReadAll(req.Body)
			if n == 0 && i == 1 || n == 2 {
				return // closed without an answer
			}
			_, _ = io.WriteString(c, fine)
		}
	})
	tr := &Transport{}
	for i, want := range []string{"ok", "ok", "ok"} {
		if got := send(t, tr, post(t, context.Background(), url, "x")); got != want {
			t.Errorf("%d: %q", i, got)
		}
	}
	tr.CloseIdleConnections()
	if _, err := tr.RoundTrip(post(t, context.Background(), url, "x")); !errors.Is(err, io.EOF) {
		t.Errorf("a new connection: %v", err)
	}
}

func TestOddAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		say, want string
		keep      bool
	}{
		"early hints":      {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + fine, "ok", true},
		"close":            {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		"until the end":    {"HTTP/1.1 200 OK\r\n\r\nok", "ok", false},
		"more than it was": {fine + "HTTP/1.1 200 OK\r\n\r\n", "ok", false},
		"chunked":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", true},
		"cut off":          {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "", false},
		"no answer":        {"SSH-2.0-OpenSSH\r\n", "", false},
		"an endless head":  {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", headerBytes) + "\r\n\r\n", "", false},
		"nothing":          {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			defer close(ended)
			url := answering(t, func(_ int, c net.Conn, in *bufio.Reader) {
				if req, err := http.ReadRequest(in); err == nil {
					_, _ = io.ReadAll(req.Body)
				}
				_, _ = io.WriteString(c, tt.say)
				if tt.keep {
					<-ended
				}
			})
			tr := &Transport{}
			defer tr.CloseIdleConnections()
			resp, err := tr.RoundTrip(post(t, context.Background(), url, "x"))
			var got []byte
			if err == nil {
				got, err = io.ReadAll(resp.Body)
			}
			if (err == nil) != (tt.want != "") || err == nil && string(got) != tt.want {
				t.Errorf("%q %v", got, err)
			}
			if n := len(kept(tr, url)); (n == 1) != tt.keep {
				t.Errorf("%d are kept", n)
			}
		})
	}
}

// A server that refuses a body before it is through is heard.
func TestEarlyAnswer(t *testing.T) {
	url := answering(t, func(_ int, c net.Conn, in *bufio.Reader) {
		_, _ = http.ReadRequest(in)
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, in)
	})
	resp, err := (&Transport{}).RoundTrip(post(t, context.Background(), url, strings.Repeat("x", 8<<20)))
	if err != nil || resp.StatusCode != 413 {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Body.Close()
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer s.Close()
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	tr := &Transport{TLS: s.Client().Transport.(*http.Transport).TLSClientConfig}
	defer tr.CloseIdleConnections()
	for range 2 {
		if got := send(t, tr, post(t, context.Background(), s.URL, "x")); got != "POST a x" {
			t.Errorf("%q", got)
		}
	}
	if len(kept(tr, s.URL)) != 1 {
		t.Error("it is not kept")
	}
	if _, err := (&Transport{}).RoundTrip(post(t, context.Background(), s.URL, "x")); err == nil {
		t.Error("an unknown certificate is trusted")
	}
	if _, err := tr.RoundTrip(post(t, context.Background(), strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "x")); err == nil {
		t.Error("another name is trusted")
	}
	if _, err := tr.RoundTrip(post(t, context.Background(), "ftp://127.0.0.1:1/", "x")); err == nil {
		t.Error("another scheme works")
	}
}

// An answer is ready when its first read would not wait.
func TestReady(t *testing.T) {
	for text, want := range map[string]bool{
		"Transfer-Encoding: chunked\r\n\r\n":          false,
		"Transfer-Encoding: chunked\r\n\r\n5\r":       false,
		"Transfer-Encoding: chunked\r\n\r\n5\r\n":     false,
		"Transfer-Encoding: chunked\r\n\r\n5\r\nab":   true,
		"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n": true,
		"Content-Length: 3\r\n\r\n":                   false,
		"Content-Length: 3\r\n\r\na":                  true,
		"Connection: close\r\n\r\n":                   false,
		"Connection: close\r\n\r\na":                  true,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+text)
			}
		}()
		resp, err := new(Transport).RoundTrip(post(t, t.Context(), "http://"+l.Addr().String(), ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Body.(*body).Ready(); got != want {
			t.Errorf("%q: %v", text, got)
		}
		_ = resp.Body.Close()
		_ = l.Close()
	}
}

// What can't be told apart from another request is not sent.
func TestRefusesToSend(t *testing.T) {
	server, _ := counted(t, echo)
	for name, change := range map[string]func(*http.Request){
		"two lines in a value":      func(r *http.Request) { r.Header.Set("X-A", "a\r\nX-Api-Key: b") },
		"a name with a colon":       func(r *http.Request) { r.Header["X-A: b\r\nX-C"] = []string{"d"} },
		"a method of two words":     func(r *http.Request) { r.Method = "GET /x HTTP/1.1\r\nX-A: b\r\n\r\nPOST" },
		"no method":                 func(r *http.Request) { r.Method = "" },
		"a query of two lines":      func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1\r\nX-A: b" },
		"a host of two lines":       func(r *http.Request) { r.Host = "a\r\nb: c" },
		"a body of no known length": func(r *http.Request) { r.ContentLength = -1 },
		"a body that is shorter":    func(r *http.Request) { r.ContentLength = 6 },
		"a body that is longer":     func(r *http.Request) { r.ContentLength = 4 },
	} {
		req := post(t, t.Context(), server.URL, "hello")
		change(req)
		req.GetBody = nil
		if resp, err := (&Transport{}).RoundTrip(req); err == nil {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
}

// Each part of a request arrives as it is.
func TestSends(t *testing.T) {
	came := make(chan *http.Request, 1)
	server, _ := counted(t, func(w http.ResponseWriter, r *http.Request) { came <- r; echo(w, r) })
	tr := &Transport{}
	req := post(t, t.Context(), server.URL+"/a%2Fb?c=d&e", strings.Repeat("x", 100_000))
	req.Host = "model.example"
	req.Header["X-A"] = []string{"1", "2"}
	req.Header["Content-Length"], req.Header["Host"] = []string{"1"}, []string{"other"}
	if body := send(t, tr, req); body != "POST 1 "+strings.Repeat("x", 100_000) {
		t.Errorf("%.100s", body)
	}
	if got := <-came; got.RequestURI != "/a%2Fb?c=d&e" || got.Host != "model.example" || got.ContentLength != 100_000 || len(got.Header["X-A"]) != 2 || got.Header["User-Agent"] != nil {
		t.Errorf("%+v", got)
	}
	for _, tt := range []struct {
		method string
		want   string // Content-Length
	}{{http.MethodGet, ""}, {http.MethodPost, "0"}} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, got := send(t, tr, req), <-came
		if body != tt.method+"  " || got.Header.Get("Content-Length") != tt.want {
			t.Errorf("%s: %q, length %q", tt.method, body, got.Header.Get("Content-Length"))
		}
	}
}
