package transcript

import "strings"

// verify returns the range of the view that c stands for, and whether its
// neighbours are those of the value and not of a longer one.
func (c candidate) verify() (start, end int, ok bool) {
	v, start, end := c.view, c.at, c.at+len(c.p.text)
	if v.splits(start) {
		return 0, 0, false
	}
	switch c.p.kind {
	case kindToken:
		end = min(v.tokenRun(end), c.at+maxToken)
		// A prefix that stands before an address would be one of a token once
		// that is a name.
		ok = end > c.at+len(c.p.text) || v.taken.starts[v.raw(end)]
	case kindDotted:
		start = mapped(v, start)
		ok = dotted(v, start, end)
	case kindHextets:
		start, ok = hextets(v, start, end)
	case kindHex:
		start, ok = hexadecimal(v, start, end)
	case kindIPv6:
		ok = ipv6(v, start, end)
	case kindWord:
		ok = word(v, start, end)
		for n := 0; ok && n < 2 && end < len(v.text) && v.text[end] == '='; n++ {
			end++
		}
	case kindBase64:
		start, end, ok = c.base64()
	default:
		ok = true
	}
	if ok && strings.IndexByte(`"\/bfnrtu`, v.text[start]) >= 0 && v.dangles(start) {
		start-- // half an escape must not stay behind
	}
	return start, end, ok
}

// dotted refuses numbers and dots that make a longer one: 110.202.0.1,
// 10.202.0.10, 5.10.202.0.1.
func dotted(v *view, start, end int) bool {
	c, i := v.before(start)
	if c == '.' {
		c, _ = v.before(i)
	}
	if isDigit(c) {
		return false
	}
	c, i = v.after(end)
	if c == '.' {
		c, _ = v.after(i)
	}
	return !isDigit(c)
}

// mapped takes in what makes a dotted address an IPv6 one: ::ffff: and
// 0:0:0:0:0:ffff:, of any length.
func mapped(v *view, start int) int {
	const tail = "ffff:"
	at := start - len(tail)
	if at < 0 || !strings.EqualFold(string(v.text[at:start]), tail) {
		return start
	}
	if whole, ok := zeros(v, at); ok {
		return whole
	}
	return start
}

// zeros follows zeros and colons to the left, as far as the longest way to
// write them goes.
func zeros(v *view, at int) (start int, ok bool) {
	const longest = len("0000:0000:0000:0000:0000:")
	i := at
	for i > 0 && at-i < longest && (v.text[i-1] == '0' || v.text[i-1] == ':') && !v.taken.ends[v.raw(i)] {
		i--
	}
	if at-i < 2 || v.text[at-1] != ':' || v.splits(i) {
		return at, false
	}
	c, _ := v.before(i)
	return i, !isHex(c) && c != ':'
}

func hextets(v *view, start, end int) (int, bool) {
	start, ok := zeros(v, start)
	c, _ := v.after(end)
	return start, ok && !isAlnum(c) && c != ':'
}

// ipv6 refuses more groups, or more digits of the first or last.
func ipv6(v *view, start, end int) bool {
	c, _ := v.before(start)
	if isAlnum(c) || c == ':' {
		return false
	}
	c, i := v.after(end)
	if c == ':' {
		if c, _ = v.after(i); c == ':' {
			return false
		}
	}
	return !isAlnum(c)
}

// hexadecimal takes 0aca0001, 0xaca0001, 0x0ACA0001.
func hexadecimal(v *view, start, end int) (int, bool) {
	for end-start < 8 && start > 0 && v.text[start-1] == '0' && !v.taken.ends[v.raw(start)] {
		start--
	}
	full := end-start == 8
	if start > 1 && lower(v.text[start-1]) == 'x' && v.text[start-2] == '0' {
		start, full = start-2, true
	} else if start > 0 && lower(v.text[start-1]) == 'x' && v.text[start] == '0' {
		return start, false
	}
	return start, full && !v.splits(start) && word(v, start, end)
}

// word refuses letters, digits and what joins them, a number's sign and its
// fraction.
func word(v *view, start, end int) bool {
	c, i := v.before(start)
	if c == '.' {
		c, _ = v.before(i)
		if !isDigit(c) {
			c = '.'
		}
	}
	if (isTokenByte(c) || c == '+') && !coloured(v, start) {
		return false
	}
	c, i = v.after(end)
	if c == '.' {
		c, _ = v.after(i)
		if !isDigit(c) {
			c = '.'
		}
	}
	return !isTokenByte(c) && c != '+' && c != '/'
}

// coloured tells whether a terminal's colour sequence ends at i, as grep
// writes it around what it found: ESC [ 31 m, ESC [ K.
func coloured(v *view, i int) bool {
	if i == 0 || !isAlnum(v.text[i-1]) || isDigit(v.text[i-1]) {
		return false
	}
	i--
	for n := 0; n < 16 && i > 0 && (isDigit(v.text[i-1]) || v.text[i-1] == ';'); n++ {
		i--
	}
	if i == 0 || v.text[i-1] != '[' {
		return false
	}
	c, _ := v.before(i - 1)
	return c == 0x1b
}

// tokenRun is where the token bytes from i on end.
func (v *view) tokenRun(i int) int {
	if v.run.from <= i && i < v.run.to {
		return v.run.to
	}
	v.run.from, v.run.to = i, i
	for v.run.to < len(v.text) && isTokenByte(v.text[v.run.to]) {
		v.run.to++
	}
	return v.run.to
}
