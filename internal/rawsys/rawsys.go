// Package rawsys makes system calls that never wait without telling Go's
// scheduler of them. Told of a call, the scheduler wakes a thread that watches
// whether it takes long, and may give the processor to another thread
// meanwhile; of a request that is through in a tenth of a millisecond, that is
// most of the time. In return, nothing else runs on the processor during such a
// call, and the collector waits for its end: they are for sockets that do not
// block, and for files in memory, as those of the run directory, of /proc and of
// control groups are, and for what tells of these.
package rawsys

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Flock takes a lock of the kind how (LOCK_SH, LOCK_EX) on the open file fd. It
// does not wait: the error is EWOULDBLOCK where another holds one against it.
func Flock(fd, how int) error {
	_, _, e := syscall.RawSyscall(syscall.SYS_FLOCK, uintptr(fd), uintptr(how|syscall.LOCK_NB), 0)
	return failure(e)
}

// Locked tells whether another open of the file has it locked for itself
// (LOCK_EX).
func Locked(fd int) (bool, error) {
	for {
		switch err := Flock(fd, unix.LOCK_SH); err {
		case nil: // it was free: let go of it again
			return false, Flock(fd, unix.LOCK_UN)
		case unix.EWOULDBLOCK:
			return true, nil
		case unix.EINTR:
		default:
			return false, err
		}
	}
}

// Lstat is lstat(2), of a file in memory. A name that is not absolute is one in
// the open directory dir.
func Lstat(dir int, name string, st *unix.Stat_t) error {
	if strings.IndexByte(name, 0) >= 0 {
		return unix.EINVAL
	}
	var room [128]byte // or the copy would be allocated
	p := append(append(room[:0], name...), 0)
	_, _, e := syscall.RawSyscall6(unix.SYS_NEWFSTATAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(unsafe.Pointer(st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	return failure(e)
}

// Open opens a file in memory, or one of /proc or a control group, to be read,
// and returns its descriptor. A name that is not absolute is one in the open
// directory dir. It waits for nobody, also not for who writes a named pipe.
func Open(dir int, name string, flags int) (fd int, err error) {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	flags |= unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(flags), 0, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return -1, &os.PathError{Op: "open", Path: name, Err: e}
		}
	}
}

// Close closes what Open opened.
func Close(fd int) { _, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// ReadFile returns all that a file holds, opened as by [Open], in four system
// calls. It reads into buf as long as that has room.
func ReadFile(dir int, name string, buf []byte) ([]byte, error) {
	fd, err := Open(dir, name, 0)
	if err != nil {
		return nil, err
	}
	defer Close(fd)
	text := buf[:0]
	for {
		if len(text) == cap(text) {
			text = slices.Grow(text, max(minRead, cap(text)))
		}
		n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(text[len(text):cap(text)]))), uintptr(cap(text)-len(text)))
		switch {
		case e == syscall.EINTR:
		case e != 0:
			return nil, &os.PathError{Op: "read", Path: name, Err: e}
		case n == 0:
			return text, nil
		default:
			text = text[:len(text)+int(n)]
		}
	}
}

// Unread is how many bytes a read would find, of a descriptor that tells (FIONREAD,
// which is TIOCINQ by another name; see inotify(7)).
func Unread(fd int) (int, error) {
	var n int32
	_, _, e := syscall.RawSyscall(syscall.SYS_IOCTL, uintptr(fd), unix.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	return int(n), failure(e)
}

// minRead is the least room that is made for what a file holds.
const minRead = 512

func failure(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
