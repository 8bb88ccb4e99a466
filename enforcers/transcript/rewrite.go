package transcript

import (
	"bytes"
	"context"
	"io"
	"slices"
)

// The replacements. Their JSON forms need no escape.
const (
	redacted      = "[redacted]"
	redactedBlock = `{"type":"text","text":"[redacted]"}`
)

// rewriter goes through one file.
type rewriter struct {
	blocks
	name string // what addresses become
	// begin is called before the first byte that differs, with its block's
	// offset, and returns where all from there on goes.
	begin func(off int64) (io.Writer, error)
	// read is told of every byte of the file from begin's offset on; it may be nil.
	read func([]byte)

	out    io.Writer // nil until something was found
	lex    lexer
	within bool   // the last block ended within a line
	idle   bool   // and nothing is in that line
	plan   []span // blocks to replace in that line
	edits  []edit
	counts counts
}

// counts are what was replaced.
type counts struct{ addresses, secrets, blocks int }

// edit replaces a range of a block.
type edit struct {
	start, end int
	text       string
}

func (r *rewriter) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		b, err := r.next()
		if err != nil {
			return err
		}
		r.edits = r.edits[:0]
		if r.isJSON {
			err = r.lines(ctx, b)
		} else {
			r.plainText(b)
		}
		if err == nil {
			err = r.write(b)
		}
		if err != nil || b.last {
			return err
		}
	}
}

func (r *rewriter) write(b block) error {
	if r.out == nil && len(r.edits) == 0 {
		return nil
	}
	if r.out == nil {
		out, err := r.begin(b.off)
		if err != nil {
			return err
		}
		r.out = out
	}
	if r.read != nil {
		r.read(b.text)
	}
	at := 0
	for _, e := range r.edits {
		if _, err := r.out.Write(b.text[at:e.start]); err != nil {
			return err
		}
		if _, err := io.WriteString(r.out, e.text); err != nil {
			return err
		}
		at = e.end
	}
	_, err := r.out.Write(b.text[at:])
	return err
}

func (r *rewriter) plainText(b block) {
	for _, h := range b.hits {
		r.replace(h, inList(b.text, h))
	}
}

// inList tells whether a number stands where JSON would have one: the text may
// well be JSON, whatever its file is called.
func inList(text []byte, h hit) bool {
	for _, c := range text[h.start:h.end] {
		if !isDigit(c) {
			return false
		}
	}
	before := bytes.TrimRight(text[max(0, h.outerStart-maxNumber):h.outerStart], " \t\r\n")
	after := bytes.TrimLeft(text[h.outerEnd:min(len(text), h.outerEnd+maxNumber)], " \t\r\n")
	return len(before) > 0 && len(after) > 0 &&
		bytes.IndexByte([]byte(":[,"), before[len(before)-1]) >= 0 && bytes.IndexByte([]byte(",]}"), after[0]) >= 0
}

// replace adds the edit for h; a number becomes a string.
func (r *rewriter) replace(h hit, number bool) {
	text := r.name
	if h.secret {
		text = redacted
		r.counts.secrets++
	} else {
		r.counts.addresses++
	}
	e := edit{h.start, h.end, text}
	if number && h.number {
		e = edit{h.outerStart, h.outerEnd, `"` + text + `"`}
	}
	if n := len(r.edits); n > 0 && e.start < r.edits[n-1].end { // a second one in the same number
		r.edits[n-1].end = max(r.edits[n-1].end, e.end)
		return
	}
	r.edits = append(r.edits, e)
}

