package slot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// key names a slot.
type key struct {
	network string
	number  int
}

// keyOf is the inverse of [Addr].
func keyOf(a reconciler.Addr) (key, bool) {
	parts := a.Parts()
	if len(parts) != 3 || parts[0] != Name {
		return key{}, false
	}
	network, number, ok := specs.ParseSlot(parts[1] + "." + parts[2])
	return key{network, number}, ok
}

// Read implements [reconciler.Enforcer].
func (e *Enforcer) Read(ctx context.Context) ([]reconciler.Resource, error) {
	links, err := e.kernel.links(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	pins, err := e.kernel.pins(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	var keys []key
	byName, byMark := map[string]*link{}, map[key]*link{}
	for i := range links {
		l := &links[i]
		byName[l.name] = l
		k, ok := l.key()
		if !ok {
			continue
		}
		// A copied alias must not hide the end that has the right name.
		if old := byMark[k]; old == nil || l.name == (Slot{Network: k.network, Number: k.number}).host() {
			byMark[k] = l
		}
		keys = append(keys, k)
	}
	keys = append(keys, pins...)
	return e.assemble(ctx, keys, func(k key, name string) *link {
		if l := byMark[k]; l != nil {
			return l
		}
		return byName[name]
	})
}

// ReadPart implements [reconciler.PartReader]: it asks for the links by name
// and dumps nothing of the host.
func (e *Enforcer) ReadPart(ctx context.Context, addrs []reconciler.Addr) ([]reconciler.Resource, error) {
	var keys []key
	links := map[string]*link{}
	for _, a := range addrs {
		k, ok := keyOf(a)
		if !ok {
			return nil, fmt.Errorf("%s: not the address of a slot", a)
		}
		name := Slot{Network: k.network, Number: k.number}.host()
		l, err := e.kernel.link(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a, err)
		}
		links[name] = l
		keys = append(keys, k)
	}
	return e.assemble(ctx, keys, func(_ key, name string) *link { return links[name] })
}

// assemble looks inside the namespaces and puts slots together. A key with
// neither pin nor marked link is no slot.
func (e *Enforcer) assemble(ctx context.Context, keys []key, host func(key, string) *link) ([]reconciler.Resource, error) {
	slices.SortFunc(keys, func(a, b key) int {
		if c := strings.Compare(a.network, b.network); c != 0 {
			return c
		}
		return a.number - b.number
	})
	keys = slices.Compact(keys)
	insides, err := e.kernel.insides(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	var out []reconciler.Resource
	for i, k := range keys {
		s := Slot{Network: k.network, Number: k.number, Egress: specs.EgressNone}
		l := host(k, s.host())
		if insides[i].state == absent && (l == nil || l.alias != s.mark()) {
			continue
		}
		s.addHost(l)
		s.addInside(insides[i])
		s.checkPair(l, insides[i])
		s.checkSysctls(l)
		out = append(out, s)
	}
	return out, nil
}

func (s *Slot) drift(format string, args ...any) {
	s.Drift = append(s.Drift, fmt.Sprintf(format, args...))
}

// addHost takes over what the host's end of the pair is like.
func (s *Slot) addHost(l *link) {
	if l == nil {
		s.drift("there is no link %s", s.host())
		return
	}
	s.link = l.name
	if l.name != s.host() {
		s.drift("the host end is named %s", l.name)
	}
	if l.alias != s.mark() {
		s.drift("%s does not bear the mark %s", l.name, s.mark())
	}
	if l.kind != "veth" {
		s.drift("%s is a %s", l.name, l.kind)
	}
	if !l.up {
		s.drift("%s is down", l.name)
	}
	for _, odd := range l.odd {
		s.drift("%s %s", l.name, odd)
	}
	for i, a := range l.addrs {
		if i == 0 {
			s.Host = a
			continue
		}
		s.drift("%s has %s", l.name, a)
	}
}

func (s *Slot) checkSysctls(l *link) {
	if l == nil {
		return
	}
	for _, c := range hostSysctls(s.Egress) {
		if v, ok := l.sysctls[c.name]; ok && v != c.value {
			s.drift("%s of %s is %s", c.name, l.name, v)
		}
	}
}

// sysctl is a setting of an interface.
type sysctl struct {
	name, value string
	index       int // in the array that a dump of links has, see [addSysctls]
}

// hostSysctls are the settings of a host end, see ip-sysctl in the kernel's
// documentation; the indices are those of linux/ip.h (IPV4_DEVCONF_… less
// one) and linux/ipv6.h (DEVCONF_…).
func hostSysctls(egress string) []sysctl {
	list := []sysctl{
		noIPv6(),
		{"ipv4/rp_filter", "1", 7},   // sources of its own /30 only
		{"ipv4/arp_ignore", "1", 18}, // answer for its own address only
		{"ipv4/proxy_arp", "0", 2},
		{"ipv4/route_localnet", "0", 25},
		{"ipv4/accept_local", "0", 22},
		{"ipv4/accept_redirects", "0", 3},
		{"ipv4/send_redirects", "0", 5},
		{"ipv4/accept_source_route", "0", 8},
	}
	if egress == specs.EgressInternet {
		list = append(list, sysctl{"ipv4/forwarding", "1", 0})
	}
	return list
}

// noIPv6 turns IPv6 off.
func noIPv6() sysctl { return sysctl{"ipv6/disable_ipv6", "1", 26} }

// key is the slot whose mark the link bears.
func (l link) key() (key, bool) {
	addr, ok := owner.Addr(l.alias)
	if !ok {
		return key{}, false
	}
	return keyOf(reconciler.Addr(addr))
}
