package slot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/specs"
)

func (k linux) build(ctx context.Context, s Slot) error {
	unlock, err := k.holdPins(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	ns, err := k.namespace(s)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := deleteMarked(s); err != nil {
		return err
	}
	if err := overlap(s.Session); err != nil {
		return err
	}
	// The pair is made from inside: that fails when the host has a link of the
	// name, which is then someone else's.
	self, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer self.Close()
	if err := alone(func() error { return furnish(ns, self, s) }); err != nil {
		return err
	}
	return join(s)
}

// namespace returns the slot's pinned namespace, emptied of what is not to be
// there, or a new one.
func (k linux) namespace(s Slot) (*os.File, error) {
	path := k.dir.Netns(s.Network, s.Number)
	ns, st, err := openPin(path)
	if err != nil {
		return nil, err
	}
	if st == live {
		usable, err := k.clear(ns, s)
		if err == nil && usable && !s.fresh {
			return ns, nil
		}
		_ = ns.Close()
		if err != nil {
			return nil, err
		}
	}
	if st != absent {
		if err := unpin(path); err != nil {
			return nil, err
		}
	}
	if err := pinNew(path); err != nil {
		return nil, err
	}
	ns, st, err = openPin(path)
	if err == nil && st != live {
		err = fmt.Errorf("%s: the namespace is not to be seen at its pin", path)
	}
	return ns, err
}

// clear empties the slot's namespace, and tells whether it can be used. What is
// not its own stays as it is.
func (k linux) clear(ns *os.File, s Slot) (usable bool, err error) {
	if own, err := k.owns(ns, s); err != nil || !own {
		return false, err
	}
	err = alone(func() error {
		usable, err = empty(ns)
		return err
	})
	return usable, err
}

// empty enters ns and removes the session's end of the pair, and with it the
// host's whatever that is called by now, and all addresses and routes. It
// tells whether nothing else is left.
func empty(ns *os.File) (bool, error) {
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return false, fmt.Errorf("enter %s: %w", ns.Name(), err)
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return false, err
	}
	defer h.Close()
	links, err := h.LinkList()
	if err != nil {
		return false, fmt.Errorf("links in %s: %w", ns.Name(), err)
	}
	usable := true
	var lo netlink.Link
	for _, l := range links {
		switch name := l.Attrs().Name; {
		case name == inner:
			if err := h.LinkDel(l); err != nil {
				return false, fmt.Errorf("delete %s in %s: %w", name, ns.Name(), err)
			}
		case name == loop:
			lo = l
		default:
			usable = usable && fallback(name, l.Type(), l.Attrs().Flags&net.FlagUp != 0)
		}
	}
	if lo == nil || !usable {
		return false, nil
	}
	clean, err := flush(h, lo)
	if err != nil {
		return false, fmt.Errorf("%s in %s: %w", loop, ns.Name(), err)
	}
	return clean, nil
}

// flush removes the addresses of the loopback link that the kernel did not put
// there, and the routes that are left when eth0 is gone; those in the table
// "local" but of addresses are the kernel's. It tells whether they all went: a
// route by the number of a next hop does not.
func flush(h *netlink.Handle, lo netlink.Link) (clean bool, err error) {
	addrs, err := h.AddrList(lo, netlink.FAMILY_V4)
	if err != nil {
		return false, err
	}
	for _, a := range addrs {
		if a.IP.IsLoopback() {
			continue
		}
		if err := h.AddrDel(lo, &a); err != nil {
			return false, err
		}
	}
	routes, err := h.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return false, err
	}
	for _, r := range routes {
		if r.Table == unix.RT_TABLE_LOCAL {
			continue
		}
		if err := h.RouteDel(&r); err != nil {
			return false, nil
		}
	}
	return true, nil
}

// deleteMarked deletes the host end, if it bears the slot's mark, by the name
// it should have and by the one it was read with.
func deleteMarked(s Slot) error {
	for _, name := range []string{s.host(), s.link} {
		if name == "" {
			continue
		}
		l, err := find(name)
		if err != nil {
			return err
		}
		if l == nil || l.alias != s.mark() {
			continue
		}
		if err := netlink.LinkDel(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: l.name, Index: l.index}}); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}

