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
	body    body
	answer  response
}

func (c *serving) blank() *blank {
	b := &blank{ctx: ending.New()}
	b.request = (&http.Request{ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: c.conn.remote, Header: make(http.Header, 8)}).WithContext(b.ctx)
	b.request.Body = &b.body
	b.body.c = c
	b.answer = response{c: c, r: b.request, body: &b.body, header: make(http.Header, 8), left: -1}
	return b
}

// read reads a head that has gone through the connection's own check.
func (b *blank) read(c *serving) error {
	text, err := httphead.CRLF.Read(c.in)
	if err != nil {
		if errors.Is(err, httphead.ErrTooLong) {
			err = &malformed{http.StatusRequestHeaderFieldsTooLarge, err.Error()}
		}
		return err
	}
	line, rest := httphead.CRLF.Cut(text)
	r := b.request
	r.Method, line, _ = strings.Cut(line, " ")
	r.RequestURI, r.Proto, _ = strings.Cut(line, " ")
	if err := httphead.CRLF.Fields(r.Header, rest); err != nil {
		return bad(err.Error())
	}
	if r.URL, err = url.ParseRequestURI(r.RequestURI); err != nil {
		return bad("the target of the request is no path")
	}
	if err := fields(r); err != nil {
		return err
	}
	b.body.begin(r)
	return nil
}

// fields takes what belongs to the connection out of the header.
func fields(r *http.Request) error {
	hosts := r.Header["Host"]
	if len(hosts) != 1 || strings.ContainsAny(hosts[0], " \t\"<>\\^`{|}/?#@") {
		return bad("there must be one host")
	}
	r.Host = hosts[0]
	lengths, encodings := r.Header["Content-Length"], r.Header["Transfer-Encoding"]
	switch {
	case len(encodings) > 0: // that it is chunked, and all there is, was checked
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	case len(lengths) == 1:
		r.ContentLength, _ = number([]byte(lengths[0]))
	}
	if trailer, ok := r.Header["Trailer"]; ok {
		r.Trailer = http.Header{}
		for _, name := range trailer {
			r.Trailer[http.CanonicalHeaderKey(name)] = nil
		}
	}
	for _, name := range []string{"Host", "Transfer-Encoding", "Trailer"} {
		delete(r.Header, name)
	}
	for _, v := range r.Header["Connection"] {
		for option := range strings.SplitSeq(v, ",") {
			r.Close = r.Close || strings.EqualFold(strings.TrimSpace(option), "close")
		}
	}
	if e, ok := r.Header["Expect"]; ok && (len(e) != 1 || !strings.EqualFold(e[0], "100-continue")) {
		return &malformed{http.StatusExpectationFailed, "the only expectation is 100-continue"}
	}
	return nil
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

func (b *body) begin(r *http.Request) {
	b.in, b.left, b.expect = b.c.in, r.ContentLength, r.Header["Expect"] != nil
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
