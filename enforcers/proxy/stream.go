package proxy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
)

// maxEvent bounds a line or frame that is looked at, in bytes. Those with a
// count are far shorter; longer ones go by unread.
const maxEvent = 256 << 10

// lines takes an event stream apart (WHATWG HTML, 9.2.6) at each LF. Lines that
// end with CR alone, which no API sends, go by unread.
type lines struct {
	part []byte
	skip bool // the line at hand is too long
}

// next returns the line that ends first in p, or nil where none does or it is
// too long, and what of p comes then. The line is valid until the next call.
func (l *lines) next(p []byte) (line, rest []byte) {
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		l.keep(p)
		return nil, nil
	}
	line, rest = p[:i], p[i+1:]
	if len(l.part) > 0 || l.skip {
		l.keep(line)
		line = l.part
	}
	if l.skip {
		line = nil
	}
	l.part, l.skip = l.part[:0], false
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

func (l *lines) keep(p []byte) {
	if l.skip = l.skip || len(l.part)+len(p) > maxEvent; l.skip {
		l.part = nil
		return
	}
	l.part = append(l.part, p...)
}

// frames takes Amazon's event stream apart: a frame is its length, that of
// its headers, a checksum (4 bytes each, big endian), the headers, the
// payload, a checksum. The checksums are the client's matter.
type frames struct {
	part []byte
	skip uint32 // bytes of a frame that is not looked at
}

const (
	framePrelude = 12
	frameTail    = 4
)

// next takes bytes from the start of p, and returns the payload of the frame
// that ends with them, or nil where none does, and what of p comes then. The
// payload is valid until the next call.
func (f *frames) next(p []byte) (payload, rest []byte) {
	if f.skip > 0 {
		n := min(int64(f.skip), int64(len(p)))
		f.skip -= uint32(n)
		return nil, p[n:]
	}
	n := min(len(p), f.missing())
	f.part = append(f.part, p[:n]...)
	return f.step(), p[n:]
}

// missing is how many bytes are needed for the next step, at least 1.
func (f *frames) missing() int {
	if len(f.part) < framePrelude {
		return framePrelude - len(f.part)
	}
	return int(binary.BigEndian.Uint32(f.part)) - len(f.part)
}

func (f *frames) step() (payload []byte) {
	if len(f.part) < framePrelude {
		return nil
	}
	total, headers := binary.BigEndian.Uint32(f.part), binary.BigEndian.Uint32(f.part[4:])
	switch {
	case total < framePrelude+frameTail || uint64(headers) > uint64(total)-framePrelude-frameTail:
		f.skip, f.part = ^uint32(0), nil // not such a stream: look no further
	case total > maxEvent:
		f.skip, f.part = total-framePrelude, nil
	case len(f.part) == int(total):
		payload = f.part[framePrelude+headers : total-frameTail]
		f.part = f.part[:0]
	}
	return payload
}

// frame takes the payload of Bedrock's frames: {"bytes":"BASE64"} around an
// event of the Messages API.
func (m *meter) frame(payload []byte) {
	var chunk struct {
		Bytes []byte `json:"bytes"`
	}
	if json.Unmarshal(payload, &chunk) == nil {
		m.event(chunk.Bytes)
	}
}