// overlap returns an error when the host already reaches the slot's address
// on a link of its own: with the slot there, that neighbour would be cut off,
// or the slot be taken for it.
func overlap(session netip.Prefix) error {
	routes, err := netlink.RouteGetWithOptions(session.Addr().AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL) {
		return nil // no route at all, or one that refuses
	}
	if err != nil {
		return fmt.Errorf("route to %s: %w", session.Addr(), err)
	}
	for _, r := range routes {
		if r.Dst == nil || r.Gw != nil || len(r.MultiPath) > 0 {
			continue
		}
		if ones, bits := r.Dst.Mask.Size(); ones == 0 && bits > 0 {
			continue
		}
		return fmt.Errorf("%s is in use on this host: route %s%s", session.Masked(), r.Dst, device(r.LinkIndex))
	}
	return nil
}

func device(index int) string {
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		return ""
	}
	return " dev " + l.Attrs().Name
}

// furnish enters ns and makes the pair and all that is inside.
func furnish(ns, host *os.File, s Slot) error {
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", ns.Name(), err)
	}
	// This holds for all links there are and for all to come.
	if err := noIPv6().write("all"); err != nil {
		return err
	}
	if err := noForwarding(); err != nil {
		return err
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName(loop)
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	pair := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: inner, TxQLen: -1},
		PeerName:      s.host(),
		PeerNamespace: netlink.NsFd(host.Fd()),
	}
	if err := h.LinkAdd(pair); errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("the host has a link %s that does not bear cordon's mark; it is left alone", s.host())
	} else if err != nil {
		return fmt.Errorf("make the pair %s, %s: %w", s.host(), inner, err)
	}
	return address(h, pair, s.Session, s.route())
}

// noForwarding turns off what a namespace inherits from a host that forwards, for
// all links there are and for all to come.
func noForwarding() error {
	for _, name := range []string{"all", "default", loop} {
		if err := (sysctl{name: "ipv4/forwarding", value: "0"}).write(name); err != nil {
			return err
		}
	}
	return nil
}

// route is the default route of a slot that has one.
func (s Slot) route() *netlink.Route {
	if s.Egress != specs.EgressInternet {
		return nil
	}
	all := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	return &netlink.Route{Dst: all, Gw: s.Host.Addr().AsSlice()}
}

// address gives l its address, brings it up, and adds the route over it.
func address(h *netlink.Handle, l netlink.Link, p netip.Prefix, r *netlink.Route) error {
	name := l.Attrs().Name
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}}
	if err := h.AddrAdd(l, addr); err != nil {
		return fmt.Errorf("%s: add %s: %w", name, p, err)
	}
	if err := h.LinkSetUp(l); err != nil {
		return fmt.Errorf("%s up: %w", name, err)
	}
	if r == nil {
		return nil
	}
	r.LinkIndex = l.Attrs().Index
	if err := h.RouteAdd(r); err != nil {
		return fmt.Errorf("%s: default route: %w", name, err)
	}
	return nil
}

// join marks and sets the host end, and brings it up last.
func join(s Slot) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(s.host())
	if err != nil {
		return fmt.Errorf("link %s: %w", s.host(), err)
	}
	if err := h.LinkSetAlias(l, s.mark()); err != nil {
		return fmt.Errorf("mark %s: %w", s.host(), err)
	}
	for _, c := range hostSysctls(s.Egress) {
		if err := c.write(s.host()); err != nil {
			return err
		}
	}
	return address(h, l, s.Host, nil)
}

func (k linux) remove(_ context.Context, s Slot) error {
	// The link goes first: the namespace, and the pair with it, lives on while
	// any process is in it.
	if err := deleteMarked(s); err != nil {
		return err
	}
	path := k.dir.Netns(s.Network, s.Number)
	ns, st, err := openPin(path)
	if err != nil {
		return err
	}
	if st == live {
		defer ns.Close()
		if _, err := k.clear(ns, s); err != nil {
			return err
		}
	}
	if err := unpin(path); err != nil {
		return err
	}
	return k.dropPins()
}
