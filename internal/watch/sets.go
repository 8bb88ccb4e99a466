package watch

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/netask"
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
	defer l.Close()
	var is, was []byte
	for known := false; ; {
		every := setsEvery
		switch is, err = l.ours(is[:0]); {
		case errors.Is(err, unix.EINVAL):
			every = noSetsEvery
		case err != nil && !errors.Is(err, netask.ErrChanged):
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

// lister asks for sets.
type lister struct{ *netask.Socket }

func newLister() (lister, error) {
	s, err := netask.New(unix.NETLINK_NETFILTER, make([]byte, netask.Room))
	return lister{s}, err
}

// ours appends to out what the kernel says of cordon's sets: what they are and
// hold, as it writes it. The same of everything is the same bytes.
func (l lister) ours(out []byte) ([]byte, error) {
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

// list asks for sets, all or as the attribute says, see
// linux/netfilter/ipset/ip_set.h, and hands over what each message of the answer
// says.
func (l lister) list(kind int, value []byte, each func([]byte) error) error {
	body := (&nl.Nfgenmsg{NfgenFamily: unix.AF_NETLINK, Version: nl.NFNETLINK_V0}).Serialize()
	body = append(body, nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, nl.Uint8Attr(nl.IPSET_PROTOCOL)).Serialize()...)
	body = append(body, nl.NewRtAttr(kind, value).Serialize()...)
	return l.Ask(nl.IPSET_CMD_LIST|unix.NFNL_SUBSYS_IPSET<<8, uint16(nl.GetIpsetFlags(nl.IPSET_CMD_LIST)), body, func(answer []byte) error {
		if len(answer) < nl.SizeofNfgenmsg {
			return nil
		}
		return each(answer[nl.SizeofNfgenmsg:])
	})
}
