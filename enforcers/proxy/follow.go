package proxy

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/epoll"
)

// follow has k's end and its changes told, as far as they can be and are not
// yet. The caller holds mu.
func (l *Live) follow(k *known) {
	if !k.watched && l.watcher != nil {
		err := l.watcher.Add(k.dir)
		if k.watched = err == nil; !k.watched && !errors.Is(err, fs.ErrNotExist) {
			l.log.Debug("watching a session", "session", k.Lease.ID, "error", err)
		}
	}
	if k.process < 0 && !k.outlived && l.exits != nil && k.Lease.PID > 1 {
		k.process = l.await(k.Lease.PID)
	}
	if k.watched && k.process >= 0 {
		return
	}
	select {
	case l.blind <- struct{}{}:
	default:
	}
}

// await has the end of a process told, and returns the pidfd for that; -1: it
// can't be waited for.
func (l *Live) await(pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		l.log.Debug("waiting for a session's process", "process", pid, "error", err)
		return -1
	}
	if err := l.exits.Add(fd, unix.EPOLLIN|unix.EPOLLONESHOT); err != nil {
		l.log.Debug("waiting for a session's process", "process", pid, "error", err)
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

func (k *known) unfollow() {
	if k.process >= 0 {
		_ = unix.Close(k.process)
		k.process = -1
	}
}

// awaitExits looks at sessions whose process has ended, until p ends.
func (l *Live) awaitExits(p *epoll.Poller) {
	for buf := make([]unix.EpollEvent, 16); ; {
		ready, err := p.Wait(buf)
		if err != nil {
			l.log.Debug("waiting for sessions' processes", "error", err)
			l.noExits()
			return
		}
		for _, e := range ready {
			l.exited(int(e.Fd))
		}
	}
}

// exited looks at the session whose process was waited for by fd. One that is
// still held, as by a program that its process was about to start, is looked at
// again soon.
func (l *Live) exited(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, k := range l.known {
		if k.process != fd {
			continue
		}
		l.refresh(id)
		l.index()
		if l.known[id] == k {
			k.outlived = true
			k.unfollow()
			l.follow(k)
		}
		return
	}
}

// noExits is called when nothing tells of ends any more.
func (l *Live) noExits() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exits = nil
	for _, k := range l.known {
		k.unfollow()
		l.follow(k)
	}
}
