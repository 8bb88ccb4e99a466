package slot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// fake is a host in memory.
type fake struct {
	ends   map[string]*link
	spaces map[string]*space // by pin
}

// space is a namespace; nil stands for a pin that holds none.
type space struct {
	links  []string // eth0 is the first, with the index 2
	addrs  []netip.Prefix
	routes []route
	rules  []rule // besides the first ones
	lo     bool   // is without its route
	ipv6   bool
}

func newFake() *fake { return &fake{map[string]*link{}, map[string]*space{}} }

func (f *fake) links(context.Context) ([]link, error) {
	var out []link
	for _, l := range f.ends {
		if _, marked := l.key(); marked || named(l.name) {
			out = append(out, *l)
		}
	}
	return out, nil
}

func (f *fake) link(_ context.Context, name string) (*link, error) { return f.ends[name], nil }

func (f *fake) pins(context.Context) ([]key, error) {
	var out []key
	for name := range f.spaces {
		if network, number, ok := specs.ParseSlot(name); ok {
			out = append(out, key{network, number})
		}
	}
	return out, nil
}

func (f *fake) insides(_ context.Context, keys []key) ([]inside, error) {
	out := make([]inside, len(keys))
	for i, k := range keys {
		if s, ok := f.spaces[specs.SlotName(k.network, k.number)]; ok {
			out[i] = s.dump()
		}
	}
	return out, nil
}

func (s *space) dump() inside {
	if s == nil {
		return inside{state: dead}
	}
	in := inside{state: live, links: []innerLink{{index: 1, name: "lo", up: true}}, rules: append(firstRules(), s.rules...)}
	for i, name := range s.links {
		l := innerLink{index: i + 2, name: name, kind: "veth", up: true, ipv6: s.ipv6}
		if name == "tunl0" {
			l.kind, l.up = "ipip", false
		}
		in.links = append(in.links, l)
	}
	local := func(kind uint8, index int, to netip.Prefix) {
		in.routes = append(in.routes, route{table: unix.RT_TABLE_LOCAL, kind: kind, dst: to, index: index})
	}
	if !s.lo {
		local(unix.RTN_LOCAL, 1, loopback())
	}
	local(unix.RTN_LOCAL, 1, netip.MustParsePrefix("127.0.0.1/32"))
	local(unix.RTN_BROADCAST, 1, netip.MustParsePrefix("127.255.255.255/32"))
	for _, a := range s.addrs {
		local(unix.RTN_LOCAL, 2, netip.PrefixFrom(a.Addr(), 32))
	}
	in.routes = append(in.routes, s.routes...)
	return in
}

// on is a route of the main table over eth0.
func on(dst netip.Prefix, via netip.Addr) route {
	return route{table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST, dst: dst, index: 2, via: via}
}

func (f *fake) build(_ context.Context, s Slot) error {
	f.drop(s)
	if f.ends[s.host()] != nil {
		return fmt.Errorf("the host has a link %s", s.host())
	}
	values := map[string]string{}
	for _, c := range hostSysctls(s.Egress) {
		values[c.name] = c.value
	}
	f.ends[s.host()] = &link{name: s.host(), alias: s.mark(), kind: "veth", up: true, addrs: []netip.Prefix{s.Host}, sysctls: values}
	in := &space{links: []string{inner}, addrs: []netip.Prefix{s.Session}, routes: []route{on(s.Session.Masked(), netip.Addr{})}}
	if s.Egress == specs.EgressInternet {
		in.routes = append(in.routes, on(netip.PrefixFrom(netip.IPv4Unspecified(), 0), s.Host.Addr()))
	}
	f.spaces[specs.SlotName(s.Network, s.Number)] = in
	return nil
}

func (f *fake) drop(s Slot) {
	for name, l := range f.ends {
		if l.alias == s.mark() || name == s.link && f.spaces[specs.SlotName(s.Network, s.Number)] != nil {
			delete(f.ends, name)
		}
	}
}

func (f *fake) remove(_ context.Context, s Slot) error {
	f.drop(s)
	delete(f.spaces, specs.SlotName(s.Network, s.Number))
	return nil
}