// lines goes through a block of JSON line by line. Only lines in which
// something was found are parsed.
func (r *rewriter) lines(ctx context.Context, b block) error {
	hits := b.hits
	for at := 0; at < len(b.text); {
		end, whole := len(b.text), b.last
		switch {
		case !r.within && len(hits) == 0 && !b.last && b.text[len(b.text)-1] == '\n':
			return nil // nothing in all the lines that are left
		case !r.within && len(hits) > 0:
			// What has nothing before the next line that has something.
			if i := bytes.LastIndexByte(b.text[at:hits[0].start], '\n'); i >= 0 {
				at += i + 1
			}
		}
		if i := bytes.IndexByte(b.text[at:], '\n'); i >= 0 {
			end, whole = at+i+1, true
		}
		n := 0
		for n < len(hits) && hits[n].start < end {
			n++
		}
		if err := r.line(ctx, b, at, end, hits[:n], whole); err != nil {
			return err
		}
		hits, at = hits[n:], end
	}
	return nil
}

// line takes in one line from at to end, or a piece of one; whole tells
// whether the line ends there.
func (r *rewriter) line(ctx context.Context, b block, at, end int, hits []hit, whole bool) error {
	first := !r.within
	r.within = !whole
	if first && whole && len(hits) == 0 {
		return nil
	}
	if first {
		r.lex.reset()
		r.plan, r.idle = nil, false
	}
	if first && !whole {
		if err := r.survey(ctx, b.off+int64(at)); err != nil {
			return err
		}
	}
	if r.idle {
		return nil
	}
	edits, start := len(r.edits), at
	for _, h := range hits {
		r.lex.read(b.text[at:h.start], b.off+int64(at))
		r.lex.mark()
		r.replace(h, !r.lex.inText)
		at = h.start
	}
	r.lex.read(b.text[at:end], b.off+int64(at))
	plan := r.plan
	if first && whole {
		plan = r.lex.plan(b.off+int64(start), b.off+int64(lineEnd(b.text, end)))
		r.counts.blocks += len(plan)
	}
	r.drop(b, edits, plan)
	return nil
}

// survey reads a line that is longer than a block ahead, to know which of its
// blocks go.
func (r *rewriter) survey(ctx context.Context, off int64) error {
	ahead := &blocks{m: r.m, src: r.src, size: r.size, off: off, isJSON: true}
	var lex lexer
	found := false
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b, err := ahead.next()
		if err != nil {
			return err
		}
		end, last := len(b.text), b.last
		if i := bytes.IndexByte(b.text, '\n'); i >= 0 {
			end, last = i+1, true
		}
		at := 0
		for _, h := range b.hits {
			if h.start >= end {
				break
			}
			lex.read(b.text[at:h.start], b.off+int64(at))
			lex.mark()
			found, at = true, h.start
		}
		lex.read(b.text[at:end], b.off+int64(at))
		if !last {
			continue
		}
		r.plan, r.idle = lex.plan(off, b.off+int64(lineEnd(b.text, end))), !found
		r.counts.blocks += len(r.plan)
		return nil
	}
}

// plan is what goes of a line that was read whole, from start to end.
func (l *lexer) plan(start, end int64) []span {
	if l.flood {
		return []span{{start, end}}
	}
	return slices.Clone(l.drops)
}

// lineEnd is end without the newline before it.
func lineEnd(text []byte, end int) int {
	if end > 0 && text[end-1] == '\n' {
		return end - 1
	}
	return end
}

// drop replaces the blocks of plan that lie in b, and with them the edits from
// index first on that lie in them.
func (r *rewriter) drop(b block, first int, plan []span) {
	if len(plan) == 0 {
		return
	}
	var all []edit
	inner := r.edits[first:]
	for _, s := range plan {
		if s.end <= b.off || s.start >= b.off+int64(len(b.text)) {
			continue
		}
		e := edit{start: int(max(s.start-b.off, 0)), end: int(min(s.end-b.off, int64(len(b.text))))}
		if s.start >= b.off {
			e.text = redactedBlock
		}
		for len(inner) > 0 && inner[0].start < e.start {
			all = append(all, inner[0])
			inner = inner[1:]
		}
		for len(inner) > 0 && inner[0].start < e.end {
			inner = inner[1:]
		}
		all = append(all, e)
	}
	all = append(all, inner...)
	r.edits = append(r.edits[:first], all...)
}
