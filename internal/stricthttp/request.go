package stricthttp

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/httphead"
)

// Request is a request as a [Handler] has it.
type Request struct {
	Method string
	Target string // as it came: a path, and maybe a query
	URL    *url.URL
	Header httphead.Header // without Host and Transfer-Encoding
	Length int64           // of the body; -1 for a chunked one
	Remote netip.Addr      // the client's, IPv4 as such even when it came mapped; of anything but TCP the zero Addr
	Body   io.Reader

	ctx   *ending.Context
	host  single
	close bool // the client ends the connection with it
}

// Context ends when the client hangs up, and after the handler.
func (r *Request) Context() *ending.Context { return r.ctx }

// Whole returns all that is left of the body, if that came already. It is then read.
// The text is the connection's own memory: it is not to be kept or changed, and is
// there until the handler returns.
func (r *Request) Whole() (text []byte, ok bool) {
	b, ok := r.Body.(*body)
	if !ok {
		return nil, false
	}
	return b.rest()
}

// malformed is what is no request, or one that is not taken.
type malformed struct {
	status int
	why    string
}

func (m *malformed) Error() string { return m.why }

func (m *malformed) answer() []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s\n",
		m.status, http.StatusText(m.status), len(m.why)+1, m.why)
}

var errRequestLine = bad("a request line must be METHOD /PATH HTTP/1.1")

func bad(why string) error { return &malformed{http.StatusBadRequest, why} }

// blank is what a request becomes. It is made before that comes, when nobody
// waits for it.
type blank struct {
	request Request
	url     url.URL
	body    body
	answer  Response

	expect, length, encoding single
}

// single is a field of which a message may have one line.
type single struct {
	lines int
	value string // the last line's
}

func (s *single) add(value string) { s.lines, s.value = s.lines+1, value }

// is tells whether there is one line, which says the word.
func (s *single) is(word string) bool { return s.lines == 1 && httphead.Is(s.value, word) }

// number is what the one line says in digits: no sign, no space, no list.
func (s *single) number() (n int64, ok bool) {
	if s.lines != 1 {
		return 0, false
	}
	u, err := strconv.ParseUint(s.value, 10, 63)
	return int64(u), err == nil
}

func (c *serving) blank() *blank {
	b := &blank{request: Request{Remote: c.conn.addr, ctx: new(ending.Context)}}
	b.request.Body = &b.body
	b.body.c = c
	b.answer.c, b.answer.r, b.answer.body, b.answer.left = c, &b.request, &b.body, -1
	b.answer.header = c.added
	return b
}

// read takes a head apart.
func (b *blank) read(text string) (err error) {
	line, rest := httphead.CRLF.Cut(text)
	r := &b.request
	var ok bool
	if r.Method, r.Target, ok = requestLine(line); !ok {
		return errRequestLine
	}
	if r.Header, err = httphead.CRLF.Fields(b.body.c.fields, rest); err != nil {
		return bad(err.Error())
	}
	r.Header = slices.DeleteFunc(r.Header, b.take)
	if err = b.frame(); err != nil {
		return err
	}
	if r.URL, err = b.target(); err != nil {
		return bad("the target of the request is no path")
	}
	if r.host.lines != 1 || strings.ContainsAny(r.host.value, " \t\"<>\\^`{|}/?#@") {
		return bad("there must be one host")
	}
	if b.expect.lines > 0 && !b.expect.is("100-continue") {
		return &malformed{http.StatusExpectationFailed, "the only expectation is 100-continue"}
	}
	b.body.begin(r.Length, b.expect.lines > 0)
	return nil
}

// take looks at a field that belongs to the connection. It returns true where the
// handler's header is to be without it.
func (b *blank) take(f httphead.Field) bool {
	r := &b.request
	switch f.Name {
	case "Host":
		r.host.add(f.Value)
		return true
	case "Transfer-Encoding":
		b.encoding.add(f.Value)
		return true
	case "Content-Length":
		b.length.add(f.Value)
	case "Connection":
		for option := range strings.SplitSeq(f.Value, ",") {
			r.close = r.close || httphead.Is(strings.Trim(option, " \t"), "close")
		}
	case "Expect":
		b.expect.add(f.Value)
	}
	return false
}

// frame finds where the body ends, which must be told in one way.
func (b *blank) frame() error {
	r := &b.request
	switch {
	case b.length.lines > 0 && b.encoding.lines > 0:
		return bad("content-length and transfer-encoding exclude each other")
	case b.length.lines > 0:
		var ok bool
		if r.Length, ok = b.length.number(); !ok {
			return bad("there must be one content-length, a number")
		}
	case b.encoding.is("chunked"):
		r.Length = -1
	case b.encoding.lines > 0:
		return bad("the only transfer-encoding is chunked")
	}
	return nil
}

// lines checks the lines of a head as they come: one that is none may never end.
func lines() func(line string) error {
	first, b := true, blank{}
	return func(line string) error {
		if first {
			first = false
			text, _ := httphead.CRLF.Cut(line)
			if _, _, ok := requestLine(text); !ok {
				return errRequestLine
			}
			return nil
		}
		fields, err := httphead.CRLF.Fields(nil, line)
		if err != nil {
			return bad(err.Error())
		}
		for _, f := range fields {
			b.take(f)
		}
		return b.frame()
	}
}

// requestLine takes the first line of a head apart. Of targets there are only
// paths: they are for this server, and for no other.
func requestLine(line string) (method, target string, ok bool) {
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	if method == "" || !strings.HasPrefix(target, "/") || version != "HTTP/1.1" {
		return "", "", false
	}
	for _, c := range []byte(method) {
		if c < 'A' || c > 'Z' {
			return "", "", false
		}
	}
	for _, c := range []byte(target) {
		if c <= ' ' || c >= 0x7f {
			return "", "", false
		}
	}
	return method, target, true
}

// target is what [url.ParseRequestURI] makes of the request's target.
func (b *blank) target() (*url.URL, error) {
	path, query, asks := strings.Cut(b.request.Target, "?")
	if !strings.HasPrefix(path, "/") || !plain(path) || asks && !plain(query) {
		return url.ParseRequestURI(b.request.Target)
	}
	b.url.Path, b.url.RawQuery = path, query
	return &b.url, nil
}

// plain tells whether nothing stands for something else in a path, or a query:
// nearly none needs more.
func plain(text string) bool {
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '/', c == '-', c == '_', c == '.', c == ':', c == '=', c == '&':
		default:
			return false
		}
	}
	return text != ""
}
