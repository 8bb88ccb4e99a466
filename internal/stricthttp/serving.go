package stricthttp

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/httphead"
	"github.com/aicodesit/cordon/internal/rawsys"
)

// state is what a connection does.
type state int

const (
	idle    state = iota // waits for a request
	fresh                // answers one
	seen                 // has answered it since the server last looked
	watched              // and is watched
)

// serving is a connection that is served.
type serving struct {
	conn   *conn
	tcp    *rawsys.Conn
	limit  *httphead.Limited
	in     *bufio.Reader
	server *Server
	whole  atomic.Bool // the body of the request at hand is through

	handling atomic.Bool // the handler runs: how long a write takes is its matter
	telling  atomic.Bool // what tell writes is not
	bounded  atomic.Bool // a write was bounded

	fields, added httphead.Header // memory of the last request's header, and its answer's

	mu        sync.Mutex
	state     state
	answering *Response     // nil for an idle connection
	until     time.Time     // the deadline for reading of an idle connection; zero when there is none
	foreign   bool          // the handler set deadlines
	watch     chan struct{} // closed when its watcher is through
}

func newServing(s *Server, conn *conn, tcp *rawsys.Conn) *serving {
	c := &serving{conn: conn, tcp: tcp, server: s}
	c.limit = &httphead.Limited{In: conn, Left: -1}
	c.in = bufio.NewReaderSize(c.limit, bufferSize)
	return c
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// serve answers one request after the other.
func (c *serving) serve() {
	for first := true; ; first = false {
		b, err := c.next(first)
		if err != nil {
			c.refuse(err)
			return
		}
		if !c.answer(b) || c.server.ends() { // it may have begun before that
			c.linger()
			return
		}
	}
}

// next waits for a request and reads its head.
func (c *serving) next(first bool) (*blank, error) {
	b := c.blank()
	patience := c.server.IdleTimeout
	if first {
		patience = c.server.HeadTimeout
	}
	if err := c.arm(patience); err != nil {
		return nil, err
	}
	c.limit.Left = c.server.HeadBytes
	if _, err := c.in.Peek(1); err != nil {
		return nil, err
	}
	text, err := c.head()
	c.limit.Left = -1
	if err != nil {
		return nil, err
	}
	return b, b.read(text)
}

// head reads a head of which something came. Its rest may take a while.
func (c *serving) head() (string, error) {
	if text, ok := httphead.CRLF.Take(c.in); ok {
		return text, nil
	}
	c.disarm()
	if err := c.conn.SetReadDeadline(time.Now().Add(c.server.HeadTimeout)); err != nil {
		return "", err
	}
	c.mu.Lock()
	c.until = past // to be set anew before long
	c.mu.Unlock()
	text, err := httphead.CRLF.Read(c.in, lines())
	switch {
	case errors.Is(err, httphead.ErrTooLong):
		err = &malformed{http.StatusRequestHeaderFieldsTooLarge, err.Error()}
	case errors.Is(err, httphead.ErrLineEnd):
		err = bad(err.Error())
	}
	return text, err
}

// arm bounds how long the next read may take. A deadline that was set a moment
// ago serves as well: setting it costs.
func (c *serving) arm(patience time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if left := c.until.Sub(now); left <= patience && left > patience-patience/16 {
		return nil
	}
	c.until = now.Add(patience)
	return c.conn.SetReadDeadline(c.until)
}

// disarm takes the deadline for an idle connection away.
func (c *serving) disarm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disarmLocked()
}

func (c *serving) disarmLocked() {
	if c.until.IsZero() || c.foreign {
		return
	}
	c.until = time.Time{}
	_ = c.conn.SetReadDeadline(time.Time{})
}

// refuse answers what is no request. Who hung up or took too long gets nothing.
func (c *serving) refuse(err error) {
	var bad *malformed
	if !errors.As(err, &bad) {
		return
	}
	c.server.Log.Debug("not a request", "peer", c.conn.RemoteAddr(), "error", bad)
	_, _ = c.conn.Write(bad.answer())
	c.linger()
}

