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
	forwards   bool // IPv4
}

// route is a route of IPv4.
type route struct {
	table uint32
	kind  uint8 // RTN_UNICAST, RTN_LOCAL, …
	dst   netip.Prefix
	index int        // of the link; 0: none, or several
	via   netip.Addr // the zero Addr: on the link
	src   netip.Addr // the address to send from, if it is told
	odd   bool       // it has a next hop that is neither, a metric, or what else none of ours has
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
	if r.src.IsValid() && r.table == unix.RT_TABLE_MAIN {
		text += " src " + r.src.String()
	}
	if r.odd {
		text += " with attributes of its own"
	}
	return text
}

// from tells whether who sends by r does so from a.
func (r route) from(a netip.Addr) bool { return !r.src.IsValid() || r.src == a }

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
	for _, flags := range []byte{0, unix.NTF_PROXY} {
		of, err := list(ctx, s, unix.RTM_GETNEIGH, neighboursBody(flags), parseNeighbour)
		if err != nil {
			return fmt.Errorf("neighbours: %w", err)
		}
		in.neighbours = append(in.neighbours, of...)
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
				switch family {
				case unix.AF_INET:
					var n uint32
					n, err = setting(value, inetConf, 0, 1) // forwarding, see hostSysctls
					l.forwards = n != 0
				case unix.AF_INET6:
					var n uint32
					n, err = setting(value, inet6Conf, noIPv6().index, 0)
					l.ipv6 = n == 0
				}
				return err
			})
		}
		return nil
	})
	return l, err
}

// setting is one of a link's settings in an array of them, or what it is taken for
// where it is not told.
func setting(data []byte, array uint16, index int, untold uint32) (uint32, error) {
	value := untold
	err := netask.Attributes(data, func(kind uint16, values []byte) error {
		if at := 4 * index; kind == array && len(values) >= at+4 {
			value = binary.NativeEndian.Uint32(values[at:])
		}
		return nil
	})
	return value, err
}

// parseRoute reads an RTM_NEWROUTE message of IPv4.
func parseRoute(m []byte) (route, error) {
	if len(m) < unix.SizeofRtMsg {
		return route{}, errCut
	}
	bits, table, kind := int(m[1]), m[4], m[7] // of struct rtmsg
	fromBits, tos, flags := m[2], m[3], binary.NativeEndian.Uint32(m[8:])
	r := route{table: uint32(table), kind: kind, odd: fromBits|tos != 0 || flags&unix.RTNH_F_ONLINK != 0}
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
		case unix.RTA_DST, unix.RTA_GATEWAY, unix.RTA_PREFSRC:
			a, ok := netip.AddrFromSlice(value)
			if !ok || !a.Is4() {
				return errCut
			}
			switch kind {
			case unix.RTA_DST:
				dst = a
			case unix.RTA_GATEWAY:
				r.via = a
			default:
				r.src = a
			}
		default: // several next hops, one by number, a metric, …
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

// A number that the library lacks.
const skipStats = 1 << 3 // RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h
