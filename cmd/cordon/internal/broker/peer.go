package broker

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peer is who connected, as it was then.
type peer struct {
	uid, gid uint32
	pid      int // 0: in no pid namespace that this process sees
	groups   []uint32
}

// has tells whether the process had the group.
func (p peer) has(gid uint32) bool { return p.gid == gid || slices.Contains(p.groups, gid) }

// peerOf asks the kernel. Ids are those of this process's user namespace.
func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var p peer
	err = errors.Join(raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		p.uid, p.gid, p.pid = cred.Uid, cred.Gid, int(cred.Pid)
		p.groups, err = peerGroups(fd)
	}), err)
	if err != nil {
		return peer{}, fmt.Errorf("who connected: %w", err)
	}
	return p, nil
}

// peerGroups are the peer's supplementary groups (SO_PEERGROUPS, Linux 4.13).
func peerGroups(fd uintptr) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups)) * 4
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch errno {
		case 0:
			return groups[:size/4], nil
		case unix.ERANGE: // size is what it takes
			groups = make([]uint32, size/4+1)
		default:
			return nil, errno
		}
	}
}

// alive tells whether the process that connected still runs: what was looked
// up by its pid then was about it. Kernels before 6.5 can't tell.
func alive(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	if raw.Control(func(fd uintptr) {
		pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if err != nil {
			ok = errors.Is(err, unix.ENOPROTOOPT)
			return
		}
		defer unix.Close(pidfd)
		ok = unix.PidfdSendSignal(pidfd, 0, nil, 0) == nil
	}) != nil {
		return false
	}
	return ok
}
