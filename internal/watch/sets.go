package watch

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
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
	// One socket, or each look would take several calls more.
	socket, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer socket.Close()
	h := &nl.SocketHandle{Socket: socket}
	var was *[sha256.Size]byte // nil: it isn't known
	for {
		every := setsEvery
		is, err := digest(h)
		switch {
		case errors.Is(err, unix.EINVAL):
			every = noSetsEvery
		case err != nil && !errors.Is(err, netlink.ErrDumpInterrupted):
			return err
		}
		if was == nil || is != *was {
			wake(s.Parts()...)
			was = &is
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}

// digest stands for what cordon's sets are and hold.
func digest(h *nl.SocketHandle) (sum [sha256.Size]byte, err error) {
	names, err := setNames(h)
	if err != nil {
		return sum, err
	}
	hash := sha256.New()
	for _, name := range names {
		answers, err := list(h, nl.NewRtAttr(nl.IPSET_ATTR_SETNAME, nl.ZeroTerminated(name)))
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return sum, err
		}
		for _, a := range answers {
			hash.Write(a)
		}
	}
	return [sha256.Size]byte(hash.Sum(nil)), nil
}

func setNames(h *nl.SocketHandle) ([]string, error) {
	answers, err := list(h, nl.NewRtAttr(nl.IPSET_ATTR_FLAGS|unix.NLA_F_NET_BYTEORDER, []byte{0, 0, 0, listNames}))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range answers {
		if len(a) < nl.SizeofNfgenmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(a[nl.SizeofNfgenmsg:])
		if err != nil {
			return nil, err
		}
		for _, attr := range attrs {
			if attr.Attr.Type != nl.IPSET_ATTR_SETNAME {
				continue
			}
			if name := nl.BytesToString(attr.Value); strings.HasPrefix(name, specs.SetPrefix) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// list asks for sets: all, or as the attribute says.
func list(h *nl.SocketHandle, attr *nl.RtAttr) ([][]byte, error) {
	req := nl.NewNetlinkRequest(nl.IPSET_CMD_LIST|unix.NFNL_SUBSYS_IPSET<<8, nl.GetIpsetFlags(nl.IPSET_CMD_LIST))
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: h}
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_NETLINK, Version: nl.NFNETLINK_V0})
	req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, nl.Uint8Attr(nl.IPSET_PROTOCOL)))
	req.AddData(attr)
	return req.Execute(unix.NETLINK_NETFILTER, 0)
}
