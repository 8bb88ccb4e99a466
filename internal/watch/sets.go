package watch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/specs"
)

// Sets watches the ipsets that are cordon's by name. They are read from time
// to time, for ipset tells nobody of changes.
type Sets struct{}

const (
	setsEvery   = 500 * time.Millisecond
	noSetsEvery = 30 * time.Second // where the kernel has no ipset: asking makes it look for the module

	listNames = 1 << 1 // IPSET_FLAG_LIST_SETNAME of linux/netfilter/ipset/ip_set.h
)

// Name implements [Watcher].
func (Sets) Name() string { return "sets" }

// Parts implements [Watcher].
func (Sets) Parts() []string { return []string{network} }

// Run implements [Watcher].
func (s Sets) Run(ctx context.Context, wake Wake) error {
	return named(ctx, s.Name(), func() error { return s.run(ctx, wake) })
}

func (s Sets) run(ctx context.Context, wake Wake) error {
	l, err := newLister()
	if err != nil {
		return err
	}
	defer l.close()
	var is, was []byte
	for known := false; ; {
		every := setsEvery
		switch is, err = l.ours(is[:0]); {
		case errors.Is(err, unix.EINVAL):
			every = noSetsEvery
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		}
		if !known || !bytes.Equal(is, was) {
			wake(s.Parts()...)
			known = true
			is, was = was, is
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}

// lister asks for sets. It makes nothing anew for each look.
type lister struct {
	fd      int
	seq     uint32
	buf     []byte
	request []byte
}

// listRoom is the most that the kernel writes into one answer of a list.
const listRoom = 32 << 10

// answerPatience is how long the kernel may take to answer: it does at once,
// or has lost an answer for want of memory.
const answerPatience = 5 // seconds

func newLister() (*lister, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerPatience})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("a socket of netlink: %w", err)
	}
	return &lister{fd: fd, buf: make([]byte, listRoom)}, nil
}

func (l *lister) close() { _ = unix.Close(l.fd) }

// ours appends to out what the kernel says of cordon's sets: what they are and
// hold, as it writes it. The same of everything is the same bytes. The error is
// EINTR for what changed meanwhile.
func (l *lister) ours(out []byte) ([]byte, error) {
	var names []string
	err := l.list(nl.IPSET_ATTR_FLAGS|unix.NLA_F_NET_BYTEORDER, []byte{0, 0, 0, listNames}, func(answer []byte) error {
		attrs, err := nl.ParseRouteAttr(answer)
		if err != nil {
			return err
		}
		for _, a := range attrs {
			if a.Attr.Type != nl.IPSET_ATTR_SETNAME {
				continue
			}
			if name := nl.BytesToString(a.Value); strings.HasPrefix(name, specs.SetPrefix) {
				names = append(names, name)
			}
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	for _, name := range names {
		err := l.list(nl.IPSET_ATTR_SETNAME, nl.ZeroTerminated(name), func(answer []byte) error {
			out = append(out, answer...)
			return nil
		})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return out, err
		}
	}
	return out, nil
}

// list asks for sets, all or as the attribute says, and hands over what each
// message of the answer says. It returns EINTR when the list is not to be
// relied on.
func (l *lister) list(kind int, value []byte, each func([]byte) error) error {
	l.ask(kind, value)
	if err := unix.Sendto(l.fd, l.request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	changed := false
	for {
		n, from, err := unix.Recvfrom(l.fd, l.buf, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOBUFS:
			return errMissed
		case err != nil:
			return os.NewSyscallError("recvfrom", err)
		}
		if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
			continue // not of the kernel
		}
		done, err := l.answers(l.buf[:n], &changed, each)
		switch {
		case err != nil:
			return err
		case done && changed:
			return unix.EINTR
		case done:
			return nil
		}
	}
}

// answers takes one datagram, and tells whether it is the last.
func (l *lister) answers(data []byte, changed *bool, each func([]byte) error) (done bool, err error) {
	for len(data) >= unix.SizeofNlMsghdr {
		size, kind := int(binary.NativeEndian.Uint32(data)), binary.NativeEndian.Uint16(data[4:])
		if size < unix.SizeofNlMsghdr || size > len(data) {
			return true, errors.New("an answer of netlink is cut off")
		}
		message, flags := data[unix.SizeofNlMsghdr:size], binary.NativeEndian.Uint16(data[6:])
		if binary.NativeEndian.Uint32(data[8:]) != l.seq {
			return true, errors.New("an answer of netlink to nothing that was asked")
		}
		*changed = *changed || flags&unix.NLM_F_DUMP_INTR != 0
		data = data[min((size+3)&^3, len(data)):]
		switch {
		case kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR:
			if len(message) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(message)); code != 0 {
					return true, unix.Errno(-code)
				}
			}
			return true, nil
		case len(message) >= nl.SizeofNfgenmsg:
			if err := each(message[nl.SizeofNfgenmsg:]); err != nil {
				return true, err
			}
		}
	}
	return false, nil
}

// ask writes the request that list sends, see linux/netfilter/ipset/ip_set.h.
func (l *lister) ask(kind int, value []byte) {
	l.seq++
	req := nl.NewNetlinkRequest(nl.IPSET_CMD_LIST|unix.NFNL_SUBSYS_IPSET<<8, nl.GetIpsetFlags(nl.IPSET_CMD_LIST))
	req.Seq = l.seq
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_NETLINK, Version: nl.NFNETLINK_V0})
	req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, nl.Uint8Attr(nl.IPSET_PROTOCOL)))
	req.AddData(nl.NewRtAttr(kind, value))
	l.request = req.Serialize()
}