func TestKeyOf(t *testing.T) {
	for text, want := range map[reconciler.Addr]bool{
		"slot.llm.0": true, "slot.llm-only.12": true, "slot.llm": false, "slot.llm.": false, "slot..3": false, "slot": false, "": false,
		"slot.llm.03": false, "slot.llm.-1": false, "slot.llm.3.4": false, "slot.llm.3x": false, "network.llm.3": false, `slot."a.b".3`: false,
	} {
		if k, ok := keyOf(text); ok != want || ok && Addr(k.network, k.number) != text {
			t.Errorf("%q is %v, %v, want %v", text, k, ok, want)
		}
	}
}

func TestInside(t *testing.T) {
	host := netip.MustParsePrefix("10.0.0.1/30")
	session := netip.MustParsePrefix("10.0.0.2/30")
	link, all := on(session.Masked(), netip.Addr{}), netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	own := []string{inner}
	addrs := []netip.Prefix{session}
	changed := func(r route, change func(*route)) route { change(&r); return r }
	for name, c := range map[string]struct {
		in   *space
		want Slot
	}{
		"as made": {&space{links: own, addrs: addrs, routes: []route{link}}, Slot{Session: session, Egress: "none"}},
		"with a tunnel of the kernel's": {
			&space{links: []string{inner, "tunl0"}, addrs: addrs, routes: []route{link}}, Slot{Session: session, Egress: "none"},
		},
		"a default route through the host end": {
			&space{links: own, addrs: addrs, routes: []route{link, on(all, host.Addr())}}, Slot{Session: session, Egress: "internet"},
		},
		"a default route elsewhere": {
			&space{links: own, addrs: addrs, routes: []route{link, on(all, netip.MustParseAddr("10.0.0.3"))}},
			Slot{Session: session, Egress: "none", Drift: []string{"route 0.0.0.0/0 via 10.0.0.3 dev eth0 inside"}},
		},
		"a default route by several hops": {
			&space{links: own, addrs: addrs, routes: []route{link, {table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST, dst: all, odd: true}}},
			Slot{Session: session, Egress: "none", Drift: []string{"route 0.0.0.0/0 with attributes of its own inside"}},
		},
		"a way through another protocol": {
			&space{links: own, addrs: addrs, routes: []route{link, changed(link, func(r *route) { r.odd = true })}},
			Slot{Session: session, Egress: "none", Drift: []string{"route 10.0.0.0/30 dev eth0 with attributes of its own inside"}},
		},
		"from another address": {
			&space{links: own, addrs: addrs, routes: []route{changed(link, func(r *route) { r.src = localhost() })}},
			Slot{Session: session, Egress: "none", Drift: []string{"route 10.0.0.0/30 dev eth0 src 127.0.0.1 inside"}},
		},
		"a black hole": {
			&space{links: own, addrs: addrs, routes: []route{link, {table: unix.RT_TABLE_MAIN, kind: unix.RTN_BLACKHOLE, dst: all}}},
			Slot{Session: session, Egress: "none", Drift: []string{"route blackhole 0.0.0.0/0 inside"}},
		},
		"another table": {
			&space{links: own, addrs: addrs, routes: []route{link, changed(link, func(r *route) { r.table = 700 })}},
			Slot{Session: session, Egress: "none", Drift: []string{"route 10.0.0.0/30 dev eth0 in table 700 inside"}},
		},
		"a rule": {
			&space{links: own, addrs: addrs, routes: []route{link}, rules: []rule{{32768, unix.RT_TABLE_MAIN, false}}},
			Slot{Session: session, Egress: "none", Drift: []string{"rules of routing were changed inside"}},
		},
		"lo": {
			&space{links: own, addrs: addrs, routes: []route{link}, lo: true}, Slot{Session: session, Egress: "none", Drift: []string{"lo was changed inside"}},
		},
		"another address": {
			&space{links: own, addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/32"), session}, routes: []route{link}},
			Slot{Session: session, Egress: "none", Drift: []string{"eth0 has 10.0.0.9"}},
		},
		"a link more": {
			&space{links: []string{inner, "tunl0", "wg0"}, addrs: addrs, routes: []route{link}},
			Slot{Session: session, Egress: "none", Drift: []string{"link wg0 inside"}},
		},
		"IPv6": {
			&space{links: own, addrs: addrs, routes: []route{link}, ipv6: true},
			Slot{Session: session, Egress: "none", Drift: []string{"IPv6 is on inside, on eth0"}},
		},
		"no link":      {&space{}, Slot{Egress: "none", Drift: []string{"there is no eth0 inside"}}},
		"no namespace": {nil, Slot{Egress: "none", Drift: []string{"no namespace is pinned"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Slot{Host: host, Egress: "none"}
			got.addInside(c.in.dump())
			if got.Session != c.want.Session || got.Egress != c.want.Egress || !slices.Equal(got.Drift, c.want.Drift) {
				t.Errorf("got %v %s %q, want %v %s %q", got.Session, got.Egress, got.Drift, c.want.Session, c.want.Egress, c.want.Drift)
			}
		})
	}
}

// A message that can't be read whole is an error: without it a slot would look
// as if it were whole.
func TestParseInside(t *testing.T) {
	attr := func(kind int, value ...byte) []byte { return nl.NewRtAttr(kind, value).Serialize() }
	word := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	routeOf := func(bits byte, attrs ...[]byte) []byte {
		head := []byte{unix.AF_INET, bits, 0, 0, unix.RT_TABLE_COMPAT, 0, 0, unix.RTN_UNICAST, 0, 0, 0, 0}
		return append(head, slices.Concat(attrs...)...)
	}
	ten := netip.MustParsePrefix("10.0.0.0/8")
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	for name, c := range map[string]struct {
		message []byte
		want    route
		fails   bool
	}{
		"on a link": {
			routeOf(8, attr(unix.RTA_TABLE, word(700)...), attr(unix.RTA_DST, 10, 0, 0, 0), attr(unix.RTA_OIF, word(2)...)),
			route{table: 700, kind: unix.RTN_UNICAST, dst: ten, index: 2},
			false,
		},
		"default": {
			routeOf(0, attr(unix.RTA_GATEWAY, 10, 0, 0, 1)),
			route{table: unix.RT_TABLE_COMPAT, kind: unix.RTN_UNICAST, dst: all, via: netip.MustParseAddr("10.0.0.1")},
			false,
		},
		"a next hop of IPv6":   {routeOf(0, attr(unix.RTA_VIA, 10, 0)), route{table: unix.RT_TABLE_COMPAT, kind: unix.RTN_UNICAST, dst: all, odd: true}, false},
		"a next hop by number": {routeOf(0, attr(0x1e, word(1)...)), route{table: unix.RT_TABLE_COMPAT, kind: unix.RTN_UNICAST, dst: all, odd: true}, false},
		"a metric":             {routeOf(0, attr(unix.RTA_PRIORITY, word(7)...)), route{table: unix.RT_TABLE_COMPAT, kind: unix.RTN_UNICAST, dst: all, odd: true}, false},
		"an address to send from": {
			routeOf(0, attr(unix.RTA_PREFSRC, 10, 0, 0, 2)),
			route{table: unix.RT_TABLE_COMPAT, kind: unix.RTN_UNICAST, dst: all, src: netip.MustParseAddr("10.0.0.2")},
			false,
		},
		"several next hops":     {routeOf(0, attr(unix.RTA_MULTIPATH)), route{table: unix.RT_TABLE_COMPAT, kind: unix.RTN_UNICAST, dst: all, odd: true}, false},
		"a prefix too long":     {routeOf(33), route{}, true},
		"an address too short":  {routeOf(8, attr(unix.RTA_DST, 10)), route{}, true},
		"a table of two bytes":  {routeOf(8, attr(unix.RTA_TABLE, 1, 0)), route{}, true},
		"an attribute cut off":  {routeOf(0, attr(unix.RTA_GATEWAY, 10, 0, 0, 1)[:6]), route{}, true},
		"cut off at its header": {routeOf(0)[:11], route{}, true},
	} {
		got, err := parseRoute(c.message)
		if (err != nil) != c.fails || !c.fails && got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	ruleOf := func(action byte, flags uint32, attrs ...[]byte) []byte {
		return append(append([]byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, 0, 0, action}, word(flags)...), slices.Concat(attrs...)...)
	}
	last := attr(unix.FRA_PRIORITY, word(32766)...)
	for name, c := range map[string]struct {
		message []byte
		first   bool
	}{
		"as made":      {ruleOf(1, 0, last, attr(unix.FRA_TABLE, word(254)...), attr(unix.FRA_SUPPRESS_PREFIXLEN, word(^uint32(0))...), attr(unix.FRA_PROTOCOL, 2)), true},
		"inverted":     {ruleOf(1, 2, last), false},
		"refuses":      {ruleOf(7, 0, last), false},
		"of a mark":    {ruleOf(1, 0, last, attr(unix.FRA_FWMARK, word(1)...)), false},
		"of a link":    {ruleOf(1, 0, last, attr(unix.FRA_IIFNAME, 'x', 0)), false},
		"of a user":    {ruleOf(1, 0, last, attr(unix.FRA_UID_RANGE, 0, 0, 0, 0, 0, 0, 0, 0)), false},
		"but no route": {ruleOf(1, 0, last, attr(unix.FRA_SUPPRESS_PREFIXLEN, word(0)...)), false},
	} {
		got, err := parseRule(c.message)
		if err != nil || (got == firstRules()[1]) != c.first {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := parseRule(make([]byte, 11)); err == nil {
		t.Error("a rule of eleven bytes")
	}
	if _, err := parseInnerLink(make([]byte, 15)); err == nil {
		t.Error("a link of fifteen bytes")
	}
	neighbourOf := func(attrs ...[]byte) []byte {
		return append([]byte{unix.AF_INET, 0, 0, 0, 2, 0, 0, 0, unix.NUD_PERMANENT, 0, 0, 0}, slices.Concat(attrs...)...)
	}
	if n, err := parseNeighbour(neighbourOf(attr(unix.NDA_DST, 10, 0, 0, 1))); err != nil || n.addr != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("a neighbour: %+v, %v", n, err)
	}
	for _, m := range [][]byte{neighbourOf()[:11], neighbourOf(attr(unix.NDA_DST, 10)), neighbourOf(attr(unix.NDA_DST, 10, 0, 0, 1)[:6])} {
		if _, err := parseNeighbour(m); err == nil {
			t.Errorf("a neighbour of %d bytes", len(m))
		}
	}
}

// blind is a host of which one part can't be read.
type blind struct {
	*fake
	what string
}

var errBlind = errors.New("can't see")

func (b blind) links(ctx context.Context) ([]link, error) {
	if b.what == "links" {
		return nil, errBlind
	}
	return b.fake.links(ctx)
}

func (b blind) pins(ctx context.Context) ([]key, error) {
	if b.what == "pins" {
		return nil, errBlind
	}
	return b.fake.pins(ctx)
}

func (b blind) insides(ctx context.Context, keys []key) ([]inside, error) {
	if b.what == "insides" {
		return nil, errBlind
	}
	return b.fake.insides(ctx, keys)
}

// A Read that could not see everything is an error, never a shorter list.
func TestReadIsWhole(t *testing.T) {
	for _, what := range []string{"links", "pins", "insides"} {
		e := &Enforcer{kernel: blind{newFake(), what}}
		if got, err := e.Read(context.Background()); !errors.Is(err, errBlind) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
}

func TestDumpAgain(t *testing.T) {
	left := 3
	got, err := dump(context.Background(), func() ([]int, error) {
		if left--; left > 0 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if err != nil || len(got) != 2 {
		t.Errorf("interrupted twice: %v, %v", got, err)
	}
	got, err = dump(context.Background(), func() ([]int, error) { return []int{1}, netlink.ErrDumpInterrupted })
	if err == nil || got != nil {
		t.Errorf("always interrupted: %v, %v", got, err)
	}
}
