package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/slot"
	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

func lease(network string, slots ...int) []specs.Lease {
	var out []specs.Lease
	for _, n := range slots {
		out = append(out, specs.Lease{ID: fmt.Sprintf("%08x", n), Sandbox: "s", Network: network, Slot: n})
	}
	return out
}

func sets() []specs.Set {
	s := []specs.Sandbox{{Name: "s"}}
	proxies := []specs.Proxy{{Name: "anthropic", Port: 8181}, {Name: "other", Port: 8080}}
	llm := specs.Network{Name: "llm", Pool: netip.MustParsePrefix("10.201.0.0/24"), Egress: specs.EgressNone, Allow: []string{"anthropic"}}
	term := specs.Network{
		Name: "term-1", Pool: netip.MustParsePrefix("10.202.0.0/26"), Egress: specs.EgressInternet,
		Deny: []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32"), netip.MustParsePrefix("2001:db8::/32")},
	}
	open, both := llm, llm
	open.Egress = specs.EgressInternet
	open.Pool = netip.MustParsePrefix("198.51.100.0/25")
	both.Allow = []string{"other", "anthropic", "other"}
	all := term
	all.Deny = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	return []specs.Set{
		{Sandboxes: s, Proxies: proxies, Networks: []specs.Network{llm, term}, Leases: append(lease("llm", 0, 12), lease("term-1", 3)...)},
		{Sandboxes: s, Proxies: proxies, Networks: []specs.Network{open}, Leases: lease("llm", 0)},
		{Sandboxes: s, Proxies: proxies, Networks: []specs.Network{both}, Leases: lease("llm", 5)},
		{Sandboxes: s, Proxies: proxies, Networks: []specs.Network{all}},
	}
}

// dump is a plan's side as text, one resource after the other.
func dump(t *testing.T, list []reconciler.Resource) string {
	t.Helper()
	slices.SortFunc(list, func(a, b reconciler.Resource) int { return strings.Compare(string(a.Addr()), string(b.Addr())) })
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintln(&b, r.Addr())
		switch r := r.(type) {
		case Chain:
			for _, rule := range r.Rules {
				fmt.Fprintln(&b, "   ", rule)
			}
		case Hook:
			fmt.Fprintln(&b, "   ", r.Position, r.Rule)
		case Member:
			fmt.Fprintln(&b, "   ", r.element())
		}
	}
	return b.String()
}

