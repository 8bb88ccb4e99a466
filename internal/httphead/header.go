package httphead

import (
	"iter"
	"net/http"
	"slices"
	"strings"
)

// Field is a line of a header. Its name is canonical, see
// [http.CanonicalHeaderKey].
type Field struct{ Name, Value string }

// Append appends the line to text, with its end.
func (f Field) Append(text []byte) []byte {
	text = append(append(text, f.Name...), ": "...)
	return append(append(text, f.Value...), "\r\n"...)
}

// Is tells whether a value is a word, which is of ASCII, in whatever case. To
// [strings.EqualFold] alone the Kelvin sign is a k, too.
func Is(value, word string) bool { return len(value) == len(word) && strings.EqualFold(value, word) }

// Header is the lines of a header in their order. To look one up in it takes less
// time than in a map, for there are few; and to make it, next to none.
type Header []Field

// Room is for the lines of most headers. It is part of what a message becomes, so
// that none is allocated for them.
type Room [16]Field

// All are the values of a name, in their order. The name is canonical.
func (h Header) All(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range h {
			if f.Name == name && !yield(f.Value) {
				return
			}
		}
	}
}

// Get is the first value of a name, and "" where there is none.
func (h Header) Get(name string) string {
	for value := range h.All(name) {
		return value
	}
	return ""
}

// Without returns the header without the lines of a name. It uses h's memory.
func (h Header) Without(name string) Header {
	return slices.DeleteFunc(h, func(f Field) bool { return f.Name == name })
}

// Set returns the header with one line of a name, in place of any that it had. It
// uses h's memory.
func (h Header) Set(name, value string) Header {
	return append(h.Without(name), Field{name, value})
}

// Standard is the header as net/http has it.
func (h Header) Standard() http.Header {
	all := make(http.Header, len(h))
	for _, f := range h {
		all[f.Name] = append(all[f.Name], f.Value)
	}
	return all
}
