package slot

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// inner is the name of the session's end of the pair.
const inner = "eth0"

// state tells what is found where a namespace should be pinned.
type state int

const (
	absent state = iota // nothing
	dead                // a file, but no namespace
	live
)

// inside is what a namespace shows of itself, by the file's name below
// /proc/net: "dev", "route", "fib_trie", "if_inet6", "arp", "snmp", "ip_tables_names".
type inside struct {
	state state
	files map[string]string
	links []link // asked for only if there are any of the names of [fallbacks]
}

// fallbacks are the links that the kernel puts into every new namespace, by
// name, with their types: the tunnels whose modules are loaded. They are down.
func fallbacks() map[string]string {
	return map[string]string{
		"tunl0": "ipip", "gre0": "gre", "gretap0": "gretap", "erspan0": "erspan", "ip_vti0": "vti",
		"ip6_vti0": "vti6", "sit0": "sit", "ip6tnl0": "ip6tnl", "ip6gre0": "ip6gre",
	}
}

// fallback tells whether a link is one that the kernel put there.
func fallback(name, kind string, up bool) bool {
	want, known := fallbacks()[name]
	return name == "lo" || known && kind == want && !up
}

// addInside takes over what the namespace shows.
func (s *Slot) addInside(in inside) error {
	if in.state != live {
		s.drift("no namespace is pinned")
		return nil
	}
	if !s.addLinks(in) {
		return nil
	}
	routes, err := parseRoutes(in.files["route"])
	if err != nil {
		return err
	}
	s.addAddresses(in.files["fib_trie"], routes)
	s.addRoutes(routes)
	s.checkTables(in.files["fib_trie"], routes)
	s.checkRest(in)
	// Where IPv6 is on, a link that is up has an address. The setting itself is
	// not read: the kernel keeps /proc/sys of all namespaces in one list, which
	// each look-up walks.
	if v := strings.TrimSpace(in.files["if_inet6"]); v != "" {
		s.drift("IPv6 addresses inside")
	}
	return nil
}

// namesOf reads /proc/net/dev, see proc(5).
func namesOf(dev string) (names []string) {
	for _, line := range strings.Split(dev, "\n") {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			names = append(names, name)
		}
	}
	return names
}

// addLinks takes over what links there are, and tells whether eth0 is there.
func (s *Slot) addLinks(in inside) bool {
	found := false
	for _, name := range namesOf(in.files["dev"]) {
		switch {
		case name == "lo" || slices.ContainsFunc(in.links, func(l link) bool { return l.name == name && fallback(name, l.kind, l.up) }):
		case name == inner:
			found = true
		default:
			s.drift("link %s inside", name)
		}
	}
	if !found {
		s.drift("there is no %s inside", inner)
	}
	return found
}

// route is a line of /proc/net/route.
type route struct {
	dev string
	dst netip.Prefix
	via netip.Addr // zero address: on the link
}

func (r route) String() string {
	if r.via.IsUnspecified() {
		return fmt.Sprintf("%s dev %s", r.dst, r.dev)
	}
	return fmt.Sprintf("%s via %s dev %s", r.dst, r.via, r.dev)
}

// parseRoutes reads /proc/net/route, whose addresses are hexadecimal in the
// machine's byte order.
func parseRoutes(text string) ([]route, error) {
	var out []route
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if i == 0 || strings.TrimSpace(line) == "" {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("route %q: %w", line, errText)
		}
		dst, err1 := hexAddr(f[1])
		via, err2 := hexAddr(f[2])
		mask, err3 := hexAddr(f[7])
		if err1 != nil || err2 != nil || err3 != nil {
			return nil, fmt.Errorf("route %q: %w", line, errText)
		}
		m := mask.As4()
		out = append(out, route{f[0], netip.PrefixFrom(dst, bits.OnesCount32(binary.BigEndian.Uint32(m[:]))), via})
	}
	return out, nil
}

func hexAddr(s string) (netip.Addr, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 {
		return netip.Addr{}, errText
	}
	var a [4]byte
	binary.NativeEndian.PutUint32(a[:], binary.BigEndian.Uint32(b))
	return netip.AddrFrom4(a), nil
}

// addAddresses reads /proc/net/fib_trie: the addresses of a namespace are the
// host routes of its local table.
func (s *Slot) addAddresses(trie string, routes []route) {
	var addrs []netip.Addr
	var leaf netip.Addr
	for _, line := range strings.Split(trie, "\n") {
		text := strings.TrimSpace(line)
		if id, ok := strings.CutPrefix(line, "Id "); ok {
			s.drift("routing table %s inside", strings.TrimSuffix(id, ":"))
		}
		if a, ok := strings.CutPrefix(text, "|-- "); ok {
			leaf, _ = netip.ParseAddr(a)
			continue
		}
		if strings.HasPrefix(text, "/32 host LOCAL") && !leaf.IsLoopback() && !slices.Contains(addrs, leaf) {
			addrs = append(addrs, leaf)
		}
	}
	if len(addrs) == 0 {
		return
	}
	own := 0
	if i := slices.Index(addrs, s.Host.Addr().Next()); i >= 0 {
		own = i
	}
	for i, a := range addrs {
		if i == own {
			s.Session = netip.PrefixFrom(a, prefixBits(a, routes))
			continue
		}
		s.drift("%s has %s", inner, a)
	}
}

// prefixBits is the length of the prefix that a is on the link with.
func prefixBits(a netip.Addr, routes []route) int {
	for _, r := range routes {
		if r.dev == inner && r.via.IsUnspecified() && r.dst.Bits() > 0 && r.dst.Contains(a) {
			return r.dst.Bits()
		}
	}
	return a.BitLen()
}

func (s *Slot) addRoutes(routes []route) {
	for _, r := range routes {
		switch {
		case r.dev == inner && r.via.IsUnspecified() && r.dst == s.Session.Masked():
		case r.dev == inner && r.via == s.Host.Addr() && r.dst.Bits() == 0 && s.Egress == specs.EgressNone:
			s.Egress = specs.EgressInternet
		default:
			s.drift("route %s inside", r)
		}
	}
}
