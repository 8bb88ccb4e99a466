// Package epoll waits for several descriptors in one place, without a thread
// of its own and without a goroutine for each.
package epoll

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Poller is an epoll instance, see epoll(7), for which Go's runtime waits.
type Poller struct {
	file *os.File
	conn syscall.RawConn
	fd   int
	stop func() bool
	ctx  context.Context // of the one Run that it is for
}

// New returns a Poller whose Wait ends with ctx. It must be closed.
func New(ctx context.Context) (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &Poller{file: os.NewFile(uintptr(fd), "epoll"), fd: fd, ctx: ctx}
	if p.conn, err = p.file.SyscallConn(); err != nil {
		_ = p.file.Close()
		return nil, err
	}
	p.stop = context.AfterFunc(ctx, func() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) })
	return p, nil
}

// Close ends it. What it waited for stays open.
func (p *Poller) Close() {
	p.stop()
	_ = p.file.Close()
}

// Add makes Wait wait for events of fd too, until fd is closed, in all processes that
// have it, or removed.
func (p *Poller) Add(fd int, events uint32) error {
	err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	if err != nil {
		return fmt.Errorf("wait for a descriptor: %w", err)
	}
	return nil
}

// Remove undoes Add.
func (p *Poller) Remove(fd int) { _ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// Ready returns what is ready now, in buf. While another waits, or the kernel looks
// for it, there may be none even though something is ready.
func (p *Poller) Ready(buf []unix.EpollEvent) ([]unix.EpollEvent, error) {
	for {
		n, err := unix.EpollWait(p.fd, buf, 0)
		switch err {
		case nil:
			return buf[:n], nil
		case unix.EINTR:
		default:
			return nil, os.NewSyscallError("epoll_wait", err)
		}
	}
}

// Wait returns what is ready, at least one, in buf. Only one at a time may wait.
func (p *Poller) Wait(buf []unix.EpollEvent) ([]unix.EpollEvent, error) {
	if err := p.ctx.Err(); err != nil {
		return nil, context.Cause(p.ctx)
	}
	var ready []unix.EpollEvent
	var failed error
	err := p.conn.Read(func(uintptr) bool {
		ready, failed = p.Ready(buf)
		return failed != nil || len(ready) > 0
	})
	switch {
	case p.ctx.Err() != nil:
		return nil, context.Cause(p.ctx)
	case err != nil:
		return nil, err
	}
	return ready, failed
}
