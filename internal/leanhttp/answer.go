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

// Answer is what came back: a head, and a body to be read. A failure to read it
// ends the connection, and so does Close before its end.
type Answer struct {
	Status int
	Header httphead.Header // with what frames the body, but a length not twice
	Length int64           // of the body; -1 where only its end tells

	room      httphead.Room
	conn      *conn
	transport *Transport
	stop      ending.Stop
	left      int64     // of the body, or one of the constants
	chunks    io.Reader // of a chunked one
	keep      bool      // another answer can follow
	begun     bool
	done      bool
}

// readAnswer reads the head of an answer to a request of the method. What two
// readers could take apart differently is an error, except for lines that end with
// LF alone.
func (c *conn) readAnswer(method string) (*Answer, error) {
	a := &Answer{conn: c, chunks: httputil.NewChunkedReader(c.in)}
	text, err := httphead.LF.Read(c.in, nil)
	if err != nil {
		return nil, err
	}
	line, rest := httphead.LF.Cut(text)
	old, err := a.statusLine(line)
	if err != nil {
		return nil, err
	}
	if a.Header, err = httphead.LF.Fields(a.room[:0], rest); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if err := a.frame(method, old); err != nil {
		return nil, err
	}
	a.keep = a.left != untilEnd && !a.closes(old) && a.Status != http.StatusSwitchingProtocols
	return a, nil
}

// statusLine tells whether the answer is one of HTTP/1.0.
func (a *Answer) statusLine(line string) (old bool, err error) {
	proto, status, _ := strings.Cut(line, " ")
	digits, _, _ := strings.Cut(status, " ")
	code, err := strconv.ParseUint(digits, 10, 16)
	if proto != "HTTP/1.1" && proto != "HTTP/1.0" || err != nil || len(digits) != 3 || code < 100 {
		return false, fmt.Errorf("%w: its first line is %.50q", errAnswer, line)
	}
	a.Status = int(code)
	return proto == "HTTP/1.0", nil
}

// Bodies of no known length, in place of it.
const (
	chunked  = -1
	untilEnd = -2
)

// frame finds where the body ends (RFC 9112, section 6.3).
func (a *Answer) frame(method string, old bool) error {
	length, err := a.told(old)
	switch {
	case err != nil:
		return err
	case method == http.MethodHead, a.Status < 200, a.Status == http.StatusNoContent, a.Status == http.StatusNotModified:
		length = 0
	}
	a.left, a.Length = length, max(length, -1)
	return nil
}

// told is the length that the header tells.
func (a *Answer) told(old bool) (length int64, err error) {
	var encodings, lengths int
	var said string // of the length
	for _, f := range a.Header {
		switch f.Name {
		case "Transfer-Encoding":
			if encodings++; encodings > 1 || old || !httphead.Is(f.Value, "chunked") {
				return 0, fmt.Errorf("%w: its transfer-encoding is not chunked", errAnswer)
			}
		case "Content-Length":
			if lengths++; lengths > 1 && f.Value != said {
				return 0, fmt.Errorf("%w: it has two lengths", errAnswer)
			}
			said = f.Value
		}
	}
	switch {
	case encodings > 0 && lengths > 0:
		return 0, fmt.Errorf("%w: it has both a transfer-encoding and a content-length", errAnswer)
	case encodings > 0:
		return chunked, nil
	case lengths == 0:
		return untilEnd, nil
	case lengths > 1:
		a.Header = a.Header.Set("Content-Length", said) // said alike by each
	}
	n, err := strconv.ParseUint(said, 10, 63) // takes no sign
	if err != nil {
		return 0, fmt.Errorf("%w: its length is no number", errAnswer)
	}
	return int64(n), nil
}

// closes tells whether the server closes the connection after the answer.
func (a *Answer) closes(old bool) bool {
	for options := range a.Header.All("Connection") {
		option := []string{options}
		switch {
		case old && httpguts.HeaderValuesContainsToken(option, "keep-alive"):
			return false
		case !old && httpguts.HeaderValuesContainsToken(option, "close"):
			return true
		}
	}
	return old
}

// Ready tells whether something of an answer of which nothing was read is
// there already, so that a Read would not wait.
func (a *Answer) Ready() bool {
	if a.done || a.begun {
		return false
	}
	there, err := a.conn.in.Peek(a.conn.in.Buffered())
	if err != nil || a.left != chunked {
		return err == nil && len(there) > 0
	}
	_, chunk, ok := bytes.Cut(there, []byte("\n")) // after its length
	return ok && len(chunk) > 0
}

// Read reads the body. Its error is io.EOF only at the end of a whole one.
func (a *Answer) Read(p []byte) (int, error) {
	if a.done {
		return 0, io.EOF
	}
	a.begun = true
	n, err := a.read(p)
	if err != nil {
		a.finish(a.keep && errors.Is(err, io.EOF))
	}
	return n, err
}

// read returns io.EOF only where the body is whole: of one with a length with its
// last bytes, of others after them.
func (a *Answer) read(p []byte) (int, error) {
	switch a.left {
	case untilEnd:
		return a.conn.in.Read(p)
	case chunked:
		n, err := a.chunks.Read(p)
		if n > 0 { // need not wait for what an end takes, which is met again
			return n, nil
		}
		if errors.Is(err, io.EOF) {
			err = a.trailer()
		}
		return 0, err
	case 0:
		return 0, io.EOF
	}
	n, err := a.conn.in.Read(p[:min(int64(len(p)), a.left)])
	if a.left -= int64(n); a.left == 0 {
		return n, io.EOF
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// trailer passes over what follows the last chunk, and returns io.EOF at its end.
func (a *Answer) trailer() error {
	a.conn.limit.Left = headerBytes
	_, err := httphead.LF.Read(a.conn.in, nil)
	a.conn.limit.Left = -1
	switch err {
	case nil:
		return io.EOF
	case io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close ends the answer. What is left of it is not read: the connection goes.
func (a *Answer) Close() error {
	a.finish(false)
	return nil
}

func (a *Answer) finish(keep bool) {
	if a.done {
		return
	}
	a.done = true
	// When the context ended meanwhile, the connection's deadline is over.
	if a.stop.Now() && keep && a.conn.in.Buffered() == 0 {
		a.transport.give(a.conn)
		return
	}
	_ = a.conn.Close()
}
