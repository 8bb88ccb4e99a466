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

	"github.com/aicodesit/cordon/internal/httphead"
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

// to is what a URL begins with, and its target.
func to(url string) (o Origin, target string) {
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	return Origin{scheme, host}, "/" + path
}

// header is of names and values in turn.
func header(text ...string) (h httphead.Header) {
	for i := 0; i < len(text); i += 2 {
		h = append(h, httphead.Field{Name: text[i], Value: text[i+1]})
	}
	return h
}

func post(url, body string) *Request {
	origin, target := to(url)
	return &Request{Origin: origin, Method: http.MethodPost, Target: target, Header: header("X-A", "a"), Body: []byte(body)}
}

func send(t *testing.T, tr *Transport, req *Request) string {
	t.Helper()
	a, err := tr.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := io.ReadAll(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// kept are the idle connections to a server.
func kept(tr *Transport, url string) []*conn {
	origin, _ := to(url)
	return tr.idle[origin]
}

func TestKeepsConnections(t *testing.T) {
	s, conns := counted(t, echo)
	tr := &Transport{}
	defer tr.CloseIdleConnections()
	large := strings.Repeat("x", 1<<20)
	for _, body := range []string{"one", large, "", "two"} {
		if got := send(t, tr, post(s.URL, body)); got != "POST a "+body {
			t.Errorf("got %.80q", got)
		}
	}
	if conns.Load() != 1 {
		t.Errorf("%d connections", conns.Load())
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() { send(t, tr, post(s.URL, "x")) })
	}
	wait.Wait()
	if n := len(kept(tr, s.URL)); n == 0 || n > 20 {
		t.Errorf("%d are kept", n)
	}
	// Those that the server closed are not used.
	s.CloseClientConnections()
	if got := send(t, tr, post(s.URL, "after")); got != "POST a after" {
		t.Errorf("got %q", got)
	}
}

// An answer that is not read to its end takes its connection with it.
func TestUnreadAnswer(t *testing.T) {
	s, conns := counted(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20)) })
	tr := &Transport{}
	defer tr.CloseIdleConnections()
	for range 2 {
		resp, err := tr.Do(t.Context(), post(s.URL, "x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Close()
		if n, err := resp.Read(make([]byte, 1)); n != 0 || err == nil {
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
	if _, err := tr.Do(ctx, post(s.URL, "x")); !errors.Is(err, cause) {
		t.Errorf("before the head: %v", err)
	}
	<-gone

	ctx, cancel = context.WithCancelCause(context.Background())
	req := post(s.URL, "x")
	req.Header[0].Value = "stream"
	resp, err := tr.Do(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
	if _, err := io.ReadAll(resp); err == nil {
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
		if got := send(t, tr, post(url, "x")); got != want {
			t.Errorf("%d: %q", i, got)
		}
	}
	tr.CloseIdleConnections()
	if _, err := tr.Do(t.Context(), post(url, "x")); !errors.Is(err, io.EOF) {
		t.Errorf("a new connection: %v", err)
	}
}

// What is said unasked on a kept connection is nobody's answer: the next request goes
// to another one, whether it is sent at once or in parts.
func TestUnasked(t *testing.T) {
	for name, body := range map[string]string{"at once": "x", "in parts": strings.Repeat("x", 64<<10)} {
		t.Run(name, func(t *testing.T) {
			word := make(chan struct{})
			var asked atomic.Int32
			url := answering(t, func(n int, c net.Conn, in *bufio.Reader) {
				for {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.ReadAll(req.Body)
					asked.Add(1)
					_, _ = io.WriteString(c, fine)
					if n == 0 {
						<-word
						_, _ = io.WriteString(c, strings.Replace(fine, "ok", "no", 1))
					}
				}
			})
			tr := &Transport{}
			defer tr.CloseIdleConnections()
			if got := send(t, tr, post(url, body)); got != "ok" {
				t.Fatalf("%q", got)
			}
			first := kept(tr, url)[0]
			close(word)
			if n, err := first.tcp.Await(); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if got := send(t, tr, post(url, body)); got != "ok" || asked.Load() != 2 {
				t.Errorf("%q, and %d requests came", got, asked.Load())
			}
			if now := kept(tr, url); len(now) != 1 || now[0] == first {
				t.Error("the connection is still kept")
			}
		})
	}
}

// A server that answers whoever comes, as one that is full does, is heard.
func TestAnswerToNobody(t *testing.T) {
	url := answering(t, func(_ int, c net.Conn, in *bufio.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 503 Full\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, in)
	})
	tr := &Transport{}
	origin, _ := to(url)
	c, err := tr.dial(t.Context(), origin)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.tcp.Await(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	a, err := tr.exchange(t.Context(), c, post(url, "x"))
	if err != nil || a.Status != 503 {
		t.Fatalf("%v %v", a, err)
	}
	_ = a.Close()
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
			resp, err := tr.Do(t.Context(), post(url, "x"))
			var got []byte
			if err == nil {
				got, err = io.ReadAll(resp)
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
	resp, err := (&Transport{}).Do(t.Context(), post(url, strings.Repeat("x", 8<<20)))
	if err != nil || resp.Status != 413 {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Close()
}

// So is one that answers before anything of the body was sent.
func TestAnswerToTheHead(t *testing.T) {
	const half = 8 << 20 // of the head, more than fits between the two
	url := answering(t, func(_ int, c net.Conn, in *bufio.Reader) {
		_, _ = io.CopyN(io.Discard, in, half)
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.Copy(io.Discard, in)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req := post(url, strings.Repeat("x", 16<<10))
	req.Header = header("X-Large", strings.Repeat("x", 2*half))
	resp, err := (&Transport{}).Do(ctx, req)
	if err != nil || resp.Status != 413 {
		t.Fatalf("%v %v", resp, err)
	}
	_ = resp.Close()
}

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer s.Close()
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	tr := &Transport{TLS: s.Client().Transport.(*http.Transport).TLSClientConfig}
	defer tr.CloseIdleConnections()
	for range 2 {
		if got := send(t, tr, post(s.URL, "x")); got != "POST a x" {
			t.Errorf("%q", got)
		}
	}
	if len(kept(tr, s.URL)) != 1 {
		t.Error("it is not kept")
	}
	if _, err := (&Transport{}).Do(t.Context(), post(s.URL, "x")); err == nil {
		t.Error("an unknown certificate is trusted")
	}
	if _, err := tr.Do(t.Context(), post(strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "x")); err == nil {
		t.Error("another name is trusted")
	}
	if _, err := tr.Do(t.Context(), post("ftp://127.0.0.1:1/", "x")); err == nil {
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
		resp, err := new(Transport).Do(t.Context(), post("http://"+l.Addr().String(), ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Ready(); got != want {
			t.Errorf("%q: %v", text, got)
		}
		_ = resp.Close()
		_ = l.Close()
	}
}

// What can't be told apart from another request is not sent.
func TestRefusesToSend(t *testing.T) {
	server, _ := counted(t, echo)
	for name, change := range map[string]func(*Request){
		"two lines in a value":  func(r *Request) { r.Header[0].Value = "a\r\nX-Api-Key: b" },
		"a name with a colon":   func(r *Request) { r.Header[0].Name = "X-A: b\r\nX-C" },
		"no name":               func(r *Request) { r.Header[0].Name = "" },
		"a method of two words": func(r *Request) { r.Method = "GET /x HTTP/1.1\r\nX-A: b\r\n\r\nPOST" },
		"no method":             func(r *Request) { r.Method = "" },
		"a query of two lines":  func(r *Request) { r.Target = "/?a HTTP/1.1\r\nX-A: b" },
		"a target of two words": func(r *Request) { r.Target = "/ HTTP/1.1" },
		"no path":               func(r *Request) { r.Target = "*" },
		"no target":             func(r *Request) { r.Target = "" },
		"one that is no ASCII":  func(r *Request) { r.Target = "/ä" },
		"a host of two lines":   func(r *Request) { r.Origin.Host += "\r\nb: c" },
	} {
		req := post(server.URL, "hello")
		change(req)
		if _, err := appendHead(nil, req); !errors.Is(err, errRequest) {
			t.Errorf("%s: %v", name, err)
		}
		if a, err := (&Transport{}).Do(t.Context(), req); err == nil {
			t.Errorf("%s: %d", name, a.Status)
		}
	}
}

// Each part of a request arrives as it is.
func TestSends(t *testing.T) {
	came := make(chan *http.Request, 1)
	server, _ := counted(t, func(w http.ResponseWriter, r *http.Request) { came <- r; echo(w, r) })
	tr := &Transport{}
	for _, length := range []int{100_000, bufferSize, bufferSize - 200, 1} { // goes out with the head, or after it
		req := post(server.URL+"/a%2Fb?c=d&e", strings.Repeat("x", length))
		req.Header = header("X-A", "1", "Content-Length", "1", "X-A", "2", "Host", "other", "Transfer-Encoding", "chunked", "Trailer", "X-A")
		if body := send(t, tr, req); body != "POST 1 "+string(req.Body) {
			t.Errorf("%.100s", body)
		}
		if got := <-came; got.RequestURI != "/a%2Fb?c=d&e" || got.Host != req.Origin.Host || got.ContentLength != int64(length) || len(got.Header["X-A"]) != 2 || got.Header["User-Agent"] != nil || got.Trailer != nil {
			t.Errorf("%+v", got)
		}
	}
	for _, tt := range []struct {
		method string
		want   string // Content-Length
	}{{http.MethodGet, ""}, {http.MethodPost, "0"}} {
		req := post(server.URL, "")
		req.Method, req.Header = tt.method, nil
		body, got := send(t, tr, req), <-came
		if body != tt.method+"  " || got.Header.Get("Content-Length") != tt.want {
			t.Errorf("%s: %q, length %q", tt.method, body, got.Header.Get("Content-Length"))
		}
	}
}
