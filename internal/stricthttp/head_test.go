package stricthttp

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// What is no request is told why, however it comes, and ends the connection. What is
// one leaves what follows it as it is.
func TestHead(t *testing.T) {
	const (
		lineEnd       = "a line must end with CR LF"
		requestLine   = "a request line must be METHOD /PATH HTTP/1.1"
		name          = "a header's name is malformed"
		value         = "a header's value is malformed"
		contentLength = "there must be one content-length, a number"
		bothLengths   = "content-length and transfer-encoding exclude each other"
		encoding      = "the only transfer-encoding is chunked"
	)
	line := func(text string) string { return text + "\r\nHost: x\r\n\r\n" }
	fields := func(lines ...string) string {
		return "POST /a HTTP/1.1\r\nHost: x\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	for _, tt := range []struct {
		name, text string
		taken      int    // requests
		says       string // to what follows them
	}{
		{"two requests", get + get, 2, ""},
		{"a body that looks like a request", fields("Content-Length: 7") + "GET / \n" + get, 2, ""},
		{"chunked", fields("transfer-encoding: Chunked") + "0\r\n\r\nanything", 1, ""},
		{"chunked, with a trailer", fields("transfer-encoding: chunked") + "0\r\nA: b\r\n\r\n" + get, 1, ""},
		{"chunked, and a request", fields("transfer-encoding: chunked") + "0\r\n\r\n" + get, 1, ""},
		{"empty body", fields("Content-Length: 0") + get, 2, ""},
		{"length with blanks around", fields("Content-Length:\t 4 \t") + "abcd" + get, 2, ""},
		{"bare LF", "GET /a HTTP/1.1\nHost: x\n\n", 0, lineEnd},
		{"bare LF, after a request", get + "GET /a HTTP/1.1\nHost: x\n\n", 1, lineEnd},
		{"bare LF after the first line", "GET /a HTTP/1.1\nHost: x\r\n\r\n", 0, lineEnd},
		{"bare LF before the last", "GET /a HTTP/1.1\r\nHost: x\n\r\n", 0, lineEnd},
		{"bare LF between headers", fields("A: b\nContent-Length: 3"), 0, lineEnd},
		{"bare CR", fields("A: b\rContent-Length: 3"), 0, value},
		{"bare CR in the first line", line("GET /a HTTP/1.1\r"), 0, requestLine},
		{"CR CR LF", fields("A: b\r"), 0, value},
		{"NUL", fields("A: \x00"), 0, value},
		{"NUL in the first line", line("GET /a\x00 HTTP/1.1"), 0, requestLine},
		{"empty line first", "\r\n" + get, 0, requestLine},
		{"obs-fold", fields("A: b", " c: d"), 0, name},
		{"obs-fold of the first", "GET /a HTTP/1.1\r\n\tHost: x\r\n\r\n", 0, name},
		{"obs-fold without a colon", fields("A: b", " c"), 0, "a header is malformed"},
		{"both lengths", fields("Content-Length: 4", "Transfer-Encoding: chunked"), 0, bothLengths},
		{"both lengths, turned", fields("Transfer-Encoding: chunked", "Content-Length: 4"), 0, bothLengths},
		{"length twice", fields("Content-Length: 4", "Content-Length: 4"), 0, contentLength},
		{"length twice, the first of them none", fields("Content-Length: x", "Content-Length: 4"), 0, contentLength},
		{"length in small letters", fields("content-length: 4, 4"), 0, contentLength},
		{"length list", fields("Content-Length: 4, 4"), 0, contentLength},
		{"length signed", fields("Content-Length: +4"), 0, contentLength},
		{"length empty", fields("Content-Length:"), 0, contentLength},
		{"length with a blank inside", fields("Content-Length: 4 4"), 0, contentLength},
		{"length of 64 bits", fields("Content-Length: 9223372036854775808"), 0, contentLength},
		{"length beyond 63 bits", fields("Content-Length: 9999999999999999999"), 0, contentLength},
		{"encoding list", fields("Transfer-Encoding: gzip, chunked"), 0, encoding},
		{"encoding twice", fields("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), 0, encoding},
		{"encoding identity", fields("Transfer-Encoding: identity"), 0, encoding},
		{"encoding identity, then chunked", fields("Transfer-Encoding: identity", "Transfer-Encoding: chunked"), 0, encoding},
		{"encoding with a Kelvin sign", fields("Transfer-Encoding: chun\u212aed"), 0, encoding},
		{"encoding empty", fields("Transfer-Encoding:"), 0, encoding},
		{"encoding by vertical tab", fields("Transfer-Encoding: \vchunked"), 0, value},
		{"absolute form", line("GET http://x/ HTTP/1.1"), 0, requestLine},
		{"authority form", line("CONNECT x:443 HTTP/1.1"), 0, requestLine},
		{"asterisk", line("OPTIONS * HTTP/1.1"), 0, requestLine},
		{"HTTP/1.0", line("GET / HTTP/1.0"), 0, requestLine},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, requestLine},
		{"HTTP/0.9", line("GET /"), 0, requestLine},
		{"no method", line(" / HTTP/1.1"), 0, requestLine},
		{"two spaces", line("GET  / HTTP/1.1"), 0, requestLine},
		{"a tab", line("GET\t/ HTTP/1.1"), 0, requestLine},
		{"a space in the target", line("GET /a b HTTP/1.1"), 0, requestLine},
		{"a space at the end", line("GET /a HTTP/1.1 "), 0, requestLine},
		{"a byte above 127", line("GET /\xe4 HTTP/1.1"), 0, requestLine},
		{"lower case method", line("get / HTTP/1.1"), 0, requestLine},
		{"long line", line("GET /" + strings.Repeat("a", 32<<10) + " HTTP/1.1"), 0, "the head is too long"},
	} {
		for how, send := range map[string]func(*served, string){"at once": (*served).send, "byte by byte": (*served).drip} {
			t.Run(tt.name+"/"+how, func(t *testing.T) {
				v := serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, nil)
				send(v, tt.text)
				if err := v.conn.CloseWrite(); err != nil {
					t.Fatal(err)
				}
				answers := v.whole()
				if n := strings.Count(answers, "HTTP/1.1 200 OK\r\n"); n != tt.taken {
					t.Errorf("%d taken, want %d: %q", n, tt.taken, answers)
				}
				if refused := strings.Count(answers, "HTTP/1.1 4") == 1; refused != (tt.says != "") || !strings.Contains(answers, tt.says) {
					t.Errorf("it says %q, want %q", answers, tt.says)
				}
			})
		}
	}
}

