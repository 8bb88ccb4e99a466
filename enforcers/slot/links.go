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
	if err != nil || len(msgs) != 1 {
		return nil, fmt.Errorf("link %s: %d answers: %w", name, len(msgs), err)
	}
	l, err := parseLink(msgs[0])
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	return &l, nil
}

// listLinks dumps all links of the host.
func listLinks() ([]link, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, err
	}
	out := make([]link, 0, len(msgs))
	for _, m := range msgs {
		l, err := parseLink(m)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// parseLink reads an RTM_NEWLINK message, see rtnetlink(7). It says all that
// would else be read from /proc/sys, file by file.
func parseLink(m []byte) (link, error) {
	msg := nl.DeserializeIfInfomsg(m)
	attrs, err := nl.ParseRouteAttr(m[msg.Len():])
	if err != nil {
		return link{}, err
	}
	l := link{index: int(msg.Index), up: msg.Flags&unix.IFF_UP != 0, sysctls: map[string]string{}}
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFLA_IFNAME:
			l.name = nl.BytesToString(a.Value)
		case unix.IFLA_IFALIAS:
			l.alias = nl.BytesToString(a.Value)
		case unix.IFLA_LINKINFO:
			err = each(a.Value, func(kind uint16, value []byte) error {
				if kind == nl.IFLA_INFO_KIND {
					l.kind = nl.BytesToString(value)
				}
				return nil
			})
		case unix.IFLA_AF_SPEC:
			err = each(a.Value, func(family uint16, value []byte) error { return addSysctls(l.sysctls, family, value) })
		}
		if err != nil {
			return link{}, err
		}
	}
	return l, nil
}

// Attributes of IFLA_AF_SPEC that hold an array of settings, linux/if_link.h.
const (
	inetConf  = 1 // IFLA_INET_CONF
	inet6Conf = 2 // IFLA_INET6_CONF
)

// each calls f for the attributes in data.
func each(data []byte, f func(kind uint16, value []byte) error) error {
	attrs, err := nl.ParseRouteAttr(data)
	if err != nil {
		return err
	}
	for _, a := range attrs {
		if err := f(a.Attr.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), a.Value); err != nil {
			return err
		}
	}
	return nil
}

func addSysctls(to map[string]string, af uint16, data []byte) error {
	family, want := "ipv4/", uint16(inetConf)
	if af == unix.AF_INET6 {
		family, want = "ipv6/", inet6Conf
	} else if af != unix.AF_INET {
		return nil
	}
	return each(data, func(kind uint16, value []byte) error {
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

func prefix(a netlink.Addr) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(a.IP.To4())
	bits, _ := a.Mask.Size()
	return netip.PrefixFrom(addr, bits), ok
}

// addrsOf are the IPv4 addresses of one link. The kernel is told to filter by
// the link (NETLINK_GET_STRICT_CHK, Linux 4.20), so it costs the same however
// many links there are.
func addrsOf(index int) ([]netip.Prefix, error) {
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
	msgs, err := dump(context.Background(), func() ([][]byte, error) {
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	})
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, m := range msgs {
		if p, ok := parseAddrMsg(m, index); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// parseAddrMsg reads an RTM_NEWADDR message, see rtnetlink(7).
func parseAddrMsg(m []byte, index int) (netip.Prefix, bool) {
	msg := nl.DeserializeIfAddrmsg(m)
	attrs, err := nl.ParseRouteAttr(m[msg.Len():])
	if err != nil || int(msg.Index) != index {
		return netip.Prefix{}, false
	}
	for _, a := range attrs {
		if a.Attr.Type != unix.IFA_LOCAL {
			continue
		}
		if addr, ok := netip.AddrFromSlice(a.Value); ok {
			return netip.PrefixFrom(addr, int(msg.Prefixlen)), true
		}
	}
	return netip.Prefix{}, false
}
