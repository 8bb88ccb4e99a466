package stricthttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/httphead"
	"github.com/aicodesit/cordon/internal/rawsys"
)

// whole reads all of an answer that ends the connection.
func (v *served) whole() string {
	v.t.Helper()
	text, err := io.ReadAll(v.in)
	if err != nil {
		v.t.Fatal(err)
	}
	return string(text)
}

// Lines go out as they were added, in their order, however many there are; what
// comes too late, or frames the answer, does not.
func TestAdd(t *testing.T) {
	const start = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
	var many, lines []string
	for i := range 3 * len(httphead.Room{}) {
		many = append(many, "X", fmt.Sprint(i))
		lines = append(lines, fmt.Sprintf("X: %d\r\n", i))
	}
	for _, tt := range []struct {
		name  string
		added []string // names and values
		want  string
	}{
		{"in order", []string{"B", "1", "A", "2", "b", "", "B", "3"}, start + "Transfer-Encoding: chunked\r\nDate: d\r\nB: 1\r\nA: 2\r\nb: \r\nB: 3\r\n\r\n1\r\na\r\n0\r\n\r\n"},
		{"many", many, start + "Transfer-Encoding: chunked\r\nDate: d\r\n" + strings.Join(lines, "") + "\r\n1\r\na\r\n0\r\n\r\n"},
		{"invalid", []string{"A b", "1", "", "2", "A\r\nB", "3", "C", "4\nD: e", "C", "5\r", "E", "6"}, start + "Transfer-Encoding: chunked\r\nDate: d\r\nE: 6\r\n\r\n1\r\na\r\n0\r\n\r\n"},
		{"a length", []string{"Transfer-Encoding", "gzip", "A", "1", "Content-Length", "1"}, start + "Content-Length: 1\r\nDate: d\r\nA: 1\r\n\r\na"},
		{"two lengths", []string{"Content-Length", "1", "Content-Length", "1"}, start + "Transfer-Encoding: chunked\r\nDate: d\r\n\r\n1\r\na\r\n0\r\n\r\n"},
		{"another option", []string{"Connection", "X-A"}, start + "Transfer-Encoding: chunked\r\nDate: d\r\n\r\n1\r\na\r\n0\r\n\r\n"},
	} {
		v := serveNatively(t, func(w *Response, _ *Request) {
			w.Add("Date", "d")
			for pair := range slices.Chunk(tt.added, 2) {
				w.Add(pair[0], pair[1])
			}
			w.Add("Connection", "Close")
			_, _ = io.WriteString(w, "a")
			w.Add("Late", "1")
			w.Add("Content-Length", "7")
		}, nil)
		v.send(get)
		if got := v.whole(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A wish to close that comes after the head was written is none: the client was
// told otherwise.
func TestLateClose(t *testing.T) {
	v := serveNatively(t, func(w *Response, _ *Request) {
		_ = w.Flush()
		w.Add("Connection", "close")
	}, nil)
	v.send(get + get)
	for range 2 {
		if resp, _ := v.answer("GET"); resp.Close || resp.Header.Get("Date") == "" {
			t.Error(resp)
		}
	}
}

// What is left out is told, by its name alone: the value may be secret.
func TestInvalidLinesAreLogged(t *testing.T) {
	var log bytes.Buffer
	v := serveNatively(t, func(w *Response, _ *Request) {
		w.Add("Good", "a")
		w.Add("Worse", "secret\n")
	}, func(s *Server) { s.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	v.send(get)
	v.answer("GET")
	v.server.Close() // nobody writes to the log any more
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "name=Worse") || strings.Contains(got, "secret") {
		t.Errorf("%q", got)
	}
}

// A handler has of a request what came.
func TestNativeRequest(t *testing.T) {
	v := serveNatively(t, func(w *Response, r *Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Method, " ", r.Target, " ", r.URL.Path, " ", r.host.value, " ", r.Header, " ", r.Length, " ", r.close, " ", r.Remote, " ", string(body), " ", err)
	}, nil)
	for _, tt := range []struct{ request, want string }{
		{"GET /a%20b?c HTTP/1.1\r\nb: 1\r\nHost: x:1\r\nA: 2\r\nB: 3\r\n\r\n", "GET /a%20b?c /a b x:1 [{B 1} {A 2} {B 3}] 0 false 127.0.0.1  <nil>"},
		{"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "POST /a /a x [{Content-Length 3}] 3 false 127.0.0.1 abc <nil>"},
		{"POST /a HTTP/1.1\r\ntrailer: A\r\nHost: x\r\nB: 1\r\nTransfer-Encoding: chunked\r\nTrailer:\r\n\r\n1\r\na\r\n0\r\n\r\n", "POST /a /a x [{Trailer A} {B 1} {Trailer }] -1 false 127.0.0.1 a <nil>"},
	} {
		v.send(tt.request)
		if _, body := v.answer("POST"); body != tt.want {
			t.Errorf("%q, want %q", body, tt.want)
		}
	}
	v.over()
	v.dial()
	v.send("GET /a HTTP/1.1\r\nHost: x\r\nConnection: a, Close\r\n\r\n" + get)
	if resp, body := v.answer("GET"); !resp.Close || body != "GET /a /a x [{Connection a, Close}] 0 true 127.0.0.1  <nil>" {
		t.Errorf("%v %q", resp, body)
	}
	v.over()
}

// from is a connection of a peer, and the listener that accepts it.
type from struct {
	net.Conn
	net.Listener
	peer net.Addr
}

func (f from) Accept() (net.Conn, error) { return f, nil }
func (f from) RemoteAddr() net.Addr      { return f.peer }
func (f from) Close() error              { return nil }
func (f from) Addr() net.Addr            { return nil }

// A peer has one address, whichever way it is written.
func TestRemote(t *testing.T) {
	for _, tt := range []struct {
		peer net.Addr
		want netip.Addr
	}{
		{&net.TCPAddr{IP: net.ParseIP("10.0.0.1").To4(), Port: 7}, netip.MustParseAddr("10.0.0.1")},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::ffff:10.0.0.1]:7")), netip.MustParseAddr("10.0.0.1")},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[fd00::1]:7")), netip.MustParseAddr("fd00::1")},
		{&net.UnixAddr{Name: "a", Net: "unix"}, netip.Addr{}},
	} {
		c, err := (&listener{Listener: from{peer: tt.peer}}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		r := &newServing(nil, c.(*conn), nil).blank().request
		if r.Remote != tt.want {
			t.Errorf("%v: %v, want %v", tt.peer, r.Remote, tt.want)
		}
	}
}

// The context is the request's own, and ends with it; a deadline for reading
// hits whoever reads the body.
func TestNativeDeadlineAndContext(t *testing.T) {
	of := make(chan context.Context, 1)
	v := serveNatively(t, func(w *Response, r *Request) {
		of <- r.Context()
		if err := w.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		if err := w.SetReadDeadline(past); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(r.Body); err == nil {
			t.Error("a body that never came is read")
		}
		w.WriteHeader(http.StatusRequestTimeout)
	}, nil)
	v.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
	if resp, _ := v.answer("POST"); resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
		t.Error(resp)
	}
	v.over()
	if within(t, "the request comes", of).Err() == nil {
		t.Error("the context outlives the handler")
	}
}

