package stricthttp

import (
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"sync"
)

// body is a request's.
type body struct {
	c       *serving
	chunked bool

	mu   sync.Mutex
	in   io.Reader
	left int64 // of one with a length
	err  error // what each further read returns

	expect bool       // the client waits for a word before it sends it
	word   sync.Mutex // held while that is said, or the answer begins
}

func (b *body) begin(length int64, expect bool) {
	b.in, b.left, b.expect = b.c.in, length, expect
	if length < 0 {
		b.chunked, b.in = true, httputil.NewChunkedReader(b.c.in)
	}
	if b.left == 0 {
		b.err = io.EOF
	}
	b.c.whole.Store(b.left == 0)
}

// Read reads from the connection, and never beyond the body.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.chunked || b.c.in.Buffered() == 0 { // of a chunked one more may be waited for
		b.c.disarm() // how long a body may take is the handler's matter
	}
	if b.err = b.tell(); b.err != nil {
		return 0, b.err
	}
	if !b.chunked {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.in.Read(p)
	b.advance(n, err)
	return n, b.err
}

// tell says the word that the client waits for.
func (b *body) tell() error {
	b.word.Lock()
	defer b.word.Unlock()
	if !b.expect {
		return nil
	}
	b.expect = false
	return b.c.tell("HTTP/1.1 100 Continue\r\n\r\n")
}

// answered notes that the answer begins, of which the word would be a part.
func (b *body) answered() {
	b.word.Lock()
	defer b.word.Unlock()
	b.expect = false
}

// rest is take, but not of a body whose client waits for a word.
func (b *body) rest() (text []byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.word.Lock()
	expect := b.expect
	b.word.Unlock()
	if expect {
		return nil, false
	}
	return b.take()
}

// take reads all that is left of the body, if the connection's buffer has that. The
// caller holds mu.
func (b *body) take() (text []byte, ok bool) {
	if b.chunked || b.err != nil || b.left > int64(b.c.in.Buffered()) {
		return nil, false
	}
	text, _ = b.c.in.Peek(int(b.left)) // stays there until more is read, which is the next request
	n, err := b.c.in.Discard(len(text))
	b.advance(n, err)
	return text, true
}

// advance notes what a read brought.
func (b *body) advance(n int, err error) {
	switch {
	case b.chunked && errors.Is(err, io.EOF):
		if b.err = b.trailer(); b.err == nil {
			b.err = io.EOF
		}
	case b.chunked:
		b.err = err
	default:
		if b.left -= int64(n); b.left == 0 {
			b.err = io.EOF
		} else if b.err = err; errors.Is(err, io.EOF) {
			b.err = io.ErrUnexpectedEOF
		}
	}
	b.c.whole.Store(b.err == io.EOF)
}

// trailer reads the end of a chunked body. Fields are not taken there.
func (b *body) trailer() error {
	for _, want := range []byte("\r\n") { // not all of a line, which may be endless
		got, err := b.c.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case got != want:
			return errors.New("a chunked body may have no trailer")
		}
	}
	return nil
}

// skip passes over a body that is there already, and tells whether it is through.
func (b *body) skip() bool {
	if b.c.whole.Load() {
		return true
	}
	if !b.mu.TryLock() { // somebody reads it
		return false
	}
	defer b.mu.Unlock()
	_, ok := b.take()
	return ok
}

// end makes whoever still reads the body let go of the connection, which then ends.
func (b *body) end() {
	if b.c.whole.Load() {
		return
	}
	_ = b.c.conn.SetReadDeadline(past)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
	}
}
