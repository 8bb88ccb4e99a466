package leanhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/httphead"
)

var errAnswer = errors.New("malformed HTTP answer")

// received is what an answer becomes, in one piece of memory.
type received struct {
	resp http.Response
	body body
	room httphead.Room // of its header
}

// readAnswer reads the head of an answer to req. What two readers could take
// apart differently is an error, except for lines that end with LF alone.
// Beside the body it returns whether another answer can follow it.
func (c *conn) readAnswer(req *http.Request) (resp *http.Response, keep bool, err error) {
	// Made while the answer is awaited, not after it came.
	a := &received{resp: http.Response{ProtoMajor: 1, Request: req, Header: httphead.NewHeader()}, body: body{conn: c, chunks: httputil.NewChunkedReader(c.in)}}
	resp = &a.resp
	text, err := httphead.LF.Read(c.in)
	if err != nil {
		return nil, false, err
	}
	line, rest := httphead.LF.Cut(text)
	if err := statusLine(resp, line); err != nil {
		return nil, false, err
	}
	if err := httphead.LF.Fields(resp.Header, rest, a.room.For(&resp.Header, rest)); err != nil {
		return nil, false, fmt.Errorf("%w: %w", errAnswer, err)
	}
	length, err := frame(resp, req.Method)
	if err != nil {
		return nil, false, err
	}
	resp.Close = closes(resp) || length == untilEnd
	a.body.left = length
	resp.Body = &a.body
	return resp, !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols, nil
}

func statusLine(resp *http.Response, line string) error {
	proto, status, _ := strings.Cut(line, " ")
	digits, _, _ := strings.Cut(status, " ")
	code, err := strconv.ParseUint(digits, 10, 16)
	if proto != "HTTP/1.1" && proto != "HTTP/1.0" || err != nil || len(digits) != 3 || code < 100 {
		return fmt.Errorf("%w: its first line is %.50q", errAnswer, line)
	}
	resp.Proto, resp.ProtoMinor = proto, int(proto[len(proto)-1]-'0')
	resp.Status, resp.StatusCode = status, int(code)
	return nil
}

// Bodies of no known length, in place of it.
const (
	chunked  = -1
	untilEnd = -2
)

// frame tells where the body ends (RFC 9112, section 6.3).
func frame(resp *http.Response, method string) (length int64, err error) {
	length, err = told(resp)
	switch {
	case err != nil:
		return 0, err
	case method == http.MethodHead, resp.StatusCode < 200, resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified:
		resp.ContentLength, resp.TransferEncoding = 0, nil
		return 0, nil
	}
	resp.ContentLength = max(length, -1)
	return length, nil
}

// told is the length that the header tells.
func told(resp *http.Response) (length int64, err error) {
	encodings, lengths := resp.Header["Transfer-Encoding"], resp.Header["Content-Length"]
	switch {
	case len(encodings) > 1, len(encodings) == 1 && !strings.EqualFold(encodings[0], "chunked"), len(encodings) == 1 && resp.ProtoMinor == 0:
		return 0, fmt.Errorf("%w: its transfer-encoding is not chunked", errAnswer)
	case len(encodings) == 1 && len(lengths) > 0:
		return 0, fmt.Errorf("%w: it has both a transfer-encoding and a content-length", errAnswer)
	case len(encodings) == 1:
		delete(resp.Header, "Transfer-Encoding")
		resp.TransferEncoding = encodings
		return chunked, nil
	case len(lengths) == 0:
		return untilEnd, nil
	}
	for _, other := range lengths[1:] {
		if other != lengths[0] {
			return 0, fmt.Errorf("%w: it has two lengths", errAnswer)
		}
	}
	n, err := strconv.ParseUint(lengths[0], 10, 63) // takes no sign
	if err != nil {
		return 0, fmt.Errorf("%w: its length is no number", errAnswer)
	}
	resp.Header["Content-Length"] = lengths[:1]
	return int64(n), nil
}

// closes tells whether the server closes the connection after the answer.
func closes(resp *http.Response) bool {
	values := resp.Header["Connection"]
	if resp.ProtoMinor == 0 {
		return !httpguts.HeaderValuesContainsToken(values, "keep-alive")
	}
	return httpguts.HeaderValuesContainsToken(values, "close")
}

// body is an answer's. It gives the connection back at its end.
type body struct {
	conn      *conn
	transport *Transport
	stop      ending.Stop
	left      int64     // that is yet to come, or one of the constants
	chunks    io.Reader // of a chunked one
	keep      bool
	begun     bool
	done      bool
}

// Ready tells whether something of an answer of which nothing was read is
// there already, so that a Read would not wait.
func (b *body) Ready() bool {
	if b.done || b.begun {
		return false
	}
	there, err := b.conn.in.Peek(b.conn.in.Buffered())
	if err != nil || b.left != chunked {
		return err == nil && len(there) > 0
	}
	_, chunk, ok := bytes.Cut(there, []byte("\n")) // after its length
	return ok && len(chunk) > 0
}

func (b *body) Read(p []byte) (int, error) {
	if b.done {
		return 0, io.EOF
	}
	b.begun = true
	n, err := b.read(p)
	if err != nil {
		b.finish(b.keep && errors.Is(err, io.EOF))
	}
	return n, err
}

// read returns io.EOF only where the body is whole, and then with its last bytes.
func (b *body) read(p []byte) (int, error) {
	switch b.left {
	case untilEnd:
		return b.conn.in.Read(p)
	case chunked:
		n, err := b.chunks.Read(p)
		if errors.Is(err, io.EOF) {
			err = b.trailer()
		}
		return n, err
	case 0:
		return 0, io.EOF
	}
	n, err := b.conn.in.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		return n, io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// trailer passes over what follows the last chunk, and returns io.EOF at its end.
func (b *body) trailer() error {
	b.conn.limit.Left = headerBytes
	_, err := httphead.LF.Read(b.conn.in)
	b.conn.limit.Left = -1
	switch err {
	case nil:
		return io.EOF
	case io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close ends the answer. What is left of it is not read: the connection goes.
func (b *body) Close() error {
	b.finish(false)
	return nil
}

func (b *body) finish(keep bool) {
	if b.done {
		return
	}
	b.done = true
	// When the context ended meanwhile, the connection's deadline is over.
	if b.stop.Now() && keep && b.conn.in.Buffered() == 0 {
		b.transport.give(b.conn)
		return
	}
	_ = b.conn.Close()
}