// What can't become a request is refused before its end comes, which it may not.
func TestNoRequestAnyMore(t *testing.T) {
	for _, text := range []string{
		"GET /\r\n", "GET / HTTP/1.0\r\n", "SSH-2.0-x\r\n", "CONNECT x:443 HTTP/1.1\r\n", "GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nHost: x\n",
		"GET / HTTP/1.1\r\nHost: x\r\n folded: a\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\r\n", "GET / HTTP/1.1\r\nHost: x\r\nA\r\n", "GET / HTTP/1.1\r\nA: \x00\r\n",
		"GET / HTTP/1.1\r\nContent-Length: x\r\n", "GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n", "GET / HTTP/1.1\r\nContent-Length: 1\r\nHost: x\r\nContent-Length: 1\r\n",
		"GET / HTTP/1.1\r\nA: " + strings.Repeat("a", 2*bufferSize) + "\r\nA : b\r\n",
	} {
		v := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("it came to the handler") }, nil)
		v.send(text)
		if resp, _ := v.answer("GET"); resp.StatusCode != 400 {
			t.Errorf("%q: got %d", text, resp.StatusCode)
		}
		v.over()
	}
}

// drip sends a text a byte at a time.
func (v *served) drip(text string) {
	for i := range len(text) {
		if _, err := io.WriteString(v.conn, text[i:i+1]); err != nil { // it was refused before its end
			return
		}
	}
}

// A length may be one that never comes.
func TestLongestLength(t *testing.T) {
	got := make(chan int64, 1)
	v := serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.ContentLength }, nil)
	v.send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775807\r\n\r\n")
	if n := within(t, "it comes", got); n != 1<<63-1 {
		t.Error(n)
	}
}
