package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errChanged is a file that got shorter while it was read.
var errChanged = errors.New("it changed while it was read")

// block is a piece of a file, with all that is to be replaced in it.
type block struct {
	off  int64
	text []byte // valid until the next block is read
	hits []hit  // within text
	last bool
}

// blockSize is how much of a file is in memory, in bytes; lines up to this
// length are looked at once.
const blockSize = 1 << 20

// blocks cuts a file so that no replacement lies across a cut. In JSON it
// cuts between lines, unless one is longer than a block.
type blocks struct {
	m      *matcher
	src    io.ReaderAt
	size   int64 // what is beyond is not read
	off    int64 // where the next block begins
	isJSON bool
	buf    []byte
}

// next returns the next block; there is always one, if only an empty one.
func (b *blocks) next() (block, error) {
	behind := int(min(b.off, int64(b.m.margin)))
	start := b.off - int64(behind)
	n := int(min(b.size-start, int64(behind+b.m.block+b.m.margin)))
	if cap(b.buf) < n {
		b.buf = make([]byte, n)
	}
	text := b.buf[:n]
	if got, err := b.src.ReadAt(text, start); got < n {
		if err == io.EOF {
			err = errChanged
		}
		return block{}, fmt.Errorf("at byte %d: %w", start+int64(got), err)
	}
	last := start+int64(n) == b.size
	hits := b.m.find(text, b.isJSON)
	end := n
	if !last {
		end = b.cut(text, behind, hits)
	}
	out := block{off: b.off, text: text[behind:end], last: last}
	for _, h := range hits {
		if h.end <= behind || h.start >= end {
			continue
		}
		out.hits = append(out.hits, hit{
			start: max(h.start-behind, 0), end: min(h.end, end) - behind, secret: h.secret, number: h.number,
			outerStart: max(h.outerStart-behind, 0), outerEnd: min(h.outerEnd, end) - behind,
		})
	}
	b.off += int64(end - behind)
	return out, nil
}

// cut is where a block that is not the last one ends.
func (b *blocks) cut(text []byte, behind int, hits []hit) int {
	end := len(text) - b.m.margin
	for i := len(hits) - 1; i >= 0; i-- {
		if h := hits[i]; h.outerStart < end && end < h.outerEnd && h.outerStart > behind {
			end = h.outerStart
		}
	}
	if !b.isJSON {
		return end
	}
	if i := bytes.LastIndexByte(text[behind:end], '\n'); i >= 0 {
		return behind + i + 1
	}
	return end
}
