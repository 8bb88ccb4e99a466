package terminal

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"
)

// hold leaves the caller's terminal to others: nothing more is taken from it
// or shown on it until letGo.
func (r *Relay) hold() {
	r.reads.Lock()
	defer r.reads.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = make(chan struct{})
	}
}

func (r *Relay) letGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		close(r.held)
		r.held = nil
	}
}

// end has nothing more read: what is being read was typed before.
func (r *Relay) end() {
	r.reads.Lock()
	defer r.reads.Unlock()
	close(r.stop)
}

// ours waits until the terminal is not held, and tells whether it still is to
// be relayed then.
func (r *Relay) ours() bool {
	for {
		r.mu.Lock()
		held := r.held
		r.mu.Unlock()
		if held == nil {
			return true
		}
		select {
		case <-held:
		case <-r.stop:
			return false
		}
	}
}

// copyOut shows what the session writes. A terminal whose other end is closed
// answers EIO.
func (r *Relay) copyOut() {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.master.Read(buf)
		if n > 0 {
			if !r.ours() {
				return
			}
			if _, err := r.user.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// copyIn hands over what is typed. It waits with poll(2), so that it takes
// nothing from the caller's terminal that was typed after the end.
func (r *Relay) copyIn(in *os.File) {
	wakeR, wakeW, err := os.Pipe()
	if err != nil {
		return
	}
	defer wakeR.Close()
	go func() { <-r.stop; _ = wakeW.Close() }()
	buf := make([]byte, 4<<10)
	fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}, {Fd: int32(wakeR.Fd()), Events: unix.POLLIN}}
	for r.ours() {
		if _, err := unix.Poll(fds, -1); err != nil {
			if err == unix.EINTR {
				continue
			}
			return
		}
		if fds[1].Revents != 0 {
			return
		}
		n, err := r.typed(in, buf)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if n <= 0 || err != nil {
			return
		}
		if _, err := r.master.Write(buf[:n]); err != nil {
			return
		}
	}
}

// typed reads what is there to be read. What was typed when the terminal is
// held, or after the end, is for others.
func (r *Relay) typed(in *os.File, buf []byte) (int, error) {
	r.reads.Lock()
	defer r.reads.Unlock()
	r.mu.Lock()
	held := r.held
	r.mu.Unlock()
	if held != nil {
		return 0, unix.EAGAIN
	}
	select {
	case <-r.stop:
		return 0, nil
	default:
	}
	fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); n <= 0 {
		return 0, cmp.Or(err, error(unix.EAGAIN))
	}
	return unix.Read(int(in.Fd()), buf)
}
