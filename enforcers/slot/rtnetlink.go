package slot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/netask"
)

// What a namespace says of itself by rtnetlink(7). It is asked for every slot
// again and again: nothing is read of it that is not compared.

// innerLink is a link in a namespace.
type innerLink struct {
	index      int
	peer       int // index of the other end of a pair, wherever that is
	name, kind string
	up, ipv6   bool
}

// route is a route of IPv4.
type route struct {
	table uint32
	kind  uint8 // RTN_UNICAST, RTN_LOCAL, …
	dst   netip.Prefix
	index int        // of the link; 0: none, or several
	via   netip.Addr // the zero Addr: on the link
	odd   bool       // it has a next hop that is neither
}

func (r route) local() bool { return r.table == unix.RT_TABLE_LOCAL && r.kind == unix.RTN_LOCAL }

// onLink tells whether r is of what is reached on eth0 without a next hop.
func (r route) onLink(in inside) bool { return r.through(in, netip.Addr{}) }

// through tells whether r leads over eth0 by way of via.
func (r route) through(in inside, via netip.Addr) bool {
	return r.kind == unix.RTN_UNICAST && !r.odd && r.via == via && in.linkName(r.index) == inner
}

func (r route) show(in inside) string {
	text := r.dst.String()
	if kind := routeKinds()[r.kind]; kind != "" {
		text = kind + " " + text
	}
	if r.via.IsValid() {
		text += " via " + r.via.String()
	}
	if name := in.linkName(r.index); name != "" {
		text += " dev " + name
	}
	return text
}

// routeKinds are the types of routes that are no way to anywhere else, as ip(8)
// calls them.
func routeKinds() map[uint8]string {
	return map[uint8]string{
		unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast", unix.RTN_ANYCAST: "anycast", unix.RTN_MULTICAST: "multicast",
		unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable", unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw", unix.RTN_NAT: "nat",
	}
}

func (in inside) linkName(index int) string {
	for _, l := range in.links {
		if l.index == index {
			return l.name
		}
	}
	return ""
}

// rule is a rule of routing. Those that a namespace is made with look tables up
// for everything.
type rule struct {
	priority, table uint32
	odd             bool // it is of another kind
}

func firstRules() []rule {
	return []rule{{0, unix.RT_TABLE_LOCAL, false}, {32766, unix.RT_TABLE_MAIN, false}, {32767, unix.RT_TABLE_DEFAULT, false}}
}

// ask fills in what the namespace says by rtnetlink.
func (in *inside) ask(ctx context.Context, s *netask.Socket) error {
	var ipv4 [unix.SizeofRtMsg]byte
	ipv4[0] = unix.AF_INET
	var err error
	if in.links, err = list(ctx, s, unix.RTM_GETLINK, linksBody(), parseInnerLink); err != nil {
		return fmt.Errorf("links: %w", err)
	}
	if in.routes, err = list(ctx, s, unix.RTM_GETROUTE, ipv4[:], parseRoute); err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	in.rules, err = list(ctx, s, unix.RTM_GETRULE, ipv4[:], parseRule)
	if errors.Is(err, unix.EOPNOTSUPP) { // a kernel without them
		in.rules, err = firstRules(), nil
	}
	if err != nil {
		return fmt.Errorf("rules of routing: %w", err)
	}
	if in.forwards, err = forwards(s); err != nil {
		return fmt.Errorf("forwarding: %w", err)
	}
	return nil
}

// list asks for a list, again for as long as it changed meanwhile.
func list[T any](ctx context.Context, s *netask.Socket, kind uint16, body []byte, parse func([]byte) (T, error)) ([]T, error) {
	return dump(ctx, func() (out []T, err error) {
		err = s.Ask(kind, unix.NLM_F_DUMP, body, func(m []byte) error {
			one, err := parse(m)
			out = append(out, one)
			return err
		})
		return out, err
	})
}

var errCut = errors.New("a message is cut off")

func parseInnerLink(m []byte) (innerLink, error) {
	if len(m) < unix.SizeofIfInfomsg {
		return innerLink{}, errCut
	}
	msg := nl.DeserializeIfInfomsg(m)
	// Before Linux 5.11 a peer of the same index is not told.
	l := innerLink{index: int(msg.Index), peer: int(msg.Index), up: msg.Flags&unix.IFF_UP != 0}
	err := netask.Attributes(m[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) error {
		switch kind {
		case unix.IFLA_IFNAME:
			l.name = nl.BytesToString(value)
		case unix.IFLA_LINK:
			if len(value) != 4 {
				return errCut
			}
			l.peer = int(binary.NativeEndian.Uint32(value))
		case unix.IFLA_LINKINFO:
			return takeKind(value, &l.kind)
		case unix.IFLA_AF_SPEC:
			return netask.Attributes(value, func(family uint16, value []byte) (err error) {
				if family == unix.AF_INET6 {
					l.ipv6, err = ipv6On(value)
				}
				return err
			})
		}
		return nil
	})
	return l, err
}

