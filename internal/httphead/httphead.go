// Package httphead reads the head of a message of HTTP/1, a request or an
// answer: its lines up to the empty one (RFC 9112, section 2.1).
package httphead

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// ErrTooLong is returned by a [Limited] of which all was read that may be.
var ErrTooLong = errors.New("the head is too long")

// Limited bounds how much is read of a head.
type Limited struct {
	In   io.Reader
	Left int64 // bytes; negative is no bound
}

// Read is [io.Reader]'s.
func (l *Limited) Read(p []byte) (n int, err error) {
	switch {
	case l.Left < 0:
		n, err = l.In.Read(p)
	case l.Left == 0:
		err = ErrTooLong
	default:
		n, err = l.In.Read(p[:min(int64(len(p)), l.Left)])
		l.Left -= int64(n)
	}
	return n, err
}

// Lines is how a peer ends its lines.
type Lines string

// A server may end them with LF alone (RFC 9112, section 2.2). Of a client that
// is refused: what comes before it may take it for something else.
const (
	CRLF Lines = "\r\n"
	LF   Lines = "\n" // with CR before it or not
)

// Read reads up to the empty line, and returns all before that. The error is
// io.EOF only where nothing came.
func (l Lines) Read(in *bufio.Reader) (string, error) {
	var room [1 << 10]byte
	text := room[:0]
	for {
		part, err := in.ReadSlice('\n')
		starts := len(text) == 0 || text[len(text)-1] == '\n'
		if err == nil && starts && (string(part) == "\r\n" || string(part) == string(l)) {
			return string(text), nil
		}
		text = append(text, part...)
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(text) > 0:
			return "", io.ErrUnexpectedEOF
		default:
			return "", err
		}
	}
}

// Cut cuts off the first line.
func (l Lines) Cut(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, string(l))
	if l == LF {
		line = strings.TrimSuffix(line, "\r")
	}
	return line, rest
}

// Fields reads the lines of a header, of which each has its end, into header. All
// that it puts there is part of text but for the names that are not canonical. The
// error says nothing of what stands there, which may be secret.
func (l Lines) Fields(header http.Header, text string) error {
	values := make([]string, strings.Count(text, string(l)))
	for text != "" {
		var line string
		line, text = l.Cut(text)
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		switch {
		case !ok:
			return errors.New("a header is malformed")
		case !httpguts.ValidHeaderFieldName(name):
			return errors.New("a header's name is malformed")
		case !httpguts.ValidHeaderFieldValue(value):
			return errors.New("a header's value is malformed")
		}
		name = http.CanonicalHeaderKey(name)
		if have := header[name]; have != nil {
			header[name] = append(have, value)
			continue
		}
		values[0] = value
		header[name], values = values[:1:1], values[1:]
	}
	return nil
}
