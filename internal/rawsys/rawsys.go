// Package rawsys makes system calls that never wait without telling Go's
// scheduler of them. Told of a call, the scheduler wakes a thread that watches
// whether it takes long, and may give the processor to another thread
// meanwhile; of a request that is through in a tenth of a millisecond, that is
// most of the time. In return, nothing else runs on the processor during such a
// call, and the collector waits for its end: they are for sockets that do not
// block, and for files in memory, as those of the run directory are.
package rawsys

import (
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

// Lstat is lstat(2), of a file in memory.
func Lstat(path string, st *unix.Stat_t) error {
	cwd := unix.AT_FDCWD // a variable, so that it may be made unsigned
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	_, _, e := syscall.RawSyscall6(unix.SYS_NEWFSTATAT, uintptr(cwd), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	return failure(e)
}

func failure(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