// A connection's requests and answers have nothing of those before in their
// headers, and neither has the memory that they share.
func TestHeadersAreTheirOwn(t *testing.T) {
	v := serveNatively(t, func(w *Response, r *Request) {
		for _, f := range r.Header {
			w.Add("X-"+f.Name, f.Value)
		}
		for _, f := range r.Header[len(r.Header):cap(r.Header)] {
			if f != (httphead.Field{}) {
				w.Add("X-Left", f.Name)
			}
		}
	}, nil)
	for n, lines := range []int{1, 40, 3, 0, 200, 2, 64, 1} {
		text, want := "", http.Header{"Content-Length": {"0"}}
		for i := range lines {
			text += fmt.Sprintf("A%d: %d\r\n", i, n)
			want[fmt.Sprintf("X-A%d", i)] = []string{fmt.Sprint(n)}
		}
		v.send("GET / HTTP/1.1\r\nHost: x\r\n" + text + "\r\n")
		resp, _ := v.answer("GET")
		resp.Header.Del("Date")
		if !maps.EqualFunc(resp.Header, want, slices.Equal) {
			t.Errorf("%d lines: %q", lines, resp.Header)
		}
	}
}

// A body that came whole is there until the handler returns, whatever follows it
// meanwhile; any other is to be read.
func TestWhole(t *testing.T) {
	const post, more = "POST /a HTTP/1.1\r\nHost: x\r\n", "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"
	for _, tt := range []struct{ name, request, later, want string }{
		{"whole", post + "Content-Length: 3\r\n\r\nabc", "", `"abc" true "" <nil>`},
		{"none", post + "\r\n", "", `"" false "" <nil>`},
		{"in parts", post + "Content-Length: 3\r\n\r\nab", "c", `"" false "abc" <nil>`},
		{"chunked", post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "", `"" false "abc" <nil>`},
		{"announced", post + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "", `"" false "abc" <nil>`},
	} {
		came, sent := make(chan bool), make(chan bool)
		v := serveNatively(t, func(w *Response, r *Request) {
			text, ok := r.Whole()
			if r.Target == "/a" {
				came <- true
				<-sent
				if ok {
					awaitWatch(t, w.c)
				}
			}
			if _, again := r.Whole(); again {
				t.Errorf("%s: it is there twice", tt.name)
			}
			rest, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%q %v %q %v", text, ok, rest, err)
		}, nil)
		v.send(tt.request)
		within(t, "the request comes", came)
		v.send(tt.later + more + "def" + more + "ghi")
		sent <- true
		if tt.name == "announced" {
			if line, err := v.in.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 100 ") || err != nil {
				t.Errorf("%q %v", line, err)
			}
			_, _ = v.in.ReadString('\n')
		}
		if _, body := v.answer("POST"); body != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, body, tt.want)
		}
		if tt.name == "chunked" {
			continue
		}
		for _, next := range []string{`"def" true "" <nil>`, `"ghi" true "" <nil>`} {
			if _, body := v.answer("POST"); body != next {
				t.Errorf("after %s: %s, want %s", tt.name, body, next)
			}
		}
	}
}

