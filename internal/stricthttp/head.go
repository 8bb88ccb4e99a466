package stricthttp

import (
	"bytes"
	"errors"
	"math"
)

// maxLine bounds a line of a request's head, in bytes.
const maxLine = 64 << 10

// What is refused.
var (
	errLineEnd       = errors.New("a line must end with CR LF, and hold no other CR, LF or NUL")
	errLineLength    = errors.New("a line of the head is too long")
	errRequestLine   = errors.New("a request line must be METHOD /PATH HTTP/1.1")
	errFolded        = errors.New("a header must be on one line")
	errContentLength = errors.New("there must be one content-length, a number")
	errBothLengths   = errors.New("content-length and transfer-encoding exclude each other")
	errEncoding      = errors.New("the only transfer-encoding is chunked")
)

// head follows the requests of a connection: it checks each head and skips
// each body. The server must end the connection after a chunked request
// (answer with "Connection: close"): where such a body ends is the server's
// matter, and what follows it is not looked at.
type head struct {
	line    []byte // what came of an unfinished line
	inHead  bool   // the request line is through
	through bool   // a chunked body began
	body    int64  // bytes of the body that are yet to come

	length  int64 // content-length of the head at hand, -1 for none
	chunked bool
}

// feed takes the next bytes of the connection.
func (h *head) feed(p []byte) error {
	for len(p) > 0 && !h.through {
		if h.body > 0 {
			n := min(h.body, int64(len(p)))
			h.body -= n
			p = p[n:]
			continue
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			return h.keep(p)
		}
		line := p[:i+1]
		if len(h.line) > 0 {
			if err := h.keep(line); err != nil {
				return err
			}
			line = h.line
		}
		if err := h.take(line); err != nil {
			return err
		}
		h.line = h.line[:0]
		p = p[i+1:]
	}
	return nil
}

func (h *head) keep(part []byte) error {
	if len(h.line)+len(part) > maxLine {
		return errLineLength
	}
	h.line = append(h.line, part...)
	return nil
}

// take checks a whole line, its end included.
func (h *head) take(line []byte) error {
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok || bytes.IndexByte(text, '\r') >= 0 || bytes.IndexByte(text, 0) >= 0 {
		return errLineEnd
	}
	switch {
	case !h.inHead:
		h.inHead, h.length, h.chunked = true, -1, false
		return requestLine(text)
	case len(text) == 0:
		return h.end()
	case text[0] == ' ' || text[0] == '\t':
		return errFolded
	}
	return h.field(text)
}

// end is at the empty line.
func (h *head) end() error {
	h.inHead = false
	switch {
	case h.chunked && h.length >= 0:
		return errBothLengths
	case h.chunked:
		h.through = true
	case h.length > 0:
		h.body = h.length
	}
	return nil
}

// cut is [bytes.Cut] at a byte.
func cut(text []byte, at byte) (before, after []byte) {
	if i := bytes.IndexByte(text, at); i >= 0 {
		return text[:i], text[i+1:]
	}
	return text, nil
}

func requestLine(text []byte) error {
	method, rest := cut(text, ' ')
	target, version := cut(rest, ' ')
	if len(method) == 0 || len(target) == 0 || target[0] != '/' || string(version) != "HTTP/1.1" {
		return errRequestLine
	}
	for _, c := range method {
		if c < 'A' || c > 'Z' {
			return errRequestLine
		}
	}
	for _, c := range target {
		if c <= ' ' || c >= 0x7f {
			return errRequestLine
		}
	}
	return nil
}

func (h *head) field(text []byte) error {
	if c := text[0] | 0x20; c != 'c' && c != 't' { // nearly all are neither of the two below
		return nil
	}
	name, value := cut(text, ':')
	for len(value) > 0 && (value[0] == ' ' || value[0] == '\t') {
		value = value[1:]
	}
	for n := len(value); n > 0 && (value[n-1] == ' ' || value[n-1] == '\t'); n-- {
		value = value[:n-1]
	}
	switch {
	case bytes.EqualFold(name, []byte("content-length")):
		n, ok := number(value)
		if !ok || h.length >= 0 {
			return errContentLength
		}
		h.length = n
	case bytes.EqualFold(name, []byte("transfer-encoding")):
		if h.chunked || !bytes.EqualFold(value, []byte("chunked")) {
			return errEncoding
		}
		h.chunked = true
	}
	return nil
}

// number reads digits only: no sign, no space, no list.
func number(value []byte) (int64, bool) {
	var n int64
	for _, c := range value {
		digit := int64(c) - '0'
		if digit < 0 || digit > 9 || n > (math.MaxInt64-digit)/10 {
			return 0, false
		}
		n = 10*n + digit
	}
	return n, len(value) > 0
}
