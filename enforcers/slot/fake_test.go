package slot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// fake is a host in memory, which shows namespaces as /proc does.
type fake struct {
	ends   map[string]*link
	spaces map[string]*space // by pin
}

// space is a namespace; nil stands for a pin that holds none.
type space struct {
	links  []string
	addrs  []netip.Prefix
	routes []route
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
	dev := "Inter-|   Receive\n face |bytes\n"
	for _, l := range append([]string{"lo"}, s.links...) {
		dev += fmt.Sprintf("%6s:       0       0\n", l)
	}
	routes := "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	for _, r := range s.routes {
		routes += fmt.Sprintf("%s\t%s\t%s\t0001\t0\t0\t0\t%s\t0\t0\t0\n", r.dev, hexOf(r.dst.Addr().As4()), hexOf(r.via.As4()), hexOf(maskOf(r.dst.Bits())))
	}
	trie := "Main:\n     |-- 127.0.0.1\n        /32 host LOCAL\nLocal:\n     |-- 127.0.0.1\n        /32 host LOCAL\n"
	for _, a := range s.addrs {
		trie += fmt.Sprintf("     |-- %s\n        /32 host LOCAL\n", a.Addr())
	}
	inet6 := ""
	if s.ipv6 {
		inet6 = "fe80000000000000 02 40 20 80 eth0\n"
	}
	return inside{state: live, links: []link{{name: "tunl0", kind: "ipip"}}, files: map[string]string{
		"dev": dev, "route": routes, "fib_trie": trie, "if_inet6": inet6,
	}}
}

func hexOf(b [4]byte) string { return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b[:])) }

func maskOf(bits int) (m [4]byte) {
	binary.BigEndian.PutUint32(m[:], ^uint32(0)<<(32-bits))
	if bits == 0 {
		m = [4]byte{}
	}
	return m
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
	none := netip.IPv4Unspecified()
	in := &space{links: []string{inner}, addrs: []netip.Prefix{s.Session}, routes: []route{{inner, s.Session.Masked(), none}}}
	if s.Egress == specs.EgressInternet {
		in.routes = append(in.routes, route{inner, netip.PrefixFrom(none, 0), s.Host.Addr()})
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
	none := netip.IPv4Unspecified()
	on := route{inner, session.Masked(), none}
	all := netip.PrefixFrom(none, 0)
	for name, c := range map[string]struct {
		in   *space
		want Slot
	}{
		"as made": {&space{links: []string{inner}, addrs: []netip.Prefix{session}, routes: []route{on}}, Slot{Session: session, Egress: "none"}},
		"a default route through the host end": {
			&space{links: []string{inner}, addrs: []netip.Prefix{session}, routes: []route{on, {inner, all, host.Addr()}}},
			Slot{Session: session, Egress: "internet"},
		},
		"a default route elsewhere": {
			&space{links: []string{inner}, addrs: []netip.Prefix{session}, routes: []route{on, {inner, all, netip.MustParseAddr("10.0.0.3")}}},
			Slot{Session: session, Egress: "none", Drift: []string{"route 0.0.0.0/0 via 10.0.0.3 dev eth0 inside"}},
		},
		"another address": {
			&space{links: []string{inner}, addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.9/32"), session}, routes: []route{on}},
			Slot{Session: session, Egress: "none", Drift: []string{"eth0 has 10.0.0.9"}},
		},
		"a link more": {
			&space{links: []string{inner, "tunl0", "wg0"}, addrs: []netip.Prefix{session}, routes: []route{on}},
			Slot{Session: session, Egress: "none", Drift: []string{"link wg0 inside"}},
		},
		"IPv6": {
			&space{links: []string{inner}, addrs: []netip.Prefix{session}, routes: []route{on}, ipv6: true},
			Slot{Session: session, Egress: "none", Drift: []string{"IPv6 addresses inside"}},
		},
		"no link":      {&space{}, Slot{Egress: "none", Drift: []string{"there is no eth0 inside"}}},
		"no namespace": {nil, Slot{Egress: "none", Drift: []string{"no namespace is pinned"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Slot{Host: host, Egress: "none"}
			if err := got.addInside(c.in.dump()); err != nil {
				t.Fatal(err)
			}
			if got.Session != c.want.Session || got.Egress != c.want.Egress || !slices.Equal(got.Drift, c.want.Drift) {
				t.Errorf("got %v %s %q, want %v %s %q", got.Session, got.Egress, got.Drift, c.want.Session, c.want.Egress, c.want.Drift)
			}
		})
	}
}

func TestInsideUnexpected(t *testing.T) {
	in := (&space{links: []string{inner}}).dump()
	in.files["route"] += "eth0 zz\n"
	if err := new(Slot).addInside(in); err == nil || !strings.Contains(err.Error(), "unexpected") {
		t.Errorf("a line that is no route: %v", err)
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
