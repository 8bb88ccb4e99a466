package slot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/netask"
	"github.com/aicodesit/cordon/specs"
)

// find returns the link called name, or nil.
func find(name string) (*link, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	if len(msgs) != 1 {
		return nil, fmt.Errorf("link %s: %d answers", name, len(msgs))
	}
	l, err := parseLink(msgs[0])
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	return &l, nil
}

// listLinks dumps all links of the host, without their statistics.
func listLinks(ctx context.Context, s *netask.Socket) ([]link, error) {
	return list(ctx, s, unix.RTM_GETLINK, linksBody(), parseLink)
}

func linksBody() []byte {
	body := make([]byte, unix.SizeofIfInfomsg, unix.SizeofIfInfomsg+8)
	body = binary.NativeEndian.AppendUint16(body, 8)
	body = binary.NativeEndian.AppendUint16(body, unix.IFLA_EXT_MASK)
	return binary.NativeEndian.AppendUint32(body, skipStats)
}

// parseLink reads an RTM_NEWLINK message, see rtnetlink(7). It says all that
// would else be read from /proc/sys, file by file.
func parseLink(m []byte) (link, error) {
	if len(m) < unix.SizeofIfInfomsg {
		return link{}, errors.New("a link's message is cut off")
	}
	msg := nl.DeserializeIfInfomsg(m)
	l := link{index: int(msg.Index), odd: oddFlags(msg.Flags), up: msg.Flags&unix.IFF_UP != 0, sysctls: map[string]string{}}
	elsewhere := false
	err := netask.Attributes(m[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) error {
		if odd := oddAttr(kind, value); odd != "" {
			l.odd = append(l.odd, odd)
		}
		switch kind {
		case unix.IFLA_LINK:
			if len(value) == 4 {
				l.lower = int(nl.NativeEndian().Uint32(value))
			}
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		case unix.IFLA_IFNAME:
			l.name = nl.BytesToString(value)
		case unix.IFLA_IFALIAS:
			l.alias = nl.BytesToString(value)
		case unix.IFLA_LINKINFO:
			return takeKind(value, &l.kind)
		case unix.IFLA_AF_SPEC:
			return netask.Attributes(value, func(family uint16, value []byte) error { return addSysctls(l.sysctls, family, value) })
		}
		return nil
	})
	if elsewhere {
		l.lower = 0
	}
	return l, err
}

// Attributes of IFLA_AF_SPEC that hold an array of settings, linux/if_link.h.
const (
	inetConf  = 1 // IFLA_INET_CONF
	inet6Conf = 2 // IFLA_INET6_CONF
)

func addSysctls(to map[string]string, af uint16, data []byte) error {
	family, want := "ipv4/", uint16(inetConf)
	if af == unix.AF_INET6 {
		family, want = "ipv6/", inet6Conf
	} else if af != unix.AF_INET {
		return nil
	}
	return netask.Attributes(data, func(kind uint16, value []byte) error {
		if kind != want {
			return nil
		}
		for _, s := range hostSysctls(specs.EgressInternet) {
			if strings.HasPrefix(s.name, family) && len(value) >= 4*(s.index+1) {
				to[s.name] = strconv.Itoa(int(int32(binary.NativeEndian.Uint32(value[4*s.index:]))))
			}
		}
		return nil
	})
}

// addr is an IPv4 address of a link.
type addr struct {
	prefix netip.Prefix
	link   int
}

// listAddrs dumps the IPv4 addresses of all links, and reads those of the links
// that are wanted.
func listAddrs(ctx context.Context, s *netask.Socket, wanted map[int]bool) (map[int][]netip.Prefix, error) {
	body := make([]byte, unix.SizeofIfAddrmsg)
	body[0] = unix.AF_INET
	all, err := list(ctx, s, unix.RTM_GETADDR, body, func(m []byte) (addr, error) {
		if len(m) >= unix.SizeofIfAddrmsg && !wanted[int(nl.DeserializeIfAddrmsg(m).Index)] {
			return addr{}, nil // others may have what is none of ours
		}
		p, link, err := parseAddrMsg(m)
		return addr{p, link}, err
	})
	out := make(map[int][]netip.Prefix, len(wanted))
	for _, a := range all {
		if a.link != 0 {
			out[a.link] = append(out[a.link], a.prefix)
		}
	}
	return out, err
}

// addrsOf are the IPv4 addresses of one link. The kernel is told to filter by
// the link (NETLINK_GET_STRICT_CHK, Linux 4.20), so it costs the same however
// many links there are.
func addrsOf(ctx context.Context, index int) ([]netip.Prefix, error) {
	s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		return nil, fmt.Errorf("netlink strict checking: %w", err)
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}
	msg := nl.NewIfAddrmsg(netlink.FAMILY_V4)
	msg.Index = uint32(index)
	req.AddData(msg)
	msgs, err := dump(ctx, func() ([][]byte, error) {
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	})
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, m := range msgs {
		p, of, err := parseAddrMsg(m)
		if err != nil {
			return nil, err
		}
		if of == index {
			out = append(out, p)
		}
	}
	return out, nil
}

// parseAddrMsg reads an RTM_NEWADDR message of an IPv4 address, see
// rtnetlink(7), and tells of which link it is.
func parseAddrMsg(m []byte) (p netip.Prefix, link int, err error) {
	if len(m) < unix.SizeofIfAddrmsg {
		return p, 0, errors.New("an address's message is cut off")
	}
	msg := nl.DeserializeIfAddrmsg(m)
	err = netask.Attributes(m[msg.Len():], func(kind uint16, value []byte) error {
		if kind != unix.IFA_LOCAL {
			return nil
		}
		addr, _ := netip.AddrFromSlice(value)
		if p = netip.PrefixFrom(addr, int(msg.Prefixlen)); !p.IsValid() {
			return fmt.Errorf("%d bytes, with a prefix of %d", len(value), msg.Prefixlen)
		}
		return nil
	})
	if err == nil && !p.IsValid() {
		err = errors.New("none in the message")
	}
	if err != nil {
		err = fmt.Errorf("an address of link %d: %w", msg.Index, err)
	}
	return p, int(msg.Index), err
}

// takeKind takes a link's kind out of its IFLA_LINKINFO, see rtnetlink(7).
func takeKind(info []byte, kind *string) error {
	return netask.Attributes(info, func(a uint16, value []byte) error {
		if a == nl.IFLA_INFO_KIND {
			*kind = nl.BytesToString(value)
		}
		return nil
	})
}
