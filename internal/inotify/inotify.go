// Package inotify reads what inotify(7) tells, as the kernel words it. Who
// decides what is watched, and when events are taken from the queue, is the caller.
package inotify

import (
	"encoding/binary"
	"errors"
	"iter"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Event is one of a watch.
type Event struct {
	Watch int    // its descriptor, -1 where events were lost (IN_Q_OVERFLOW)
	Mask  uint32 // what happened, see inotify(7)
	Name  string // of the file in the watched directory; "" is what is watched itself
}

// Open returns an inotify instance whose reads do not wait.
func Open() (fd int, err error) {
	fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	switch {
	case errors.Is(err, unix.EMFILE):
		return -1, errors.New("no inotify instance is left for this user: raise fs.inotify.max_user_instances")
	case err != nil:
		return -1, os.NewSyscallError("inotify_init1", err)
	}
	return fd, nil
}

// Read takes as many of the events that are there as fit into buf, which is
// used until they were seen. There may be none.
func Read(fd int, buf []byte) (iter.Seq[Event], error) {
	n, err := unix.Read(fd, buf)
	if err == unix.EINTR || err == unix.EAGAIN {
		n, err = 0, nil
	}
	if err != nil {
		return nil, os.NewSyscallError("read inotify", err)
	}
	return events(buf[:n]), nil
}

// events takes struct inotify_events apart.
func events(data []byte) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for left := data; len(left) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(left[12:]))
			one := left[:min(size, len(left))]
			left = left[len(one):]
			e := Event{
				Watch: int(int32(binary.NativeEndian.Uint32(one))),
				Mask:  binary.NativeEndian.Uint32(one[4:]),
				Name:  strings.TrimRight(string(one[unix.SizeofInotifyEvent:]), "\x00"),
			}
			if !yield(e) {
				return
			}
		}
	}
}
