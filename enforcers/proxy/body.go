package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/stricthttp"
)

// bodyPatience is how long a client may take to send a body.
const bodyPatience = 2 * time.Minute

// pooled is the capacity of the buffers that requests hand on to each other, in
// bytes: what agents send mostly fits.
const pooled = 128 << 10

// body is a request's body, in memory that is given back as soon as no
// upstream needs it any more: an answer may take hours.
type body struct {
	gate *gate
	pool *sync.Pool // of *[]byte with the capacity pooled

	data []byte  // what came; nil after drop
	lent *[]byte // by the pool, for data; nil where that is the body's own
	held int64
}

// readBody takes the whole body in, at most the declared size. One that came with
// the head stays where it is, in memory that the connection has anyway. The body is
// valid until the handler returns.
func (s *Server) readBody(w *stricthttp.Response, r *stricthttp.Request, g *gate) (body, *refusal) {
	if limit := g.all.limit.Body; r.Length > limit {
		return body{}, tooLarge(fmt.Sprintf("a body may have at most %d bytes", limit))
	}
	if text, there := r.Whole(); there || r.Length == 0 {
		return body{gate: g, pool: &s.bodies, data: text}, nil
	}
	return s.receive(r.Context(), w, r, g)
}

// receive takes a body in as it comes, until ctx ends.
func (s *Server) receive(ctx *ending.Context, w patient, r *stricthttp.Request, g *gate) (body, *refusal) {
	b := body{gate: g, pool: &s.bodies}
	reading := new(read)
	s.reads.begin(reading, w)
	s.stir() // it is ended if it takes too long
	stop := ending.AfterFunc(ctx, func() { _ = w.SetReadDeadline(time.Now()) })
	bad := b.fill(r.Body, r.Length, g.all.limit.Body)
	stop.Now() // where it is too late for that, the request has ended
	if !s.reads.done(reading) && bad == nil {
		bad = malformed("the connection is gone")
	}
	if bad == nil {
		return b, nil
	}
	b.drop()
	if ctx.Err() != nil {
		bad = cut(ctx)
	}
	return body{}, bad
}

// reads are the bodies being read. One look at all of them now and then is
// cheaper than a timer for each.
type reads struct {
	mu   sync.Mutex
	open []*read
}

type read struct {
	at    int // in open
	since time.Time
	from  patient
	late  bool
}

// patient is whom a body comes from, as a [stricthttp.Response] is.
type patient interface{ SetReadDeadline(time.Time) error }

// begin notes that a body is read.
func (r *reads) begin(one *read, w patient) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one.since, one.from, one.at = time.Now(), w, len(r.open)
	r.open = append(r.open, one)
}

// done notes that a body which had begun is read no more, and tells whether it
// was in time.
func (r *reads) done(one *read) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := len(r.open) - 1
	last := r.open[end]
	r.open[one.at], last.at = last, one.at
	r.open[end], r.open = nil, r.open[:end]
	return !one.late
}

// end cuts off those that began before the time, and tells whether there are
// any.
func (r *reads) end(before time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.open {
		if one.since.Before(before) {
			one.late = true
			_ = one.from.SetReadDeadline(time.Unix(1, 0))
		}
	}
	return len(r.open) > 0
}

// fill reads in until the end; length is -1 when it was not announced. Memory
// is taken as bytes come, not as they are announced, but for the first of them.
func (b *body) fill(in io.Reader, length, limit int64) *refusal {
	for size := int64(256 << 10); ; size *= 2 {
		if length >= 0 {
			size = min(size, length)
		}
		size = min(size, limit+1)
		if !b.grow(size) {
			return overloaded("too many large bodies at a time")
		}
		n, err := io.ReadFull(in, b.data[len(b.data):min(size, int64(cap(b.data)))])
		b.data = b.data[:len(b.data)+n]
		switch {
		case int64(len(b.data)) > limit:
			return tooLarge(fmt.Sprintf("a body may have at most %d bytes", limit))
		case int64(len(b.data)) == length:
			return ends(in)
		case length < 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)): // of the body, or of what it could fill
			return ends(in)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &refusal{status: http.StatusRequestTimeout, kind: "timeout_error", reason: "slow", message: "the body took too long"}
		case err != nil:
			return malformed("the body ended early")
		}
	}
}

// ends reads the end of a body that is in, and tells it from one that breaks off;
// only then does the server watch whether the client hangs up.
func ends(in io.Reader) *refusal {
	if n, err := in.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return malformed("the body does not end")
	}
	return nil
}

// grow makes room for size bytes in all.
func (b *body) grow(size int64) bool {
	more := size - b.held
	if more <= 0 {
		return true
	}
	if !b.gate.hold(more) {
		return false
	}
	b.held += more
	larger, lent := b.room(size)
	larger = larger[:copy(larger, b.data)]
	b.recycle()
	b.data, b.lent = larger, lent
	return true
}

// room is memory for size bytes, and where it is lent by the pool, that.
func (b *body) room(size int64) (room []byte, lent *[]byte) {
	if size < pooled/8 || size > pooled {
		return make([]byte, size), nil
	}
	lent, ok := b.pool.Get().(*[]byte)
	if !ok {
		whole := make([]byte, pooled)
		lent = &whole
	}
	return *lent, lent
}

// recycle lets another request have the memory.
func (b *body) recycle() {
	if b.lent != nil {
		b.pool.Put(b.lent)
	}
	b.data, b.lent = nil, nil
}

// drop gives the memory of the body back. Nobody reads it any more.
func (b *body) drop() {
	if b.held > 0 { // it may have been dropped before
		b.gate.release(b.held)
	}
	b.recycle()
	b.held = 0
}