// ipv6On reads a link's settings of IPv6.
func ipv6On(data []byte) (on bool, err error) {
	on = true
	err = netask.Attributes(data, func(kind uint16, value []byte) error {
		if at := 4 * noIPv6().index; kind == inet6Conf && len(value) >= at+4 {
			on = binary.NativeEndian.Uint32(value[at:]) == 0
		}
		return nil
	})
	return on, err
}

// parseRoute reads an RTM_NEWROUTE message of IPv4.
func parseRoute(m []byte) (route, error) {
	if len(m) < unix.SizeofRtMsg {
		return route{}, errCut
	}
	bits, table, kind := int(m[1]), m[4], m[7] // of struct rtmsg
	r := route{table: uint32(table), kind: kind}
	dst := netip.IPv4Unspecified()
	err := netask.Attributes(m[unix.SizeofRtMsg:], func(kind uint16, value []byte) error {
		switch kind {
		case unix.RTA_TABLE, unix.RTA_OIF:
			if len(value) != 4 {
				return errCut
			}
			if n := binary.NativeEndian.Uint32(value); kind == unix.RTA_TABLE {
				r.table = n
			} else {
				r.index = int(n)
			}
		case unix.RTA_DST, unix.RTA_GATEWAY:
			a, ok := netip.AddrFromSlice(value)
			if !ok || !a.Is4() {
				return errCut
			}
			if kind == unix.RTA_DST {
				dst = a
			} else {
				r.via = a
			}
		case unix.RTA_MULTIPATH, unix.RTA_VIA, unix.RTA_ENCAP, nextHopID:
			r.odd = true
		}
		return nil
	})
	if r.dst = netip.PrefixFrom(dst, bits); err == nil && !r.dst.IsValid() {
		err = fmt.Errorf("to %s/%d", dst, bits)
	}
	return r, err
}

// parseRule reads an RTM_NEWRULE message, see linux/fib_rules.h.
func parseRule(m []byte) (rule, error) {
	const header, lookUp = 12, 1 // size of struct fib_rule_hdr, FR_ACT_TO_TBL
	if len(m) < header {
		return rule{}, errCut
	}
	to, from, tos, table, action, flags := m[1], m[2], m[3], m[4], m[7], binary.NativeEndian.Uint32(m[8:])
	r := rule{table: uint32(table), odd: to|from|tos != 0 || action != lookUp || flags != 0}
	err := netask.Attributes(m[header:], func(kind uint16, value []byte) error {
		number := ^uint32(0)
		if len(value) == 4 {
			number = binary.NativeEndian.Uint32(value)
		}
		switch kind {
		case unix.FRA_TABLE:
			r.table = number
		case unix.FRA_PRIORITY:
			r.priority = number
		case unix.FRA_SUPPRESS_PREFIXLEN:
			r.odd = r.odd || number != ^uint32(0) // none
		case unix.FRA_PROTOCOL: // who made it
		default:
			r.odd = true
		}
		return nil
	})
	return r, err
}

// Numbers that the library lacks.
const (
	skipStats  = 1 << 3 // RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h
	nextHopID  = 0x1e   // RTA_NH_ID of linux/rtnetlink.h
	confIndex  = 1      // NETCONFA_IFINDEX of linux/netconf.h
	confOnward = 2      // NETCONFA_FORWARDING
)

// forwards tells whether a namespace forwards IPv4. The setting is inherited from
// the first one.
func forwards(s *netask.Socket) (bool, error) {
	body := []byte{unix.AF_INET, 0, 0, 0}
	all := int32(-1) // NETCONFA_IFINDEX_ALL
	body = binary.NativeEndian.AppendUint16(body, 8)
	body = binary.NativeEndian.AppendUint16(body, confIndex)
	body = binary.NativeEndian.AppendUint32(body, uint32(all))
	on, told := false, false
	err := s.Ask(unix.RTM_GETNETCONF, 0, body, func(m []byte) error {
		if len(m) < 4 {
			return errCut
		}
		return netask.Attributes(m[4:], func(kind uint16, value []byte) error {
			if kind == confOnward && len(value) == 4 {
				on, told = binary.NativeEndian.Uint32(value) != 0, true
			}
			return nil
		})
	})
	if err == nil && !told {
		err = errors.New("the kernel did not say")
	}
	return on, err
}
