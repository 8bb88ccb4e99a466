package stricthttp

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aicodesit/cordon/internal/rawsys"
)

// Server is an HTTP/1.1 server for a handler that answers quickly, or streams
// for hours. A connection has one goroutine, which reads requests, calls the
// handler and writes its answers; net/http's has a second that reads while the
// handler runs, whose start, end and wake-ups take longer than a small
// request does. Whether a client hung up is looked at from [hangUpEvery] on
// after its request came: its context then ends.
//
// Requests keep the order and the bounds of their connection; nothing is read of
// a request before the last is answered. The handler may read the body while it
// answers.
type Server struct {
	Handler     Handler
	HeadTimeout time.Duration // for a request's head
	IdleTimeout time.Duration // between requests
	RestTimeout time.Duration // for what a client does not take at once of an answer whose handler is through, or of 100 Continue
	HeadBytes   int64         // of a request's head
	PerAddress  int           // connections of an address at a time, more are closed as they come; 0 is no bound
	Log         *slog.Logger

	writers sync.Pool // of *bufio.Writer
	asleep  atomic.Bool
	closing atomic.Bool // set while mu is held
	date    atomic.Pointer[date]
	wake    chan struct{}

	mu       sync.Mutex
	listener net.Listener
	conns    map[*serving]struct{}
	gone     sync.WaitGroup // of connections
}

// Handler answers a request. What it has of it is its own until it returns; it may
// panic with [http.ErrAbortHandler] to break the answer off.
type Handler func(w *Response, r *Request)

const (
	bufferSize  = 4 << 10
	hangUpEvery = 50 * time.Millisecond
)

// Serve answers what comes over l until Shutdown or Close, then returns
// http.ErrServerClosed.
func (s *Server) Serve(l net.Listener) error {
	strict := &listener{Listener: l, perAddress: s.PerAddress}
	s.mu.Lock()
	s.listener, s.conns, s.wake = l, map[*serving]struct{}{}, make(chan struct{}, 1)
	closing := s.ends()
	s.mu.Unlock()
	if closing {
		_ = l.Close()
		return http.ErrServerClosed
	}
	quit := make(chan struct{})
	defer close(quit)
	go s.lookAfter(quit)
	for delay := time.Duration(0); ; {
		c, err := strict.Accept()
		switch {
		case err == nil:
			delay = 0
			s.take(c.(*conn))
		case s.ends():
			return http.ErrServerClosed
		case passing(err):
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.Log.Debug("accept", "error", err)
			time.Sleep(delay)
		default:
			return err
		}
	}
}

// passing tells whether accept fails for a while only.
func passing(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *Server) ends() bool { return s.closing.Load() }

func (s *Server) take(c *conn) {
	tcp, ok := c.Conn.(*rawsys.Conn)
	if !ok { // no hang-up would be seen
		_ = c.Close()
		return
	}
	one := newServing(s, c, tcp)
	tcp.OnWait(one.bound)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends() {
		_ = c.Close()
		return
	}
	s.conns[one] = struct{}{}
	s.gone.Go(func() {
		defer s.forget(one)
		one.serve()
	})
}

func (s *Server) forget(c *serving) {
	_ = c.conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown takes no more requests and waits until those at hand are answered,
// or ctx ends; then it returns its error and leaves the rest to Close.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end((*serving).closeIdle)
	done := make(chan struct{})
	go func() { s.gone.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all connections and waits until their handlers are through.
func (s *Server) Close() {
	s.end((*serving).cut)
	s.gone.Wait()
}

func (s *Server) end(each func(*serving)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing.Store(true)
	if s.listener != nil {
		_ = s.listener.Close()
	}
	for c := range s.conns {
		each(c)
	}
}

// lookAfter lets requests that take long be watched, until quit. One look at
// all of them now and then is cheaper than a timer for each.
func (s *Server) lookAfter(quit <-chan struct{}) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		s.asleep.Store(true)
		wait := s.wake
		if s.look() > 0 {
			s.asleep.Store(false)
			tick.Reset(hangUpEvery)
			wait = nil
		}
		select {
		case <-quit:
			return
		case <-wait:
		case <-tick.C:
		}
	}
}

// look returns how many requests are not yet watched.
func (s *Server) look() (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.look() {
			left++
		}
	}
	return left
}

// busy is told of each request.
func (s *Server) busy() {
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// date is the header that tells the time, of one second.
type date struct {
	second int64 // since 1970
	line   string
}

// dateLine is the line of the header, with its end.
func (s *Server) dateLine(now time.Time) string {
	d := s.date.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		s.date.Store(d)
	}
	return d.line
}

func (s *Server) writer(c net.Conn) *bufio.Writer {
	out, ok := s.writers.Get().(*bufio.Writer)
	if !ok {
		return bufio.NewWriterSize(c, bufferSize)
	}
	out.Reset(c)
	return out
}

func (s *Server) giveBack(out *bufio.Writer) {
	out.Reset(nil)
	s.writers.Put(out)
}
