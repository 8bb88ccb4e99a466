package slot

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/specs"
)

// inner is the name of the session's end of the pair, loop that of the link that
// every namespace has.
const (
	inner = "eth0"
	loop  = "lo"
)

// state tells what is found where a namespace should be pinned.
type state int

const (
	absent state = iota // nothing
	dead                // a file, but no namespace
	live
	hosts // the host's own namespace
)

// inside is what a namespace shows of itself.
type inside struct {
	state      state
	links      []innerLink
	routes     []route     // of IPv4, in all tables
	rules      []rule      // of routing
	neighbours []neighbour // of IPv4, those that are answered for included
	tables     string      // /proc/net/ip_tables_names
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
	if name == loop {
		return true
	}
	want, known := fallbacks()[name]
	return known && kind == want && !up
}

// addInside takes over what the namespace shows.
func (s *Slot) addInside(in inside) {
	switch in.state {
	case live:
	case hosts:
		s.drift("the pin shows the host's network namespace")
		s.foreign = true
		return
	default:
		s.drift("no namespace is pinned")
		return
	}
	if !s.addLinks(in.links) {
		return
	}
	s.addAddresses(in)
	s.addRoutes(in)
	s.checkRest(in)
}

// checkPair looks whether eth0 inside is the other end of l: where it is not, the
// namespace that is pinned is another's, as both ends of a pair go together.
func (s *Slot) checkPair(l *link, in inside) {
	if l == nil || in.state != live {
		return
	}
	if !slices.ContainsFunc(in.links, func(i innerLink) bool { return i.name == inner && i.peer == l.index }) {
		s.drift("the pin shows another namespace: the other end of %s is not in it", l.name)
		s.foreign = true
	}
}

// addLinks takes over what links there are, and tells whether eth0 is there.
func (s *Slot) addLinks(links []innerLink) bool {
	found := false
	for _, l := range links {
		switch {
		case l.name == inner:
			found = true
		case !fallback(l.name, l.kind, l.up):
			s.drift("link %s inside", l.name)
		}
		if l.name == loop && !l.up {
			s.drift("%s is down inside", l.name)
		}
		if l.forwards && l.up { // the kernel's tunnels may inherit it
			s.drift("forwarding is on inside, on %s", l.name)
		}
		if l.ipv6 {
			s.drift("IPv6 is on inside, on %s", l.name)
		}
	}
	if !found {
		s.drift("there is no %s inside", inner)
	}
	return found
}

// addAddresses takes over the addresses of a namespace: they are the host routes
// of its local table that are of eth0.
func (s *Slot) addAddresses(in inside) {
	var addrs []netip.Addr
	for _, r := range in.routes {
		if a := r.dst.Addr(); r.local() && r.dst.IsSingleIP() && in.linkName(r.index) == inner && !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return
	}
	own := max(0, slices.Index(addrs, s.Host.Addr().Next()))
	for i, a := range addrs {
		if i == own {
			s.Session = netip.PrefixFrom(a, prefixBits(a, in))
			continue
		}
		s.drift("%s has %s", inner, a)
	}
}

// prefixBits is the length of the prefix that a is on the link with.
func prefixBits(a netip.Addr, in inside) int {
	for _, r := range in.routes {
		if r.onLink(in) && r.dst.Bits() > 0 && r.dst.Contains(a) {
			return r.dst.Bits()
		}
	}
	return a.BitLen()
}

// addRoutes takes over the routes. Of other tables than the main one there are
// those that come with addresses, and no other.
func (s *Slot) addRoutes(in inside) {
	loops := false
	for _, r := range in.routes {
		switch {
		case r.table == unix.RT_TABLE_MAIN && r.onLink(in) && r.dst == s.Session.Masked() && r.from(s.Session.Addr()):
		case r.table == unix.RT_TABLE_MAIN && r.through(in, s.Host.Addr()) && r.dst.Bits() == 0 && r.from(s.Session.Addr()) && s.Egress == specs.EgressNone:
			s.Egress = specs.EgressInternet
		case r.table == unix.RT_TABLE_MAIN:
			s.drift("route %s inside", r.show(in))
		case r.ofAddress(in, s.Session):
			loops = loops || r.dst == loopback()
		default:
			s.renew("route %s in table %d inside", r.show(in), r.table)
		}
	}
	if !loops {
		s.renew("lo was changed inside")
	}
}

// ofAddress tells whether the kernel put r into the local table, for an address of
// eth0 or of lo.
func (r route) ofAddress(in inside, session netip.Prefix) bool {
	if r.table != unix.RT_TABLE_LOCAL || r.odd || r.via.IsValid() {
		return false
	}
	one := r.dst.IsSingleIP()
	switch link := in.linkName(r.index); {
	case link == inner && r.kind == unix.RTN_LOCAL:
		return one && (r.from(session.Addr()) || r.dst.Addr() != session.Addr())
	case link == inner && r.kind == unix.RTN_BROADCAST:
		return one && session.Masked().Contains(r.dst.Addr()) && r.from(session.Addr())
	case link == loop && r.kind == unix.RTN_LOCAL:
		return (r.dst == loopback() || one && r.dst.Addr() == localhost()) && r.from(localhost())
	case link == loop && r.kind == unix.RTN_BROADCAST:
		return one && loopback().Contains(r.dst.Addr()) && r.from(localhost())
	}
	return false
}

func localhost() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

func loopback() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8) }
