package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listSets dumps the sets, or the one called name. The netlink library can do
// that too, but takes several times as long for a set of a thousand.
func listSets(name string) ([]set, error) {
	req := nl.NewNetlinkRequest(nl.IPSET_CMD_LIST|unix.NFNL_SUBSYS_IPSET<<8, nl.GetIpsetFlags(nl.IPSET_CMD_LIST))
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_NETLINK, Version: nl.NFNETLINK_V0})
	req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, nl.Uint8Attr(nl.IPSET_PROTOCOL)))
	if name != "" {
		req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_SETNAME, nl.ZeroTerminated(name)))
	}
	msgs, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil, err
	}
	var out []set
	for _, m := range msgs {
		s, err := parseSet(m)
		if err != nil {
			return nil, err
		}
		// A large set comes in several messages, the first of which has the type.
		if k := len(out) - 1; k >= 0 && out[k].name == s.name {
			out[k].elements = append(out[k].elements, s.elements...)
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

// dumpSets is listSets, again for as long as the dump was interrupted.
func dumpSets(name string) ([]set, error) {
	var out []set
	var err error
	for range attempts {
		if out, err = listSets(name); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err == nil {
		return out, nil
	}
	if errors.Is(err, unix.ENOENT) && name != "" {
		return nil, nil
	}
	if errors.Is(err, unix.EINVAL) {
		if _, _, err := netlink.IpsetProtocol(); errors.Is(err, unix.EINVAL) {
			return nil, nil // there is no ipset in this kernel, so there are no sets
		}
	}
	return nil, fmt.Errorf("list the sets: %w", err)
}

// attempts is how often an interrupted dump is asked for again.
const attempts = 20

// Sizes and masks of netlink, linux/netfilter/nfnetlink.h and linux/netlink.h.
const (
	nfgenmsg = 4
	typeMask = 0x3fff // NLA_TYPE_MASK
)

// parseSet reads an answer to IPSET_CMD_LIST, see
// linux/netfilter/ipset/ip_set.h.
func parseSet(m []byte) (set, error) {
	if len(m) < nfgenmsg {
		return set{}, errors.New("ipset: an answer is cut off")
	}
	attrs, err := nl.ParseRouteAttr(m[nfgenmsg:])
	if err != nil {
		return set{}, err
	}
	var s set
	for _, a := range attrs {
		switch a.Attr.Type & typeMask {
		case nl.IPSET_ATTR_SETNAME:
			s.name = nl.BytesToString(a.Value)
		case nl.IPSET_ATTR_TYPENAME:
			s.kind = nl.BytesToString(a.Value)
		case nl.IPSET_ATTR_FAMILY:
			s.family = familyName(a.Value[0])
		case nl.IPSET_ATTR_DATA:
			s.options, err = parseOptions(a.Value)
		case nl.IPSET_ATTR_ADT:
			s.elements, err = parseElements(a.Value)
		}
		if err != nil {
			return set{}, fmt.Errorf("ipset %s: %w", s.name, err)
		}
	}
	return s, nil
}

func familyName(family byte) string {
	switch family {
	case unix.AF_INET:
		return "inet"
	case unix.AF_INET6:
		return "inet6"
	}
	return ""
}

// setSize is how many elements a set has room for unless told otherwise.
const setSize = 65536

// setFlags are the options of sets that are bits, linux/netfilter/ipset/ip_set.h.
func setFlags() map[uint32]string {
	return map[uint32]string{
		nl.IPSET_FLAG_WITH_COUNTERS: "counters", nl.IPSET_FLAG_WITH_COMMENT: "comment",
		nl.IPSET_FLAG_WITH_FORCEADD: "forceadd", nl.IPSET_FLAG_WITH_SKBINFO: "skbinfo",
	}
}

// setError has words for the numbers of errors that are ipset's own.
func setError(err error) error {
	var own nl.IPSetError
	if !errors.As(err, &own) {
		return err
	}
	switch own {
	case nl.IPSET_ERR_TYPE_SPECIFIC: // IPSET_ERR_HASH_FULL
		return fmt.Errorf("the set is full (%w)", err)
	case nl.IPSET_ERR_TYPE_SPECIFIC + 1: // IPSET_ERR_HASH_ELEM
		return fmt.Errorf("no such element can be in the set (%w)", err)
	}
	return fmt.Errorf("ipset refuses: %w", err)
}

// parseOptions are the options of a set that ours don't have. How large the
// hash is, is the kernel's matter.
func parseOptions(data []byte) ([]string, error) {
	attrs, err := nl.ParseRouteAttr(data)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range attrs {
		if len(a.Value) != 4 {
			continue
		}
		value := binary.BigEndian.Uint32(a.Value)
		switch a.Attr.Type & typeMask {
		case nl.IPSET_ATTR_TIMEOUT:
			out = append(out, fmt.Sprintf("timeout %d", value))
		case nl.IPSET_ATTR_MAXELEM:
			if value != setSize {
				out = append(out, fmt.Sprintf("maxelem %d", value))
			}
		case nl.IPSET_ATTR_CADT_FLAGS:
			for bit, name := range setFlags() {
				if value&bit != 0 {
					out = append(out, name)
				}
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func parseElements(adt []byte) ([]Element, error) {
	list, err := nl.ParseRouteAttr(adt)
	if err != nil {
		return nil, err
	}
	out := make([]Element, 0, len(list))
	for _, one := range list {
		attrs, err := nl.ParseRouteAttr(one.Value)
		if err != nil {
			return nil, err
		}
		e, err := parseElement(attrs)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func parseElement(attrs []syscall.NetlinkRouteAttr) (Element, error) {
	var e Element
	var addr netip.Addr
	bits := -1
	for _, a := range attrs {
		switch a.Attr.Type & typeMask {
		case nl.IPSET_ATTR_IP:
			var err error
			if addr, err = parseAddr(a.Value); err != nil {
				return e, err
			}
		case nl.IPSET_ATTR_CIDR:
			if len(a.Value) == 0 {
				return e, errors.New("an element's prefix has no length")
			}
			bits = int(a.Value[0])
		case nl.IPSET_ATTR_IFACE:
			e.Interface = nl.BytesToString(a.Value)
		case nl.IPSET_ATTR_CADT_FLAGS:
			if len(a.Value) != 4 {
				return e, fmt.Errorf("an element's flags have %d bytes", len(a.Value))
			}
			e.Flags = binary.BigEndian.Uint32(a.Value)
		}
	}
	if !addr.IsValid() {
		if e.Interface != "" {
			return e, fmt.Errorf("an element of %s without an address", e.Interface)
		}
		return e, nil // of another type of set
	}
	if bits < 0 {
		bits = addr.BitLen()
	}
	if e.Prefix = netip.PrefixFrom(addr, bits); !e.Prefix.IsValid() {
		return e, fmt.Errorf("an element %s/%d", addr, bits)
	}
	return e, nil
}

// parseAddr reads a nested address of either family.
func parseAddr(nested []byte) (netip.Addr, error) {
	inner, err := nl.ParseRouteAttr(nested)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("an element's address: %w", err)
	}
	if len(inner) != 1 {
		return netip.Addr{}, fmt.Errorf("an element with %d addresses", len(inner))
	}
	addr, ok := netip.AddrFromSlice(inner[0].Value)
	if !ok {
		return addr, fmt.Errorf("an element's address has %d bytes", len(inner[0].Value))
	}
	return addr, nil
}
