package rawsys

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Conn is a TCP connection.
type Conn struct {
	*net.TCPConn
	raw     syscall.RawConn
	in, out transfer
	ahead   transfer // reads without taking
	look    func(fd uintptr)
	ask     func(fd uintptr) (done bool)
	spoke   bool // the peer, before it was asked
}

// transfer is the call at hand in one direction.
type transfer struct {
	mu   sync.Mutex // held by who reads or writes
	p    []byte
	n    int
	err  syscall.Errno
	step func(fd uintptr) (done bool)
	wait func() // see OnWait; nil for nothing
}

// NewConn returns c with another way to read and write. Deadlines and Close
// stay c's.
func NewConn(c *net.TCPConn) (*Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	one := &Conn{TCPConn: c, raw: raw}
	// Made once, as each would be allocated.
	one.in.step, one.out.step, one.ahead.step = one.in.read, one.out.write, one.ahead.peek
	one.look = func(fd uintptr) { one.ahead.peek(fd) }
	one.ask = one.asking
	return one, nil
}

// call reads or writes p, and returns false when it would have to wait.
func (t *transfer) call(trap, fd uintptr) (done bool) {
	for {
		n, _, e := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.p))), uintptr(len(t.p)))
		switch e {
		case 0:
			t.n += int(n)
			t.p = t.p[n:]
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.err = e
			return true
		}
	}
}

func (t *transfer) read(fd uintptr) (done bool) { return t.call(syscall.SYS_READ, fd) }

func (t *transfer) write(fd uintptr) (done bool) {
	for len(t.p) > 0 && t.err == 0 {
		if !t.call(syscall.SYS_WRITE, fd) {
			if t.wait != nil {
				t.wait()
			}
			return false
		}
	}
	return true
}

func (t *transfer) peek(fd uintptr) (done bool) {
	t.n, t.err = peek(fd)
	return t.err != syscall.EAGAIN
}

// peek reads without taking: EAGAIN means that nothing came, and that the peer did
// not hang up.
func peek(fd uintptr) (int, syscall.Errno) {
	var one [1]byte
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
		switch e {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, e
		}
	}
}

// end returns what came of the call.
func (t *transfer) end(name string, err error) (int, error) {
	n := t.n
	if err == nil && t.err != 0 {
		err = os.NewSyscallError(name, t.err)
	}
	t.reset()
	return n, err
}

func (t *transfer) reset() { t.p, t.n, t.err = nil, 0, 0 }

// Read is [net.Conn]'s.
func (c *Conn) Read(p []byte) (int, error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.p = p
	n, err := c.in.end("read", c.raw.Read(c.in.step))
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// Write is [net.Conn]'s.
func (c *Conn) Write(p []byte) (int, error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.p = p
	return c.out.end("write", c.raw.Write(c.out.step))
}

// OnWait has f called by each Write before it waits, which it may do often. f may set
// a deadline, but not close the connection, nor wait for who does: that waits for the
// Write.
func (c *Conn) OnWait(f func()) { c.out.wait = f }

// ErrNotQuiet is returned where the peer said something unasked, or hung up.
var ErrNotQuiet = errors.New("the connection is not quiet")

// Ask is Write to a peer that is [Conn.Quiet], else it sends nothing and returns
// ErrNotQuiet. Where p can be sent without waiting, it then waits until a Read would
// not have to: to read right after a write mostly finds nothing. A deadline for
// reading ends it.
func (c *Conn) Ask(p []byte) (int, error) {
	c.out.mu.Lock()
	c.out.p, c.spoke = p, false
	n, err := c.out.end("write", c.raw.Read(c.ask))
	spoke := c.spoke
	c.out.mu.Unlock()
	switch {
	case err != nil || n == len(p):
		return n, err
	case spoke:
		return 0, ErrNotQuiet
	}
	rest, err := c.Write(p[n:])
	return n + rest, err
}

// asking is one step of Ask. That nothing came is looked at here, where what comes
// from now on ends the wait.
func (c *Conn) asking(fd uintptr) (done bool) {
	if len(c.out.p) == 0 { // all was sent
		return true
	}
	if _, e := peek(fd); e != syscall.EAGAIN {
		c.spoke = true
		return true
	}
	return !c.out.write(fd) || c.out.err != 0
}

// Quiet tells whether a Read would have to wait: nothing came, and the peer did
// not hang up.
func (c *Conn) Quiet() bool {
	c.ahead.mu.Lock()
	defer c.ahead.mu.Unlock()
	err := c.raw.Control(c.look)
	waits := err == nil && c.ahead.err == syscall.EAGAIN
	c.ahead.reset()
	return waits
}

// Await waits until a Read would not have to, and returns 1 for bytes that are
// there and 0 at the end, or an error. A deadline for reading ends it.
func (c *Conn) Await() (int, error) {
	c.ahead.mu.Lock()
	defer c.ahead.mu.Unlock()
	return c.ahead.end("recvfrom", c.raw.Read(c.ahead.step))
}
