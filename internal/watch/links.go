package watch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/specs"
)

// Links watches what rtnetlink tells of, on the host and in slots.
type Links struct {
	room int // of tests: how much may be unread; 0 is enough
}

// Name implements [Watcher].
func (Links) Name() string { return "links" }

// Parts implements [Watcher].
func (Links) Parts() []string { return []string{slot, network} }

// Run implements [Watcher].
func (l Links) Run(ctx context.Context, wake Wake) error {
	return named(ctx, l.Name(), func() error {
		s, err := listen(unix.NETLINK_ROUTE, cmp.Or(l.room, enough), true, routeGroups()...)
		if err != nil {
			return err
		}
		defer s.close()
		return hear(ctx, s, l.Parts(), wake, partsOf)
	})
}

func routeGroups() []int {
	return []int{
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_TC,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV4_NETCONF,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV6_NETCONF,
	}
}

// partsOf tells whom a message is for. In the host's own namespace only what
// has to do with links of cordon's is; in others, everything.
func partsOf(m message) []string {
	switch m.kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if m.foreign || ourLink(m.data) {
			return []string{slot}
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if m.foreign || ourAddr(m.data) {
			return []string{slot}
		}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		// All others come and go with traffic.
		const state, flags = 8, 10 // of struct ndmsg
		if len(m.data) >= unix.SizeofNdMsg &&
			(binary.NativeEndian.Uint16(m.data[state:])&unix.NUD_PERMANENT != 0 || m.data[flags]&unix.NTF_PROXY != 0) {
			return []string{slot}
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWRULE, unix.RTM_DELRULE:
		if m.foreign {
			return []string{slot}
		}
	case unix.RTM_NEWNETCONF:
		return settingsOf(m)
	case unix.RTM_DELNETCONF: // goes with its link
	default: // of qdiscs and filters
		return []string{slot}
	}
	return nil
}

// ourLink tells whether a link is a slot's by name or mark, or stands on
// another link of this namespace, which may be a slot's. (The ends of a pair
// name each other too.)
func ourLink(data []byte) bool {
	if len(data) < unix.SizeofIfInfomsg {
		return true
	}
	attrs, err := nl.ParseRouteAttr(data[unix.SizeofIfInfomsg:])
	if err != nil {
		return true
	}
	ours, stands, pair, elsewhere := false, false, false, false
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFLA_IFNAME:
			ours = ours || slotName(a.Value)
		case unix.IFLA_IFALIAS:
			_, marked := owner.Addr(nl.BytesToString(a.Value))
			ours = ours || marked
		case unix.IFLA_LINK:
			stands = true
		case unix.IFLA_LINKINFO:
			pair = bytes.Contains(a.Value, []byte("veth\x00"))
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		}
	}
	return ours || stands && !pair && !elsewhere
}

func slotName(v []byte) bool { return isSlot(nl.BytesToString(v)) }

func isSlot(link string) bool {
	_, _, ok := specs.ParseInterface(link)
	return ok
}

// ourAddr tells whether an address is one of a slot's end, as the label of
// IPv4 says; other families have none.
func ourAddr(data []byte) bool {
	if len(data) < unix.SizeofIfAddrmsg {
		return true
	}
	attrs, err := nl.ParseRouteAttr(data[unix.SizeofIfAddrmsg:])
	if err != nil {
		return true
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.IFA_LABEL {
			return slotName(a.Value)
		}
	}
	return true
}
