package transcript

// base64 verifies that the decoded value stands where c's digits say, decides
// by the neighbours it has once decoded, and returns the digits that hold any
// bit of it, with their padding.
func (c candidate) base64() (start, end int, ok bool) {
	v, p := c.view, c.p
	first := c.at - coreStart(p.shift) // of the group that value begins in
	if first < 0 {
		return 0, 0, false
	}
	for i := first; i < c.at; i++ {
		if sextet(v.text[i]) < 0 {
			return 0, 0, false
		}
	}
	from := first
	for i := 0; i < 4 && from > 0 && sextet(v.text[from-1]) >= 0 && !v.taken.ends[v.raw(from)]; i++ {
		from--
	}
	if first-from < 4 {
		from = first
	}
	limit := len(p.value) + 6
	if p.inner == kindToken {
		limit += maxToken
	}
	to := min(len(v.text), from+2*limit)
	for i := c.at + len(p.text); i < to; i++ {
		if v.taken.starts[v.raw(i)] { // what gives way is no neighbour
			to = i
		}
	}
	decoded := decodeDigits(v.text[from:to], limit)
	at := (first-from)/4*3 + p.shift
	stop := at + len(p.value)
	if stop > len(decoded) || string(decoded[at:stop]) != p.value {
		return 0, 0, false
	}
	inner := candidate{view: &view{text: decoded, taken: &taken{}}, p: &pattern{kind: p.inner, text: p.value}, at: at}
	at, stop, ok = inner.verify()
	start, end = from+at*8/6, from+(stop*8+5)/6
	if v.splits(start) {
		return 0, 0, false
	}
	for n := 0; n < 2 && end < len(v.text) && v.text[end] == '='; n++ {
		end++
	}
	return start, end, ok
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
