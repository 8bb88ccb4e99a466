package transcript

// base64 verifies that the decoded value stands where c's digits say, decides
// by the neighbours it has once decoded, and returns the digits that hold any
// bit of it, with their padding. A piece of base64, cut off before its group
// is whole, will do: only the bits that are there must be right.
func (c candidate) base64() (start, end int, ok bool) {
	v, p := c.view, c.p
	end = c.at + len(p.text)
	digits, skipped, from := c.digitsBefore()
	limit := len(p.value) + 6
	if p.inner == kindToken {
		limit += maxToken
	}
	to := end
	for to < len(v.text) && to < end+2*limit && sextet(v.text[to]) >= 0 && !v.taken.starts[v.raw(to)] {
		to++
	}
	digits = append(digits, v.text[c.at:to]...)
	if to == end {
		digits = append(digits, p.last...)
	}
	decoded := decodeDigits(digits, limit)
	at := skipped/4*3 + p.shift
	stop := at + len(p.value)
	if stop > len(decoded) || string(decoded[at:stop]) != p.value {
		return 0, 0, false
	}
	inner := candidate{view: &view{text: decoded, taken: &taken{}}, p: &pattern{kind: p.inner, text: p.value}, at: at}
	at, stop, ok = inner.verify()
	zero := c.at - coreStart(p.shift) - skipped // where the first of digits would stand
	start, end = max(zero+at*8/6, from), min(zero+(stop*8+5)/6, to)
	if !ok || v.splits(start) {
		return 0, 0, false
	}
	for n := 0; n < 2 && end < len(v.text) && v.text[end] == '='; n++ {
		end++
	}
	return start, end, ok
}

// digitsBefore are the digits before c's, from where a group of four begins:
// those of c's own group, what they would be where they are not there, and the
// group before it, skipped digits, if that is there. The first that is there
// stands at from.
func (c candidate) digitsBefore() (digits []byte, skipped, from int) {
	v, need := c.view, coreStart(c.p.shift)
	from = c.at
	for from > 0 && c.at-from < need+4 && sextet(v.text[from-1]) >= 0 && !v.taken.ends[v.raw(from)] {
		from--
	}
	if c.at-from == need+4 {
		return append(digits, v.text[from:c.at]...), 4, from
	}
	from = max(from, c.at-need)
	digits = append(digits, c.p.first[:need-(c.at-from)]...)
	return append(digits, v.text[from:c.at]...), 0, from
}

// decodeDigits decodes base64 of either alphabet up to what is none, or limit
// bytes.
func decodeDigits(digits []byte, limit int) []byte {
	var out []byte
	bits, n := 0, 0
	for _, c := range digits {
		s := sextet(c)
		if s < 0 || len(out) >= limit {
			break
		}
		bits, n = (bits<<6|s)&0xfff, n+6
		if n >= 8 {
			n -= 8
			out = append(out, byte(bits>>n))
		}
	}
	return out
}

// sextet is the value of a digit, or -1.
func sextet(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case isDigit(c):
		return int(c-'0') + 52
	case c == '+' || c == '-':
		return 62
	case c == '/' || c == '_':
		return 63
	}
	return -1
}
