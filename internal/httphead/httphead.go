// Package httphead reads the head of a message of HTTP/1, a request or an
// answer: its lines up to the empty one (RFC 9112, section 2.1). The
// header becomes a list.
package httphead

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

var (
	// ErrTooLong is returned by a [Limited] of which all was read that may be.
	ErrTooLong = errors.New("the head is too long")

	// ErrLineEnd is returned by [Lines.Read] of CRLF for a line that ends with LF alone.
	ErrLineEnd = errors.New("a line must end with CR LF")
)

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
// io.EOF only where nothing came, io.ErrUnexpectedEOF where the head broke off,
// ErrLineEnd, or what in says. Each line of a head that is not there at once is
// shown to check as it comes, with its end, unless that is nil: an error of it is
// Read's.
func (l Lines) Read(in *bufio.Reader, check func(line string) error) (string, error) {
	if _, err := in.Peek(1); err != nil {
		return "", err
	}
	if text, ok := l.Take(in); ok {
		return text, nil
	}
	return l.gather(in, check)
}

// Take is Read of a head that is in the buffer whole, as nearly all are, and whose
// lines end as they must. Of another it takes nothing.
func (l Lines) Take(in *bufio.Reader) (text string, ok bool) {
	there, err := in.Peek(in.Buffered())
	if err != nil {
		return "", false
	}
	for end := 0; ; {
		if length := l.empty(there[end:]); length > 0 {
			text = string(there[:end])
			_, err = in.Discard(end + length)
			return text, err == nil
		}
		i := bytes.IndexByte(there[end:], '\n')
		if i < 0 {
			return "", false
		}
		if end += i + 1; !l.ends(there[:end]) {
			return "", false
		}
	}
}

// empty is how long the empty line is with which text begins, 0 if with none.
func (l Lines) empty(text []byte) int {
	switch {
	case len(text) > 1 && text[0] == '\r' && text[1] == '\n':
		return 2
	case len(text) > 0 && text[0] == '\n' && l == LF:
		return 1
	}
	return 0
}

// ends tells whether text, which has LF at its end, ends as a line must.
func (l Lines) ends(text []byte) bool {
	return l == LF || len(text) > 1 && text[len(text)-2] == '\r'
}

// gather is Read of a head that comes in parts, or is larger than the buffer.
func (l Lines) gather(in *bufio.Reader, check func(line string) error) (string, error) {
	var room [1 << 10]byte
	text := room[:0]
	line := 0 // where it begins
	for {
		part, err := in.ReadSlice('\n')
		if err == nil && line == len(text) && l.empty(part) > 0 {
			return string(text), nil
		}
		text = append(text, part...)
		switch {
		case err == nil && !l.ends(text):
			return "", ErrLineEnd // the head may end nowhere
		case err == nil:
			if check != nil {
				if err := check(string(text[line:])); err != nil {
					return "", err
				}
			}
			line = len(text)
		case errors.Is(err, bufio.ErrBufferFull):
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

// Fields reads the lines of a header, of which each has its end, and appends them
// to header. All that it puts there is part of text but for the names that are not
// canonical. The error says nothing of what stands there, which may be secret.
func (l Lines) Fields(header Header, text string) (Header, error) {
	if n := strings.Count(text, "\n"); n > cap(header)-len(header) {
		header = append(make(Header, 0, len(header)+n), header...)
	}
	var names strings.Builder
	for text != "" {
		name, value, rest, err := l.field(text, &names)
		if err != nil {
			return nil, err
		}
		header = append(header, Field{name, value})
		text = rest
	}
	return header, nil
}
