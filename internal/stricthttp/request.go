package stricthttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/httphead"
)

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

func bad(why string) error { return &malformed{http.StatusBadRequest, why} }

// blank is what a request becomes. It is made before that comes, when nobody
// waits for it.
type blank struct {
	request *http.Request
	ctx     *ending.Context // its own
	url     url.URL
	room    httphead.Room // of the request's header
	hosts   int
	body    body
	answer  response
}

func (c *serving) blank() *blank {
	b := &blank{ctx: ending.New()}
	b.request = (&http.Request{
		ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: c.conn.remote, Header: httphead.NewHeader(), Body: &b.body,
	}).WithContext(b.ctx)
	b.body.c = c
	b.answer = response{c: c, r: b.request, body: &b.body, header: httphead.NewHeader(), left: -1}
	return b
}

// read takes a head apart that has gone through the connection's own check.
func (b *blank) read(text string) (err error) {
	line, rest := httphead.CRLF.Cut(text)
	r := b.request
	r.Method, line, _ = strings.Cut(line, " ")
	r.RequestURI, r.Proto, _ = strings.Cut(line, " ")
	if err := b.fields(rest); err != nil {
		return bad(err.Error())
	}
	if r.URL, err = b.target(); err != nil {
		return bad("the target of the request is no path")
	}
	if b.hosts != 1 || strings.ContainsAny(r.Host, " \t\"<>\\^`{|}/?#@") {
		return bad("there must be one host")
	}
	expect := r.Header["Expect"]
	if expect != nil && (len(expect) != 1 || !strings.EqualFold(expect[0], "100-continue")) {
		return &malformed{http.StatusExpectationFailed, "the only expectation is 100-continue"}
	}
	b.body.begin(r, expect != nil)
	return nil
}

// fields reads the header.
func (b *blank) fields(text string) error {
	values := b.room.For(&b.request.Header, text)
	var names strings.Builder
	for text != "" {
		name, value, rest, err := httphead.CRLF.Field(text, &names)
		if err != nil {
			return err
		}
		if !b.take(name, value) {
			values.Add(b.request.Header, name, value)
		}
		text = rest
	}
	return nil
}

// take looks at a field that belongs to the connection. It returns true where the
// handler's header is to be without it.
func (b *blank) take(name, value string) bool {
	r := b.request
	switch name {
	case "Host":
		r.Host = value
		b.hosts++
		return true
	case "Transfer-Encoding": // that it is chunked, and all there is, was checked
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
		return true
	case "Trailer":
		if r.Trailer == nil {
			r.Trailer = http.Header{}
		}
		r.Trailer[http.CanonicalHeaderKey(value)] = nil
		return true
	case "Content-Length": // that there is one, a number, was checked as well
		r.ContentLength, _ = number([]byte(value))
	case "Connection":
		for option := range strings.SplitSeq(value, ",") {
			r.Close = r.Close || strings.EqualFold(strings.TrimSpace(option), "close")
		}
	}
	return false
}

// target is what [url.ParseRequestURI] makes of the request's target.
func (b *blank) target() (*url.URL, error) {
	path, query, asks := strings.Cut(b.request.RequestURI, "?")
	if !strings.HasPrefix(path, "/") || !plain(path) || asks && !plain(query) {
		return url.ParseRequestURI(b.request.RequestURI)
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

// body is a request's.
type body struct {
	c       *serving
	chunked bool

	mu     sync.Mutex
	in     io.Reader
	left   int64 // of one with a length
	expect bool  // the client waits for a word before it sends it
	err    error // what each further read returns
}

func (b *body) begin(r *http.Request, expect bool) {
	b.in, b.left, b.expect = b.c.in, r.ContentLength, expect
	if r.ContentLength < 0 {
		b.chunked, b.in = true, httputil.NewChunkedReader(b.c.in)
	}
	if b.left == 0 {
		b.err = io.EOF
	}
	b.c.whole.Store(b.left == 0)
}

// Read reads from the connection, and never beyond the body.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.c.in.Buffered() == 0 {
		b.c.disarm() // how long a body may take is the handler's matter
	}
	if b.expect {
		b.expect = false
		if _, err := b.c.conn.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			b.err = err
			return 0, err
		}
	}
	if !b.chunked {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.in.Read(p)
	b.advance(n, err)
	return n, b.err
}

// advance notes what a read brought.
func (b *body) advance(n int, err error) {
	switch {
	case b.chunked && errors.Is(err, io.EOF):
		if b.err = b.trailer(); b.err == nil {
			b.err = io.EOF
		}
	case b.chunked:
		b.err = err
	default:
		if b.left -= int64(n); b.left == 0 {
			b.err = io.EOF
		} else if b.err = err; errors.Is(err, io.EOF) {
			b.err = io.ErrUnexpectedEOF
		}
	}
	b.c.whole.Store(b.err == io.EOF)
}

// trailer reads the end of a chunked body. Fields are not taken there.
func (b *body) trailer() error {
	line, err := b.c.in.ReadString('\n')
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case line != "\r\n":
		return errors.New("a chunked body may have no trailer")
	}
	return nil
}

// Close leaves the rest of the body unread.
func (b *body) Close() error { return nil }

// skip passes over a body that is there already, and tells whether it is through.
func (b *body) skip() bool {
	if b.c.whole.Load() {
		return true
	}
	if !b.mu.TryLock() { // somebody reads it
		return false
	}
	defer b.mu.Unlock()
	if b.chunked || b.err != nil || b.left > int64(b.c.in.Buffered()) {
		return false
	}
	n, err := b.c.in.Discard(int(b.left))
	b.advance(n, err)
	return b.err == io.EOF
}

// end makes whoever still reads the body let go of the connection, which then ends.
func (b *body) end() {
	if b.c.whole.Load() {
		return
	}
	_ = b.c.conn.SetReadDeadline(past)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
	}
}
