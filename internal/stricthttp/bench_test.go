package stricthttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/httphead"
)

// asked is what a client of the proxy sends, or what is alike for this package.
const asked = "POST /v1/messages HTTP/1.1\r\nHost: 10.11.12.13:8080\r\nContent-Type: application/json\r\n" +
	"X-Api-Key: cordon-0123456789abcdef0123456789abcdef0123456789abcdef\r\nAnthropic-Version: 2023-06-01\r\nContent-Length: 2\r\n\r\n"

// A request of a connection that is kept, and its answer of one chunk.
func BenchmarkRequest(b *testing.B) {
	ask(b, serve(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"text/event-stream"}
		_, _ = io.WriteString(w, "data: {}\n\n")
	}, nil))
}

// The same of a handler that needs no net/http.
func BenchmarkRequestNatively(b *testing.B) {
	event := []byte("data: {}\n\n")
	ask(b, serveNatively(b, func(w *Response, r *Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Add("Content-Type", "text/event-stream")
		_, _ = w.Write(event)
	}, nil))
}

// ask measures a request after the other.
func ask(b *testing.B, v *served) {
	want := "\r\n0\r\n\r\n"
	got, answer := make([]byte, bufferSize), ""
	b.ReportAllocs()
	for b.Loop() {
		v.send(asked + "{}")
		for answer = ""; !strings.HasSuffix(answer, want); {
			n, err := v.in.Read(got)
			if err != nil {
				b.Fatal(err)
			}
			answer = string(got[:n])
		}
	}
}

// blanks makes one for each round, as is done before a request comes, and begins
// the measurement.
func blanks(b *testing.B, c *serving) []*blank {
	made := make([]*blank, b.N)
	for i := range made {
		made[i] = c.blank()
	}
	b.ReportAllocs()
	b.ResetTimer()
	return made
}

// A head's way from the connection to the request.
func BenchmarkHead(b *testing.B) {
	text := strings.NewReader(asked)
	c := newServing(nil, &conn{}, nil)
	c.in = bufio.NewReaderSize(&httphead.Limited{In: text, Left: -1}, bufferSize)
	for _, blank := range blanks(b, c) {
		text.Reset(asked)
		_, _ = c.in.Peek(1)
		head, err := c.head()
		if err == nil {
			err = blank.read(head)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// nowhere takes all that is written.
type nowhere struct{ net.Conn }

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// An answer's way to the connection.
func BenchmarkAnswer(b *testing.B) {
	c := newServing(&Server{}, &conn{Conn: nowhere{}}, nil)
	c.whole.Store(true)
	kind := "text/event-stream"
	event := []byte("data: {}\n\n")
	for _, blank := range blanks(b, c) {
		w := &blank.answer
		w.Add("Content-Type", kind)
		w.Add("Request-Id", kind)
		w.Add("Cache-Control", kind)
		w.WriteHeader(http.StatusOK)
		if _, err := w.Write(event); err != nil {
			b.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}
