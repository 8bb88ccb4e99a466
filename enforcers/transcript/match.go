package transcript

import (
	"bytes"
	"slices"
)

// matcher finds all patterns in a text.
type matcher struct {
	patterns  []pattern
	automaton *automaton
	window    int // how far from an escape a pattern that holds it can reach, in bytes
	margin    int // what a finding depends on around it, in bytes
	block     int // how much of a file is looked at at once, in bytes
}

// hit is a range of the file's bytes that gives way to a replacement.
type hit struct {
	start, end int
	secret     bool
	// outer is the number that the range is part of, should it stand outside
	// of any string.
	outerStart, outerEnd int
	number               bool
}

// maxToken is how much is taken for a token behind its prefix, in bytes.
const maxToken = 256

// maxDepth is how often a text is decoded: once for JSON, again for JSON or a
// URL within it, and again.
const maxDepth = 3

func newMatcher(patterns []pattern) *matcher {
	m := &matcher{patterns: append(patterns, triggers(patterns)...)}
	longest := maxToken
	var anchors [][]byte
	for _, p := range m.patterns {
		longest = max(longest, len(p.text))
		anchors = append(anchors, []byte(p.text[:min(len(p.text), maxAnchor)]))
	}
	m.automaton = newAutomaton(anchors)
	m.window = 10 * longest // \\\\u0031 is nine bytes for one
	m.margin = 2*m.window + 1024
	m.block = max(blockSize, 8*m.margin)
	return m
}

// candidate is a place where a pattern's text stands.
type candidate struct {
	view *view
	p    *pattern
	at   int
	done bool
}

// find returns what is to be replaced in text, sorted, without overlaps.
func (m *matcher) find(text []byte, isJSON bool) []hit {
	v := &view{text: text, taken: &taken{}}
	cs := m.candidates(v, isJSON, 0)
	if len(cs) == 0 {
		return nil
	}
	v.taken.ends, v.taken.starts = map[int]bool{}, map[int]bool{}
	slices.SortStableFunc(cs, func(a, b candidate) int { return a.view.raw(a.at) - b.view.raw(b.at) })
	var hits []hit
	// What was refused for its neighbour is looked at again when the
	// neighbour gave way.
	for changed, round := true, 0; changed && round < 8; round++ {
		changed = false
		for i := range cs {
			c := &cs[i]
			if c.done {
				continue
			}
			start, end, ok := c.verify()
			if !ok {
				continue
			}
			c.done, changed = true, true
			h := hit{start: c.view.raw(start), end: c.view.raw(end), secret: c.p.secret}
			v.taken.ends[h.end], v.taken.starts[h.start] = true, true
			hits = append(hits, h)
		}
	}
	return outer(text, merge(hits))
}

// merge joins hits that overlap: what any of them would hide is hidden.
func merge(hits []hit) []hit {
	slices.SortFunc(hits, func(a, b hit) int { return a.start - b.start })
	var out []hit
	for _, h := range hits {
		if n := len(out); n > 0 && h.start < out[n-1].end {
			out[n-1].end = max(out[n-1].end, h.end)
			out[n-1].secret = out[n-1].secret || h.secret
			continue
		}
		out = append(out, h)
	}
	return out
}

// maxNumber is how far a number is followed, in bytes.
const maxNumber = 64

// outer finds for each hit the number that it is part of, if it is part of
// nothing else.
func outer(text []byte, hits []hit) []hit {
	for i := range hits {
		h := &hits[i]
		from, to := h.start, h.end
		for from > max(0, h.start-maxNumber) && inNumber(text[from-1]) {
			from--
		}
		for to < min(len(text), h.end+maxNumber) && inNumber(text[to]) {
			to++
		}
		h.outerStart, h.outerEnd = h.start, h.end
		if (from == 0 || delimits(text[from-1])) && (to == len(text) || delimits(text[to])) {
			h.outerStart, h.outerEnd, h.number = from, to, true
		}
	}
	return hits
}

func inNumber(c byte) bool {
	return isDigit(c) || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E'
}

func delimits(c byte) bool { return bytes.IndexByte([]byte(" \t\r\n,:[]{}"), c) >= 0 }

// candidates are the places in v, and in what escapes of v hide.
func (m *matcher) candidates(v *view, isJSON bool, depth int) []candidate {
	var out []candidate
	var windows [][2]int
	m.automaton.scan(v.text, func(end int, ids []int) {
		for _, id := range ids {
			p := &m.patterns[id]
			at := end - min(len(p.text), maxAnchor)
			switch {
			case p.kind == kindTrigger:
				windows = m.widen(v, windows, end)
			case p.plain && isJSON && depth == 0:
			case p.stands(v.text, at):
				out = append(out, candidate{view: v, p: p, at: at})
			}
		}
	})
	if depth == maxDepth {
		return out
	}
	for _, w := range windows {
		out = append(out, m.candidates(v.decoded(w[0], w[1]), isJSON, depth+1)...)
	}
	return out
}

// widen adds the window around an escape that ends at end, or makes the last
// one longer.
func (m *matcher) widen(v *view, windows [][2]int, end int) [][2]int {
	hi := min(len(v.text), end+m.window)
	if n := len(windows); n > 0 && end-m.window <= windows[n-1][1] {
		windows[n-1][1] = hi
		return windows
	}
	lo := 0
	if n := len(windows); n > 0 {
		lo = windows[n-1][1]
	}
	return append(windows, [2]int{v.boundary(lo, max(lo, end-m.window)), hi})
}

// stands tells whether all of p's text is at i.
func (p *pattern) stands(text []byte, i int) bool {
	if i+len(p.text) > len(text) {
		return false
	}
	if p.fold {
		return bytes.EqualFold(text[i:i+len(p.text)], []byte(p.text))
	}
	return string(text[i:i+len(p.text)]) == p.text
}
