package watch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/epoll"
)

// message is one netlink message that the kernel sent to all who listen.
type message struct {
	kind    uint16
	data    []byte // behind the header
	foreign bool   // of another network namespace than this one
}

// listener is a netlink socket that is told of changes.
type listener struct{ fd int }

// enough is the room that is asked for, in bytes, for messages that are not
// read yet. What does not fit is no loss: that some were lost is told.
const enough = 1 << 20

// listen joins groups of a protocol. With all it hears the namespaces that
// this one has an id for as well.
func listen(protocol, room int, all bool, groups ...int) (*listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	l := &listener{fd}
	if err := l.join(room, all, groups); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *listener) join(room int, all bool, groups []int) error {
	// Only root of the host may have more than the limit; others make do.
	if unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) != nil {
		_ = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room)
	}
	if all {
		if err := unix.SetsockoptInt(l.fd, unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1); err != nil {
			return fmt.Errorf("listen to all network namespaces: %w", err)
		}
	}
	if err := unix.Bind(l.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	for _, g := range groups {
		if err := unix.SetsockoptInt(l.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			return fmt.Errorf("join the netlink group %d: %w", g, err)
		}
	}
	return nil
}

func (l *listener) close() { _ = unix.Close(l.fd) }

// errMissed says that messages were lost: the kernel had no room for them.
var errMissed = errors.New("messages were lost")

// drain hands over all messages that are there.
func (l *listener) drain(buf []byte, each func(message)) error {
	var oob [256]byte
	for {
		n, oobn, flags, from, err := unix.Recvmsg(l.fd, buf, oob[:], 0)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return nil
		case err == unix.ENOBUFS:
			return errMissed
		case err != nil:
			return os.NewSyscallError("recvmsg", err)
		case flags&unix.MSG_TRUNC != 0:
			return errMissed
		}
		if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
			continue // not of the kernel
		}
		split(buf[:n], foreign(oob[:oobn]), each)
	}
}

// split hands over the messages of one datagram.
func split(data []byte, foreign bool, each func(message)) {
	for len(data) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(data))
		if size < unix.SizeofNlMsghdr || size > len(data) {
			return
		}
		each(message{kind: binary.NativeEndian.Uint16(data[4:]), data: data[unix.SizeofNlMsghdr:size], foreign: foreign})
		data = data[min((size+3)&^3, len(data)):]
	}
}

// foreign tells whether the kernel said of which other namespace it speaks.
func foreign(oob []byte) bool {
	if len(oob) == 0 {
		return false
	}
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return true // and look at it
	}
	for _, c := range list {
		if c.Header.Level == unix.SOL_NETLINK && c.Header.Type == unix.NETLINK_LISTEN_ALL_NSID {
			return true
		}
	}
	return false
}

// hear wakes the parts that each message is for, and all of them in the
// beginning and when messages were lost.
func hear(ctx context.Context, l *listener, all []string, wake Wake, of func(message) []string) error {
	p, err := epoll.New(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Add(l.fd, unix.EPOLLIN); err != nil {
		return err
	}
	wake(all...)
	ready, buf := make([]unix.EpollEvent, 1), make([]byte, 64<<10)
	for {
		if _, err := p.Wait(ready); err != nil {
			return err
		}
		var parts set
		switch err := l.drain(buf, func(m message) { parts.add(of(m)...) }); {
		case errors.Is(err, errMissed):
			parts.add(all...)
		case err != nil:
			return err
		}
		if err := parts.wake(ctx, wake, rest); err != nil {
			return err
		}
	}
}
