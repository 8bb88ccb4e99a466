package httphead

import (
	"errors"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// field reads the first line of text, which has its end. The name is canonical;
// one that was not is no part of text, but added to names. The error says nothing
// of what stands there.
func (l Lines) field(text string, names *strings.Builder) (name, value, rest string, err error) {
	colon, canonical := nameOf(text)
	switch {
	case colon < len(text) && text[colon] == ':' && colon > 0:
	case l.hasColon(text):
		return "", "", "", errors.New("a header's name is malformed")
	default:
		return "", "", "", errors.New("a header is malformed")
	}
	if name = text[:colon]; !canonical {
		if names.Cap() == 0 {
			names.Grow(min(len(text), 512)) // for all that follow, mostly
		}
		name = canonically(name, names)
	}
	value, rest, ok := l.value(text[colon+1:])
	if !ok {
		return "", "", "", errors.New("a header's value is malformed")
	}
	return name, value, rest, nil
}

// nameOf is how long the name is with which text begins (RFC 9110, section
// 5.6.2), and whether it is canonical: of each word the first letter is large,
// and no other.
func nameOf(text string) (length int, canonical bool) {
	canonical = true
	for i, begins := 0, true; i < len(text); i++ {
		c := text[i]
		if !httpguts.IsTokenRune(rune(c)) {
			return i, canonical
		}
		if begins && 'a' <= c && c <= 'z' || !begins && 'A' <= c && c <= 'Z' {
			canonical = false
		}
		begins = c == '-'
	}
	return len(text), canonical
}

// canonically is [http.CanonicalHeaderKey], which allocates each name that is not
// a common one. What was added to names before stays what it is.
func canonically(name string, names *strings.Builder) string {
	start, begins := names.Len(), true
	for _, c := range []byte(name) {
		if begins && 'a' <= c && c <= 'z' || !begins && 'A' <= c && c <= 'Z' {
			c ^= 'a' ^ 'A'
		}
		names.WriteByte(c)
		begins = c == '-'
	}
	return names.String()[start:]
}

func (l Lines) hasColon(text string) bool {
	line, _ := l.Cut(text)
	return strings.Contains(line, ":")
}

// value reads what follows a colon up to the line's end. The spaces around it are
// no part of it.
func (l Lines) value(text string) (value, rest string, ok bool) {
	end := control(text)
	value, rest = text[:end], text[end:]
	switch {
	case strings.HasPrefix(rest, "\r\n"):
		rest = rest[2:]
	case l == LF && strings.HasPrefix(rest, "\n"):
		rest = rest[1:]
	default:
		return "", "", false
	}
	for value != "" && blank(value[0]) {
		value = value[1:]
	}
	for value != "" && blank(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	return value, rest, true
}

// control is where the first control character is that no value has.
func control(text string) int {
	for i := range len(text) {
		c := text[i]
		if c-' ' < 0x7f-' ' { // by far most
			continue
		}
		if c < ' ' && c != '\t' || c == 0x7f {
			return i
		}
	}
	return len(text)
}

func blank(c byte) bool { return c == ' ' || c == '\t' }