// linger closes the connection so that the client has the answer: what it
// still sends would otherwise make its kernel drop it.
func (c *serving) linger() {
	const most, patience = 256 << 10, 500 * time.Millisecond
	if c.conn.SetReadDeadline(time.Now().Add(patience)) != nil || c.tcp.CloseWrite() != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.conn, most)
}

// answer calls the handler. It returns false when the connection ends with it.
func (c *serving) answer(b *blank) (keep bool) {
	w := &b.answer
	c.begin(w)
	c.handling.Store(true)
	aborted := c.handle(w)
	c.handling.Store(false)
	b.request.ctx.End(nil)
	if aborted {
		_ = c.conn.Close() // at once, so that a part is not taken for the whole
	} else {
		keep = w.finish()
	}
	w.release()
	c.done(&b.body)
	c.fields, c.added = again(b.request.Header), again(w.header)
	return keep && c.whole.Load()
}

// again is the memory of a header for another, unless that is more than most need.
func again(h httphead.Header) httphead.Header {
	const most = 64 // lines
	if cap(h) > most {
		return nil
	}
	clear(h[:cap(h)])
	return h[:0]
}

// handle calls the handler and returns whether it gave up.
func (c *serving) handle(w *Response) (aborted bool) {
	defer func() {
		p := recover()
		aborted = p != nil
		if aborted && p != http.ErrAbortHandler {
			c.server.Log.Error("a handler panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	c.server.Handler(w, w.r)
	return false
}

// bound is called by a write that has to wait, which bounds it where no handler does.
// It must not lock mu, under which connections are closed.
func (c *serving) bound() {
	if (!c.handling.Load() || c.telling.Load()) && c.bounded.CompareAndSwap(false, true) {
		_ = c.conn.SetWriteDeadline(time.Now().Add(c.server.RestTimeout))
	}
}

// tell writes what is no part of an answer, for which no handler waits longer than for
// the rest of one.
func (c *serving) tell(text string) error {
	c.telling.Store(true)
	_, err := io.WriteString(c.conn, text)
	c.telling.Store(false)
	if c.bounded.Swap(false) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.foreign { // else done does it
			_ = c.conn.SetWriteDeadline(time.Time{})
		}
	}
	return err
}

func (c *serving) begin(w *Response) {
	c.mu.Lock()
	c.state, c.answering = fresh, w
	c.mu.Unlock()
	c.server.busy()
}

// done ends the request: nobody watches it any more or reads its body, and no
// deadline is left of it.
func (c *serving) done(b *body) {
	c.mu.Lock()
	c.state, c.answering = idle, nil
	watch := c.watch
	c.watch = nil
	touched := c.bounded.Swap(false) || c.foreign || watch != nil
	c.foreign = false
	if touched {
		c.until = time.Time{}
	}
	c.mu.Unlock()
	b.end()
	if watch != nil {
		_ = c.conn.SetReadDeadline(past)
		<-watch
	}
	if touched {
		_ = c.conn.SetDeadline(time.Time{})
	}
}

// look is called now and then. It starts to watch a request that takes long,
// and returns whether there is one that is not yet watched.
func (c *serving) look() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == fresh:
		c.state = seen
	case c.state == seen && c.whole.Load():
		c.disarmLocked()
		c.state, c.watch = watched, make(chan struct{})
		go c.watchFor(c.watch, c.answering.r.ctx)
	}
	return c.state == fresh || c.state == seen
}

// watchFor ends the request when the client hangs up. It reads nothing: what
// came of a next request stays where it is, and ends the watch.
func (c *serving) watchFor(through chan<- struct{}, ctx *ending.Context) {
	defer close(through)
	if n, err := c.tcp.Await(); err != nil || n <= 0 {
		ctx.End(nil)
	}
}

// closeIdle ends the connection unless it answers a request.
func (c *serving) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == idle {
		_ = c.conn.Close()
	}
}

// cut ends the connection and the request at hand.
func (c *serving) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answering != nil {
		c.answering.r.ctx.End(nil)
	}
	_ = c.conn.Close()
}