// fill sends until the client, which does not read, takes no more. That must last:
// its kernel may yet tell of what came, which makes a little room.
func fill(w *Response) {
	for vain := 0; vain < 3; vain++ {
		_ = w.c.tcp.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if n, _ := w.c.tcp.Write(make([]byte, 64<<10)); n > 0 {
			vain = -1
		}
	}
	_ = w.c.tcp.SetWriteDeadline(time.Time{})
}

// large leaves more to be sent than sockets hold.
func large(w *Response) { w.Add("A", strings.Repeat("a", 16<<20)) }

// bounds tells of the deadlines for writing that a connection is given.
type bounds struct {
	*rawsys.Conn
	set chan time.Time
}

func (b bounds) SetDeadline(t time.Time) error { return b.SetWriteDeadline(t) }

func (b bounds) SetWriteDeadline(t time.Time) error {
	b.set <- t
	return b.Conn.SetWriteDeadline(t)
}

// tellBounds has set told of the deadlines for writing that w's connection is given.
func tellBounds(w *Response, set chan time.Time) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.conn.Conn = bounds{w.c.tcp, set}
}

// A client that does not read can't keep its connection with what is left of an
// answer once the handler is through, nor with a refusal.
func TestRestIsNotTaken(t *testing.T) {
	for name, answer := range map[string]func(*Response){
		"an end": func(w *Response) {
			_ = w.Flush()
			fill(w)
		},
		"an answer": large,
		"a refusal": func(w *Response) {
			w.Add("Content-Length", "0")
			_ = w.Flush()
			fill(w)
		},
	} {
		set, ended := make(chan time.Time, 8), make(chan bool)
		v := serveNatively(t, func(w *Response, _ *Request) {
			tellBounds(w, set)
			answer(w)
		}, func(s *Server) { s.RestTimeout = 100 * time.Millisecond })
		v.send(get)
		v.send("no request\r\n\r\n")
		within(t, name+" waits", set)
		go func() { v.server.gone.Wait(); close(ended) }()
		within(t, name+" is given up", ended)
	}
}

// Nor while it is told that its body may come.
func TestContinueIsNotTaken(t *testing.T) {
	begun, ended := make(chan bool, 1), make(chan bool)
	v := serveNatively(t, func(w *Response, r *Request) {
		begun <- true
		fill(w)
		_, _ = io.Copy(io.Discard, r.Body)
	}, func(s *Server) { s.RestTimeout = 100 * time.Millisecond })
	v.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
	within(t, "it comes", begun)
	go func() { v.server.gone.Wait(); close(ended) }()
	within(t, "it is given up", ended)
}

// One that takes it after a while has the time that the handler gives for the answer.
func TestContinueIsTaken(t *testing.T) {
	set, hold := make(chan time.Time, 8), make(chan bool)
	defer close(hold)
	v := serveNatively(t, func(w *Response, r *Request) {
		tellBounds(w, set)
		fill(w)
		_, _ = io.Copy(io.Discard, r.Body)
		<-hold
	}, func(s *Server) { s.RestTimeout = time.Minute })
	v.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")
	if at := within(t, "it is bounded", set); at.IsZero() {
		t.Error("it is not")
	}
	go func() { _, _ = io.Copy(io.Discard, v.in) }()
	if at := within(t, "it is bounded no more", set); !at.IsZero() {
		t.Error(at)
	}
}

// A client that takes the rest of an answer in time has all of it, and no bound is
// left for the next; where nothing waits, none is ever set.
func TestRestIsTaken(t *testing.T) {
	set := make(chan time.Time, 8)
	requests := 0
	v := serveNatively(t, func(w *Response, _ *Request) {
		w.c.mu.Lock()
		w.c.state = watched // it is not: after a watch, all deadlines are taken away anyway
		w.c.mu.Unlock()
		if requests++; requests == 1 {
			tellBounds(w, set)
		}
		if requests == 3 {
			large(w)
		}
	}, nil)
	for range 2 {
		v.send(get)
		v.answer("GET")
	}
	if len(set) > 0 {
		t.Error("a write that need not wait is bounded")
	}
	v.send(get)
	if left := time.Until(within(t, "the rest waits", set)); left <= 0 || left > v.server.RestTimeout {
		t.Errorf("it waits for %v", left)
	}
	if resp, _ := v.answer("GET"); resp.Close {
		t.Error("the connection ends")
	}
	if !within(t, "it is bounded no more", set).IsZero() || len(set) > 0 {
		t.Error("a bound is left")
	}
	v.send(get)
	v.answer("GET")
}
