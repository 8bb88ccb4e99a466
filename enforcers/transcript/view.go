package transcript

import "strconv"

// view is a text, and where each byte of it stands in the file's bytes. The
// first view of a text is the bytes themselves; further ones have the escapes
// of JSON and URLs decoded, in windows around those that matter.
type view struct {
	text []byte
	at   []int // at[i] is where byte i begins, at[i+1] where it ends; nil: at[i] is i
	// taken tells for a place in the file's bytes that what ends, or begins,
	// there gives way to a replacement.
	taken *taken
	// cutStart and cutEnd tell that the text goes on where this view of it
	// does not: what is found there was to be found in the view it is part of.
	cutStart, cutEnd bool
	// run is the last stretch of token bytes that was followed: a text of
	// prefixes alone must not be followed from each of them anew.
	run struct{ from, to int }
}

type taken struct{ ends, starts map[int]bool }

func (v *view) raw(i int) int {
	if v.at == nil {
		return i
	}
	return v.at[i]
}

// standIn is the neighbour that a replacement is: both begin and end with what
// is neither digit nor letter to the rules of boundaries, so that what is
// found does not depend on whether its neighbour was replaced before.
const standIn = ']'

// unknown is the neighbour behind a view's edge: a digit, which every rule
// refuses.
const unknown = '0'

// before returns the character that ends before i, escapes decoded, and where
// it begins; 0 at the text's start.
func (v *view) before(i int) (byte, int) {
	switch {
	case v.taken.ends[v.raw(i)]:
		return standIn, i
	case i == 0 && v.cutStart:
		return unknown, 0
	case i == 0:
		return 0, 0
	}
	if i >= 6 {
		if c, n := escapeAt(v.text, i-6); n == 6 {
			return c, i - 6
		}
	}
	if i >= 3 && v.text[i-3] == '%' {
		if c, n := escapeAt(v.text, i-3); n == 3 {
			return c, i - 3
		}
	}
	if i >= 2 {
		if c, n := escapeAt(v.text, i-2); n == 2 {
			return c, i - 2
		}
	}
	return v.text[i-1], i - 1
}

// after returns the character at i, escapes decoded however many backslashes
// they have, and where the next begins; 0 at the text's end.
func (v *view) after(i int) (byte, int) {
	switch {
	case v.taken.starts[v.raw(i)]:
		return standIn, i
	case i == len(v.text) && v.cutEnd:
		return unknown, i
	case i == len(v.text):
		return 0, i
	}
	j := i
	for j+1 < len(v.text) && j < i+maxBackslashes && v.text[j] == '\\' && v.text[j+1] == '\\' {
		j++
	}
	if c, n := escapeAt(v.text, j); n > 0 {
		return c, j + n
	}
	return v.text[i], i + 1
}

const maxBackslashes = 15 // JSON in JSON in JSON in JSON

// escapeAt decodes the escape that begins at i; the length is 0 when none does.
// What is no ASCII character is returned as 0xff.
func escapeAt(text []byte, i int) (c byte, length int) {
	rest := text[i:]
	switch {
	case len(rest) >= 3 && rest[0] == '%' && isHex(rest[1]) && isHex(rest[2]):
		return unhex(rest[1])<<4 | unhex(rest[2]), 3
	case len(rest) < 2 || rest[0] != '\\':
		return 0, 0
	case rest[1] == 'u':
		if len(rest) < 6 {
			return 0, 0
		}
		n, err := strconv.ParseUint(string(rest[2:6]), 16, 16)
		switch {
		case err != nil:
			return 0, 0
		case n >= 0x80:
			return 0xff, 6
		}
		return byte(n), 6
	}
	switch rest[1] {
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case '"', '\\', '/':
		return rest[1], 2
	}
	return 0, 0
}

func unhex(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return lower(c) - 'a' + 10
}

// decoded is v between lo and hi, decoded once.
func (v *view) decoded(lo, hi int) *view {
	d := &view{taken: v.taken, cutStart: lo > 0 || v.cutStart, cutEnd: hi < len(v.text) || v.cutEnd}
	i := lo
	for i < hi {
		d.at = append(d.at, v.raw(i))
		if c, n := escapeAt(v.text, i); n > 0 {
			d.text = append(d.text, c)
			i += n
			continue
		}
		d.text = append(d.text, v.text[i])
		i++
	}
	d.at = append(d.at, v.raw(min(i, len(v.text))))
	return d
}

// boundary is the last place from lo to i that no escape reaches across.
func (v *view) boundary(lo, i int) int {
	for i > lo {
		moved := false
		for d := 1; d <= 5 && i-d >= lo; d++ {
			if c := v.text[i-d]; c == '\\' || c == '%' && d <= 2 {
				i -= d
				moved = true
				break
			}
		}
		if !moved {
			break
		}
	}
	return i
}

// splits tells whether i lies within a \uXXXX.
func (v *view) splits(i int) bool {
	for d := 1; d <= 5 && d <= i; d++ {
		if v.text[i-d] == '\\' {
			_, n := escapeAt(v.text, i-d)
			return n > d && n == 6
		}
	}
	return false
}

// dangles tells whether the byte before i is a backslash that is not itself
// escaped: together with the byte at i it is an escape.
func (v *view) dangles(i int) bool {
	n := 0
	for n < i && v.text[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}
