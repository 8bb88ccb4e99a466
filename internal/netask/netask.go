// Package netask asks the kernel by netlink, see netlink(7), for those who ask
// often: one socket and its buffers serve all questions, and attributes are
// walked where they came.
package netask

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrChanged is the error of a list of which something changed while the kernel
// wrote it: it may have holes.
var ErrChanged = errors.New("what was listed changed meanwhile")

// Room is the most that the kernel writes into one answer.
const Room = 32 << 10

// patience is how long the kernel may take to answer, in seconds: it does at
// once, or has lost an answer for want of memory.
const patience = 5

// Socket asks in the network namespace that its maker was in.
type Socket struct {
	fd       int
	seq      uint32
	buf, out []byte
}

// New returns a Socket of a protocol. Its answers are read into buf, which should
// be of Room bytes.
func New(protocol int, buf []byte) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: patience}); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("setsockopt", err)
	}
	return &Socket{fd: fd, buf: buf}, nil
}

// Close closes the Socket.
func (s *Socket) Close() { _ = unix.Close(s.fd) }

// Ask makes a request of a kind, with flags besides NLM_F_REQUEST, and calls each
// with what every message of the answer says behind its header. One that is not a
// list has one. An error of each ends the Socket's use.
func (s *Socket) Ask(kind, flags uint16, body []byte, each func(message []byte) error) error {
	s.seq++
	out := binary.NativeEndian.AppendUint32(s.out[:0], uint32(unix.SizeofNlMsghdr+len(body)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = binary.NativeEndian.AppendUint16(out, flags|unix.NLM_F_REQUEST)
	out = binary.NativeEndian.AppendUint32(out, s.seq)
	s.out = append(append(out, 0, 0, 0, 0), body...)
	if err := unix.Sendto(s.fd, s.out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	a := answer{seq: s.seq, list: flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP, each: each}
	for !a.done {
		n, from, err := unix.Recvfrom(s.fd, s.buf, unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return os.NewSyscallError("recvfrom", err)
		case n > len(s.buf):
			return fmt.Errorf("an answer of %d bytes: %w", n, unix.EMSGSIZE)
		}
		if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
			continue // not of the kernel
		}
		if err := a.take(s.buf[:n]); err != nil {
			return err
		}
	}
	if a.changed {
		return ErrChanged
	}
	return nil
}

// answer is one that is being read.
type answer struct {
	seq           uint32
	list          bool
	each          func([]byte) error
	changed, done bool
}

var errCut = errors.New("an answer of netlink is cut off")

// take reads one datagram.
func (a *answer) take(data []byte) error {
	for len(data) >= unix.SizeofNlMsghdr {
		size, kind := int(binary.NativeEndian.Uint32(data)), binary.NativeEndian.Uint16(data[4:])
		if size < unix.SizeofNlMsghdr || size > len(data) {
			return errCut
		}
		message, flags := data[unix.SizeofNlMsghdr:size], binary.NativeEndian.Uint16(data[6:])
		if binary.NativeEndian.Uint32(data[8:]) != a.seq {
			return errors.New("an answer of netlink to nothing that was asked")
		}
		a.changed = a.changed || flags&unix.NLM_F_DUMP_INTR != 0
		data = data[min((size+3)&^3, len(data)):]
		if kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR {
			a.done = true
			if len(message) < 4 {
				return errCut
			}
			if code := int32(binary.NativeEndian.Uint32(message)); code != 0 {
				return unix.Errno(-code)
			}
			return nil
		}
		a.done = !a.list
		if err := a.each(message); err != nil {
			return err
		}
	}
	return nil
}

// Attributes calls each with the attributes in data, by kind without the bits
// that say how its value is to be read.
func Attributes(data []byte, each func(kind uint16, value []byte) error) error {
	for len(data) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(data))
		if size < unix.SizeofNlAttr || size > len(data) {
			return errors.New("an attribute of netlink is cut off")
		}
		kind := binary.NativeEndian.Uint16(data[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := each(kind, data[unix.SizeofNlAttr:size]); err != nil {
			return err
		}
		data = data[min((size+3)&^3, len(data)):]
	}
	return nil
}