func TestDesired(t *testing.T) {
	e := &Enforcer{families: families(false)}
	got, err := e.Desired(sets()[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantFirst, dump(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const wantFirst = `network.chain.ipv4.filter.CORDON-FORWARD
    -o c-llm.+ -j REJECT --reject-with icmp-net-unreachable
    -o c-term-1.+ -m set --match-set cordon-term-1 dst,dst -m conntrack --ctstate RELATED,ESTABLISHED --ctdir REPLY -j ACCEPT
    -o c-term-1.+ -j REJECT --reject-with icmp-net-unreachable
    -i c-llm.+ -j REJECT --reject-with icmp-net-unreachable
    -i c-term-1.+ -j CORDON-FWD-term-1
network.chain.ipv4.filter.CORDON-FWD-term-1
    -m set ! --match-set cordon-term-1 src,src -j REJECT --reject-with icmp-net-unreachable
    -d 0.0.0.0/8 -j REJECT --reject-with icmp-net-unreachable
    -d 10.0.0.0/8 -j REJECT --reject-with icmp-net-unreachable
    -d 100.64.0.0/10 -j REJECT --reject-with icmp-net-unreachable
    -d 127.0.0.0/8 -j REJECT --reject-with icmp-net-unreachable
    -d 169.254.0.0/16 -j REJECT --reject-with icmp-net-unreachable
    -d 172.16.0.0/12 -j REJECT --reject-with icmp-net-unreachable
    -d 192.0.0.0/24 -j REJECT --reject-with icmp-net-unreachable
    -d 192.168.0.0/16 -j REJECT --reject-with icmp-net-unreachable
    -d 198.18.0.0/15 -j REJECT --reject-with icmp-net-unreachable
    -d 203.0.113.7/32 -j REJECT --reject-with icmp-net-unreachable
    -d 224.0.0.0/4 -j REJECT --reject-with icmp-net-unreachable
    -d 240.0.0.0/4 -j REJECT --reject-with icmp-net-unreachable
    -j ACCEPT
network.chain.ipv4.filter.CORDON-IN-llm
    -p tcp -m set --match-set cordon-llm src,src -m addrtype --dst-type LOCAL --limit-iface-in -m tcp --dport 8181 -j ACCEPT
    -j REJECT --reject-with icmp-net-unreachable
network.chain.ipv4.filter.CORDON-IN-term-1
    -j REJECT --reject-with icmp-net-unreachable
network.chain.ipv4.filter.CORDON-INPUT
    -i c-llm.+ -j CORDON-IN-llm
    -i c-term-1.+ -j CORDON-IN-term-1
network.chain.ipv4.nat.CORDON-NAT-term-1
    ! -o c-term-1.+ -j MASQUERADE
network.chain.ipv4.nat.CORDON-POSTROUTING
    -s 10.202.0.0/26 -j CORDON-NAT-term-1
network.chain.ipv6.filter.CORDON-FORWARD
    -i c-llm.+ -j REJECT --reject-with icmp6-no-route
    -o c-llm.+ -j REJECT --reject-with icmp6-no-route
    -i c-term-1.+ -j REJECT --reject-with icmp6-no-route
    -o c-term-1.+ -j REJECT --reject-with icmp6-no-route
network.chain.ipv6.filter.CORDON-INPUT
    -i c-llm.+ -j REJECT --reject-with icmp6-no-route
    -i c-term-1.+ -j REJECT --reject-with icmp6-no-route
network.forwarding
network.hook.ipv4.filter.FORWARD
    1 -m comment --comment "cordon:network.hook.ipv4.filter.FORWARD" -j CORDON-FORWARD
network.hook.ipv4.filter.INPUT
    1 -m comment --comment "cordon:network.hook.ipv4.filter.INPUT" -j CORDON-INPUT
network.hook.ipv4.nat.POSTROUTING
    1 -m comment --comment "cordon:network.hook.ipv4.nat.POSTROUTING" -j CORDON-POSTROUTING
network.hook.ipv6.filter.FORWARD
    1 -m comment --comment "cordon:network.hook.ipv6.filter.FORWARD" -j CORDON-FORWARD
network.hook.ipv6.filter.INPUT
    1 -m comment --comment "cordon:network.hook.ipv6.filter.INPUT" -j CORDON-INPUT
network.member.llm.0
    10.201.0.2,c-llm.0
network.member.llm.12
    10.201.0.50,c-llm.12
network.member.term-1.3
    10.202.0.14,c-term-1.3
network.set.llm
network.set.term-1
`

// The rules are the same whatever the number of sessions.
func TestRulesDontGrow(t *testing.T) {
	e := &Enforcer{families: families(false)}
	count := func(leases []specs.Lease) (rules int) {
		set := sets()[0]
		set.Leases = leases
		got, err := e.Desired(set)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			if c, ok := r.(Chain); ok {
				rules += len(c.Rules)
			}
		}
		return rules
	}
	many := lease("llm", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
	if none, some := count(nil), count(many); none != some || none == 0 {
		t.Errorf("%d rules without a session, %d with 20", none, some)
	}
}

// What closes the host comes before the slots, and they before their members;
// the other way round at the end.
func TestOrder(t *testing.T) {
	var all []reconciler.Resource
	for _, e := range []reconciler.Enforcer{&Enforcer{families: families(false)}, slot.New(slot.Options{})} {
		got, err := e.Desired(sets()[0])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got...)
	}
	for name, c := range map[string]struct {
		desired, live []reconciler.Resource
		ranks         []string
	}{
		"made":    {all, nil, []string{"set", "chain", "hook", "slot", "member"}},
		"removed": {nil, all, []string{"member", "slot", "hook", "chain", "set"}},
	} {
		changes, err := reconciler.Diff(c.desired, c.live)
		if err != nil {
			t.Fatal(err)
		}
		last := map[string]int{}
		for i, ch := range changes {
			last[kindOf(ch.Addr())] = i
		}
		for i, ch := range changes {
			rank := slices.Index(c.ranks, kindOf(ch.Addr()))
			if rank > 0 && i < last[c.ranks[rank-1]] && kindOf(ch.Addr()) == "slot" {
				t.Errorf("%s: %s comes before the last %s", name, ch.Addr(), c.ranks[rank-1])
			}
		}
		if len(last) < len(c.ranks) {
			t.Errorf("%s: kinds %v", name, last)
		}
		if name == "removed" && last["slot"] > slices.IndexFunc(changes, func(ch reconciler.Change) bool { return kindOf(ch.Addr()) == "hook" }) {
			t.Errorf("a hook goes before a slot:\n%s", enforcertest.Describe(changes))
		}
	}
}

func kindOf(a reconciler.Addr) string {
	parts := strings.Split(string(a), ".")
	if parts[0] == slot.Name {
		return slot.Name
	}
	return parts[1]
}

// Sets that others named like ours have names that addresses quote.
func TestReadPartOfAQuotedName(t *testing.T) {
	f := newFake()
	f.ipsets["cordon-a.b"] = &set{name: "cordon-a.b", kind: setType, family: setFamily}
	e := &Enforcer{kernel: f, families: families(false), links: noLinks, wake: f.wake}
	part, err := e.ReadPart(context.Background(), []reconciler.Addr{Set{Network: "a.b"}.Addr()})
	must(t, err)
	if len(part) != 1 {
		t.Errorf("found %v", part)
	}
	for _, a := range []reconciler.Addr{"network", "network.other.x", "network.set", "network.set.a.b", "network.chain.ipv4"} {
		if _, err := e.ReadPart(context.Background(), []reconciler.Addr{a}); err == nil {
			t.Errorf("%s is an address", a)
		}
	}
}

// A member needs hooks of both families, also where the kernel has no IPv6 and
// ip6tables would fail.
func TestReadPartLeavesOutAFamilyThatIsNotThere(t *testing.T) {
	f := newFake()
	e := &Enforcer{kernel: lacking{f, v6}, families: families(true), links: noLinks, wake: f.wake}
	apply(t, e, sets()[0])
	found, err := e.ReadPart(context.Background(), Member{Network: "llm"}.Needs()[2:])
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 {
		t.Errorf("found %v", found)
	}
}

// lacking fails for one family.
type lacking struct {
	*fake
	family string
}

func (l lacking) save(ctx context.Context, family string, known bool) (string, error) {
	if family == l.family {
		return "", errors.New("ip6tables-save: no such program")
	}
	return l.fake.save(ctx, family, known)
}

func TestParseSave(t *testing.T) {
	for name, c := range map[string]struct{ text, err string }{
		"empty":                  {"", ""},
		"one table":              {"*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j ACCEPT\nCOMMIT\n", ""},
		"cut off":                {"*filter\n:INPUT ACCEPT [0:0]\n", "has no end"},
		"a rule of no chain":     {"*filter\n-A INPUT -j ACCEPT\nCOMMIT\n", "unexpected line"},
		"no table":               {":INPUT ACCEPT [0:0]\n", "outside of a table"},
		"filter not shown":       {"# Table `filter' is incompatible, use 'nft' tool.\n", "incompatible"},
		"base chains not shown":  {"# Table `nat' contains incompatible base-chains, use 'nft' tool to list them.\n", "incompatible"},
		"a chain without a hook": {"*filter\n:INPUT ACCEPT [0:0]\n:INPUT - [0:0]\nCOMMIT\n", "no hook"},
		"another dormant":        {dormantNote("mine"), ""},
		"another not shown":      {"# Table `mine' is incompatible, use 'nft' tool.\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseSave(c.text)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// What the kernel says and can't be read is an error, never another element;
// sets of other types have elements without an address.
func TestParseElement(t *testing.T) {
	attr := func(kind int, value ...byte) []byte { return nl.NewRtAttr(kind, value).Serialize() }
	addr := func(value ...byte) []byte {
		return attr(nl.IPSET_ATTR_IP|unix.NLA_F_NESTED, attr(nl.IPSET_ATTR_IPADDR_IPV4|unix.NLA_F_NET_BYTEORDER, value...)...)
	}
	iface := attr(nl.IPSET_ATTR_IFACE, []byte("c-llm.0\x00")...)
	for name, c := range map[string]struct {
		element [][]byte
		want    string
		ok      bool
	}{
		"member":              {[][]byte{addr(10, 0, 0, 2), iface}, "10.0.0.2,c-llm.0", true},
		"with a prefix":       {[][]byte{addr(10, 0, 0, 0), attr(nl.IPSET_ATTR_CIDR, 8), iface}, "10.0.0.0/8,c-llm.0", true},
		"of another type":     {[][]byte{attr(nl.IPSET_ATTR_ETHER, 2, 0, 0, 0, 0, 1)}, "invalid Prefix", true},
		"no address":          {[][]byte{iface}, "", false},
		"no inner address":    {[][]byte{attr(nl.IPSET_ATTR_IP | unix.NLA_F_NESTED), iface}, "", false},
		"three bytes":         {[][]byte{addr(10, 0, 0), iface}, "", false},
		"prefix too long":     {[][]byte{addr(10, 0, 0, 2), attr(nl.IPSET_ATTR_CIDR, 33), iface}, "", false},
		"empty prefix":        {[][]byte{addr(10, 0, 0, 2), attr(nl.IPSET_ATTR_CIDR), iface}, "", false},
		"flags of two bytes":  {[][]byte{addr(10, 0, 0, 2), attr(nl.IPSET_ATTR_CADT_FLAGS, 0, 4), iface}, "", false},
		"address that is cut": {[][]byte{attr(nl.IPSET_ATTR_IP|unix.NLA_F_NESTED, 8, 0, 1), iface}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			attrs, err := nl.ParseRouteAttr(slices.Concat(c.element...))
			must(t, err)
			got, err := parseElement(attrs)
			if (err == nil) != c.ok || c.ok && got.String() != c.want {
				t.Errorf("got %s, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "%!") {
				t.Errorf("wraps no error: %v", err)
			}
		})
	}
}

func TestOnFake(t *testing.T) {
	f := newFake()
	filter := func(name string) *chain { return f.tables[v4]["filter"][name] }
	enforcertest.Run(t, enforcertest.Harness{
		Name: Name,
		New: func(*testing.T) reconciler.Enforcer {
			return &Enforcer{kernel: f, families: families(false), links: noLinks, wake: f.wake}
		},
		Sets: sets(),
		Foreign: func(*testing.T) func(*testing.T) {
			filter("INPUT").rules = []string{"-i c-llm.+ -j ACCEPT"}
			f.ipsets["cordon"] = &set{name: "cordon", kind: "hash:ip"}
			return func(t *testing.T) {
				if !slices.Contains(filter("INPUT").rules, "-i c-llm.+ -j ACCEPT") || f.ipsets["cordon"] == nil {
					t.Error("a foreign rule or set is gone")
				}
			}
		},
		Damage: []enforcertest.Damage{
			{Name: "a rule deleted", Do: func(*testing.T) { c := filter("CORDON-IN-llm"); c.rules = c.rules[:1] }},
			{Name: "a hook moved", Do: func(*testing.T) { c := filter("INPUT"); c.rules = append([]string{"-j ACCEPT"}, c.rules...) }},
			{Name: "a hook doubled", Do: func(*testing.T) { c := filter("INPUT"); c.rules = append(c.rules, c.rules[0]) }},
			{Name: "another jump of ours", Do: func(*testing.T) { c := filter("FORWARD"); c.rules = append(c.rules, "-j CORDON-INPUT") }},
			{Name: "a member added", Do: func(*testing.T) {
				s := f.ipsets["cordon-llm"]
				s.elements = append(s.elements, Element{Prefix: netip.MustParsePrefix("10.201.0.6/32"), Interface: "c-llm.1"})
			}},
			{Name: "everything accepted", Do: func(*testing.T) {
				s := f.ipsets["cordon-llm"]
				s.elements = append(s.elements, Element{Prefix: netip.MustParsePrefix("0.0.0.0/1"), Interface: "c-llm.1"})
			}},
			{Name: "a set of another type", Do: func(*testing.T) { f.ipsets["cordon-llm"].kind = "hash:ip"; f.ipsets["cordon-llm"].elements = nil }},
			{Name: "the filter dormant", Do: func(*testing.T) { f.dormant[v4+"filter"] = true }},
			{Name: "IPv6 dormant", Do: func(*testing.T) { f.dormant[v6+"filter"] = true }},
			{Name: "forwarding off", Do: func(*testing.T) { f.forward = "0" }},
		},
	})
	if f.forward != "0" || f.was != nil {
		t.Errorf("forwarding is left at %s", f.forward)
	}
}

// blind is a firewall of which one part can't be read.
type blind struct {
	*fake
	what string
}

var errBlind = errors.New("can't see")

func (b blind) save(ctx context.Context, family string, known bool) (string, error) {
	text, err := b.fake.save(ctx, family, known)
	switch b.what {
	case family:
		return text, errBlind
	case family + " cut off":
		return text[:len(text)/2], nil
	}
	return text, err
}

func (b blind) sets(ctx context.Context, name string) ([]set, error) {
	if b.what == "sets" {
		return nil, errBlind
	}
	return b.fake.sets(ctx, name)
}

func (b blind) forwarding(ctx context.Context) (string, bool, error) {
	if b.what == "forwarding" {
		return "", false, errBlind
	}
	return b.fake.forwarding(ctx)
}

// A Read that could not see everything is an error, never a shorter list.
func TestReadIsWhole(t *testing.T) {
	f := newFake()
	e := &Enforcer{kernel: f, families: families(false), links: noLinks, wake: f.wake}
	apply(t, e, sets()[0])
	for _, what := range []string{v4, v6, "ipv4 cut off", "ipv6 cut off", "sets", "forwarding"} {
		e.kernel = blind{f, what}
		if got, err := e.Read(context.Background()); err == nil {
			t.Errorf("%s: %d resources and no error", what, len(got))
		}
	}
}

func noLinks() ([]string, error) { return nil, nil }

// A network that goes while interfaces of it are still there stays closed, in
// both directions, and the apply says so; the other networks are as declared.
func TestNoSlotIsLeftUnguarded(t *testing.T) {
	f := newFake()
	links := []string{"lo", "c-llm.3", "c-llm2.4"}
	e := &Enforcer{kernel: f, families: families(false), links: func() ([]string, error) { return links, nil }, wake: f.wake}
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
	both := sets()[0]
	apply(t, e, both)
	only := both
	only.Networks = both.Networks[1:]
	only.Leases = nil

	p, err := r.Plan(context.Background(), only)
	must(t, err)
	err = r.Apply(context.Background(), p, nil).Err()
	if err == nil || !strings.Contains(err.Error(), "stays closed") {
		t.Fatalf("got %v", err)
	}
	for _, family := range []string{v4, v6} {
		for chain, want := range map[string][]string{chainInput: {"-i c-llm.+"}, chainForward: {"-i c-llm.+", "-o c-llm.+"}} {
			for _, match := range want {
				rules := f.tables[family]["filter"][chain].rules
				if !slices.ContainsFunc(rules, func(r string) bool { return strings.HasPrefix(r, match+" -j REJECT") }) {
					t.Errorf("%s %s: nothing refuses %s:\n%s", family, chain, match, strings.Join(rules, "\n"))
				}
			}
		}
	}

	links = []string{"lo", "c-llm2.4"}
	apply(t, e, only)
	converged(t, e, only)
}

// A record has no type: a plan of records is shown, never applied.
func TestApplyRefusesRecords(t *testing.T) {
	f := newFake()
	e := &Enforcer{kernel: f, families: families(false), links: noLinks, wake: f.wake}
	all, err := e.Desired(sets()[0])
	must(t, err)
	before := fmt.Sprint(f.tables, f.ipsets, f.forward)
	for _, r := range all {
		rec, err := reconciler.Record(r)
		must(t, err)
		for _, c := range []reconciler.Change{{After: rec}, {Before: rec}} {
			if err := e.Apply(context.Background(), c); err == nil || !strings.Contains(err.Error(), "Recorded") {
				t.Errorf("%s %s: %v", c.Action(), c.Addr(), err)
			}
		}
	}
	if fmt.Sprint(f.tables, f.ipsets, f.forward) != before {
		t.Error("something changed")
	}
}
