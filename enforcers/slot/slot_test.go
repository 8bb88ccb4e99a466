package slot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

func leases(network string, slots ...int) []specs.Lease {
	var out []specs.Lease
	for _, n := range slots {
		out = append(out, specs.Lease{ID: fmt.Sprintf("%08x", n), Sandbox: "s", Network: network, Slot: n})
	}
	return out
}

func sets() []specs.Set {
	s := []specs.Sandbox{{Name: "s"}}
	llm := specs.Network{Name: "llm", Pool: netip.MustParsePrefix("10.201.0.0/24"), Egress: specs.EgressNone}
	term := specs.Network{Name: "term-1", Pool: netip.MustParsePrefix("10.202.0.0/26"), Egress: specs.EgressInternet}
	warm, moved := llm, llm
	warm.Warm = 2
	moved.Pool, moved.Egress = netip.MustParsePrefix("10.203.0.0/24"), specs.EgressInternet
	return []specs.Set{
		{Sandboxes: s, Networks: []specs.Network{warm, term}, Leases: append(leases("llm", 0), leases("term-1", 3)...)},
		{Sandboxes: s, Networks: []specs.Network{moved}, Leases: leases("llm", 0)},
		{Sandboxes: s, Networks: []specs.Network{llm, term}, Leases: append(leases("llm", 1, 63), leases("term-1", 0)...)},
	}
}

func TestDesired(t *testing.T) {
	set := sets()[0]
	set.Leases = append(set.Leases,
		specs.Lease{Sandbox: "gone", Network: "llm", Slot: 7},
		specs.Lease{Sandbox: "s", Network: "gone", Slot: 7},
		specs.Lease{Sandbox: "s", Network: "llm", Slot: 64},
		specs.Lease{Sandbox: "s", Network: "llm", Slot: specs.NoSlot})
	got, err := (&Enforcer{}).Desired(set)
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, r := range got {
		addrs = append(addrs, string(r.Addr()))
	}
	if want := "slot.llm.0 slot.llm.1 slot.llm.2 slot.term-1.3"; strings.Join(addrs, " ") != want {
		t.Errorf("desired %v, want %s", addrs, want)
	}
	s := got[3].(Slot)
	if s.Host.String() != "10.202.0.13/30" || s.Session.String() != "10.202.0.14/30" || s.Egress != "internet" {
		t.Errorf("got %+v", s)
	}
}

// An address that can't be read is an error: without it a slot would look as
// if it were whole.
func TestParseAddrMsg(t *testing.T) {
	msg := func(bits uint8, attrs ...*nl.RtAttr) []byte {
		m := nl.NewIfAddrmsg(netlink.FAMILY_V4)
		m.Index, m.Prefixlen = 7, bits
		out := m.Serialize()
		for _, a := range attrs {
			out = append(out, a.Serialize()...)
		}
		return out
	}
	local := nl.NewRtAttr(unix.IFA_LOCAL, []byte{192, 0, 2, 1})
	for name, c := range map[string]struct {
		msg  []byte
		want string
	}{
		"address":         {msg(30, nl.NewRtAttr(unix.IFA_LABEL, nl.ZeroTerminated("x")), local), "192.0.2.1/30"},
		"none":            {msg(30), ""},
		"three bytes":     {msg(30, nl.NewRtAttr(unix.IFA_LOCAL, []byte{192, 0, 2})), ""},
		"prefix too long": {msg(33, local), ""},
		"cut":             {msg(30)[:3], ""},
		"cut attribute":   {msg(30, local)[:14], ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, link, err := parseAddrMsg(c.msg)
			if c.want == "" && err == nil || c.want != "" && (err != nil || p.String() != c.want || link != 7) {
				t.Errorf("got %s of %d, %v", p, link, err)
			}
		})
	}
	if _, err := parseLink([]byte{0, 0}); err == nil {
		t.Error("a link of two bytes")
	}
}

func TestOnFake(t *testing.T) {
	f := newFake()
	first := func() *link { return f.ends["c-llm.0"] }
	enforcertest.Run(t, enforcertest.Harness{
		Name: Name,
		New:  func(*testing.T) reconciler.Enforcer { return &Enforcer{kernel: f} },
		Sets: sets(),
		Foreign: func(*testing.T) func(*testing.T) {
			f.ends["c-llm.5"] = &link{name: "c-llm.5", kind: "veth"}
			f.ends["eth0"] = &link{name: "eth0", alias: "cordon: not a mark"}
			return func(t *testing.T) {
				if f.ends["c-llm.5"] == nil || f.ends["eth0"] == nil {
					t.Error("a foreign link is gone")
				}
			}
		},
		Damage: []enforcertest.Damage{
			{Name: "a link deleted", Do: func(*testing.T) { delete(f.ends, "c-llm.0"); f.spaces["llm.0"].links = nil }},
			{Name: "a link down", Do: func(*testing.T) { first().up = false }},
			{Name: "the mark gone", Do: func(*testing.T) { first().alias = "" }},
			{Name: "a link renamed", Do: func(*testing.T) { l := first(); delete(f.ends, l.name); l.name = "x"; f.ends["x"] = l }},
			{Name: "an address changed", Do: func(*testing.T) { first().addrs[0] = netip.MustParsePrefix("10.9.9.1/30") }},
			{Name: "a setting changed", Do: func(*testing.T) { first().sysctls["ipv4/rp_filter"] = "0" }},
			{Name: "a link of a bridge", Do: func(*testing.T) { first().odd = []string{"is a port of link 7"} }},
			{Name: "a dead pin", Do: func(*testing.T) { f.spaces["llm.0"] = nil; delete(f.ends, "c-llm.0") }},
		},
	})
}

func real() (*Enforcer, linux) {
	k := linux{dir: rundir.Dir("/run/cordon")}
	return &Enforcer{kernel: k}, k
}

// within runs f in the namespace of a slot.
func within(t testing.TB, pin string, f func(h *netlink.Handle) error) {
	t.Helper()
	err := alone(func() error {
		ns, st, err := openPin(filepath.Join("/run/cordon/netns", pin))
		if err != nil || st != live {
			return fmt.Errorf("pin %s: state %d: %v", pin, st, err)
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		return f(h)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func byName(t testing.TB, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	return l
}

// veth is a pair within one namespace.
func veth(name string) netlink.Link {
	return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-p"}
}

func parse(t testing.TB, s string) *netlink.Addr {
	t.Helper()
	a, err := netlink.ParseAddr(s)
	must(t, err)
	return a
}

// insideDo is a damage done in the namespace of llm.0, to its eth0.
func insideDo(name string, f func(t *testing.T, h *netlink.Handle, eth0 netlink.Link) error) enforcertest.Damage {
	return enforcertest.Damage{Name: name, Do: func(t *testing.T) {
		within(t, "llm.0", func(h *netlink.Handle) error {
			l, err := h.LinkByName(inner)
			if err != nil {
				return err
			}
			return f(t, h, l)
		})
	}}
}

// ipDo is a damage that ip(8) does in the namespace of llm.0, by commands.
func ipDo(name string, commands ...string) enforcertest.Damage {
	return insideDo(name, func(t *testing.T, _ *netlink.Handle, _ netlink.Link) error {
		kerneltest.Program(t, "ip")
		for _, c := range commands {
			if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil { // in this thread's namespace
				return fmt.Errorf("ip %s: %w: %s", c, err, out)
			}
		}
		return nil
	})
}

func forward(iface string) error { return sysctl{name: "ipv4/forwarding", value: "1"}.write(iface) }

func hostDo(name string, f func(t *testing.T, l netlink.Link) error) enforcertest.Damage {
	return enforcertest.Damage{Name: name, Do: func(t *testing.T) { must(t, f(t, byName(t, "c-llm.0"))) }}
}

// add makes a link of a type that the kernel may lack.
func add(t *testing.T, l netlink.Link) {
	t.Helper()
	err := netlink.LinkAdd(l)
	if errors.Is(err, unix.EOPNOTSUPP) {
		kerneltest.Missing(t, "links of the type "+l.Type())
	}
	must(t, err)
	t.Cleanup(func() { _ = netlink.LinkDel(l) })
}

// portOf makes the host end a port of another link.
func portOf(name string, master netlink.Link) enforcertest.Damage {
	return hostDo("a port of "+name, func(t *testing.T, l netlink.Link) error {
		add(t, master)
		must(t, netlink.LinkSetUp(master))
		return netlink.LinkSetMaster(l, master)
	})
}

// carrier makes another link stand on the host end.
func carrier(name string, child func(attrs netlink.LinkAttrs) netlink.Link) enforcertest.Damage {
	return hostDo("below a "+name, func(t *testing.T, l netlink.Link) error {
		c := child(netlink.LinkAttrs{Name: "on-top", ParentIndex: l.Attrs().Index})
		add(t, c)
		return nil
	})
}

func qdisc(name string, make func(netlink.QdiscAttrs) netlink.Qdisc, parent uint32) enforcertest.Damage {
	handle := netlink.MakeHandle(0xffff, 0)
	if parent == netlink.HANDLE_ROOT {
		handle = netlink.MakeHandle(1, 0)
	}
	return hostDo("with "+name, func(_ *testing.T, l netlink.Link) error {
		return netlink.QdiscAdd(make(netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: parent, Handle: handle}))
	})
}

// bypasses are ways past the firewall that a host end may be given. Of what it
// may be a port of (IFLA_MASTER), and of what may stand on it (IFLA_LINK), one
// type each, which every kernel that has the rest of this has too.
func bypasses() []enforcertest.Damage {
	return []enforcertest.Damage{
		portOf("a bridge", &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}),
		carrier("macvlan", func(a netlink.LinkAttrs) netlink.Link {
			return &netlink.Macvlan{LinkAttrs: a, Mode: netlink.MACVLAN_MODE_BRIDGE}
		}),
		qdisc("an ingress qdisc", func(a netlink.QdiscAttrs) netlink.Qdisc { return &netlink.Ingress{QdiscAttrs: a} }, netlink.HANDLE_INGRESS),
		qdisc("a clsact qdisc", func(a netlink.QdiscAttrs) netlink.Qdisc { return &netlink.Clsact{QdiscAttrs: a} }, netlink.HANDLE_CLSACT),
		qdisc("a root qdisc", func(a netlink.QdiscAttrs) netlink.Qdisc {
			return &netlink.GenericQdisc{QdiscAttrs: a, QdiscType: "pfifo"}
		}, netlink.HANDLE_ROOT),
		hostDo("without ARP", func(_ *testing.T, l netlink.Link) error { return netlink.LinkSetARPOff(l) }),
		hostDo("promiscuous", func(_ *testing.T, l netlink.Link) error { return netlink.SetPromiscOn(l) }),
		hostDo("with all multicast", func(_ *testing.T, l netlink.Link) error { return netlink.LinkSetAllmulticastOn(l) }),
		hostDo("of another MTU", func(_ *testing.T, l netlink.Link) error { return netlink.LinkSetMTU(l, 9000) }),
	}
}

// ownSys shows the test's own links in /sys.
func ownSys(t testing.TB) {
	t.Helper()
	must(t, unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY, ""))
	t.Cleanup(func() { _ = unix.Unmount("/sys", unix.MNT_DETACH) })
}

// Where the kernel shows what stands on a link, no dump is needed to know that
// nothing does.
func TestCarries(t *testing.T) {
	kerneltest.Host(t)
	e, _ := real()
	must(t, create(t, e, sets()[0].Networks[0], 0))
	l, err := find("c-llm.0")
	must(t, err)
	if !l.carries() {
		t.Error("another namespace's /sys is believed")
	}
	ownSys(t)
	if l.carries() {
		t.Error("a new slot carries something")
	}
	add(t, &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "on-top", ParentIndex: l.index}})
	if !l.carries() {
		t.Error("a macvlan is not seen")
	}
}

// What hangs on another's links is none of a slot's.
func TestOthersLinksMayCarry(t *testing.T) {
	kerneltest.Host(t)
	e, _ := real()
	n := sets()[0].Networks[0]
	must(t, create(t, e, n, 0))
	must(t, create(t, e, n, 1))
	carrier := func(on string) netlink.Link {
		c := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "on-top", ParentIndex: byName(t, on).Attrs().Index}}
		must(t, netlink.LinkAdd(c))
		return c
	}
	must(t, netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: byName(t, "c-llm.1").Attrs().Index, Parent: netlink.HANDLE_CLSACT, Handle: netlink.MakeHandle(0xffff, 0),
	}}))
	top := carrier("c-llm.1")
	t.Cleanup(func() { _ = netlink.LinkDel(top) })
	all, err := e.Read(context.Background())
	must(t, err)
	part, err := e.ReadPart(context.Background(), []reconciler.Addr{Addr("llm", 0), Addr("llm", 1)})
	must(t, err)
	for _, list := range [][]reconciler.Resource{all, part} {
		if d := list[0].(Slot).Drift; d != nil {
			t.Errorf("drift of another's: %q", d)
		}
		if d := list[1].(Slot).Drift; len(d) != 2 {
			t.Errorf("drift: %q", d)
		}
	}
}

func damage() []enforcertest.Damage {
	list := append(bypasses(), []enforcertest.Damage{
		hostDo("veth deleted", func(_ *testing.T, l netlink.Link) error { return netlink.LinkDel(l) }),
		hostDo("host end down", func(_ *testing.T, l netlink.Link) error { return netlink.LinkSetDown(l) }),
		hostDo("mark changed", func(_ *testing.T, l netlink.Link) error { return netlink.LinkSetAlias(l, "mine") }),
		hostDo("mark of another slot", func(_ *testing.T, l netlink.Link) error { return netlink.LinkSetAlias(l, "cordon:slot.llm.1") }),
		hostDo("host end renamed", func(t *testing.T, l netlink.Link) error {
			must(t, netlink.LinkSetDown(l))
			return netlink.LinkSetName(l, "other")
		}),
		hostDo("address changed", func(t *testing.T, l netlink.Link) error {
			must(t, netlink.AddrDel(l, parse(t, "10.201.0.1/30")))
			return netlink.AddrAdd(l, parse(t, "10.201.0.9/30"))
		}),
		hostDo("address added", func(t *testing.T, l netlink.Link) error { return netlink.AddrAdd(l, parse(t, "192.0.2.1/32")) }),
		insideDo("default route added", func(_ *testing.T, h *netlink.Handle, l netlink.Link) error {
			return h.RouteAdd((Slot{Egress: "internet", Host: netlink10()}).route())
		}),
		insideDo("another route added", func(t *testing.T, h *netlink.Handle, l netlink.Link) error {
			return h.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: parse(t, "192.0.2.0/24").IPNet})
		}),
		insideDo("address added inside", func(t *testing.T, h *netlink.Handle, l netlink.Link) error {
			return h.AddrAdd(l, parse(t, "10.201.0.6/32"))
		}),
		insideDo("address added to lo", func(t *testing.T, h *netlink.Handle, _ netlink.Link) error {
			lo, err := h.LinkByName("lo")
			must(t, err)
			return h.AddrAdd(lo, parse(t, "10.201.0.6/32"))
		}),
		insideDo("address changed inside", func(t *testing.T, h *netlink.Handle, l netlink.Link) error {
			must(t, h.AddrDel(l, parse(t, "10.201.0.2/30")))
			return h.AddrAdd(l, parse(t, "10.201.0.6/30"))
		}),
		insideDo("link down inside", func(_ *testing.T, h *netlink.Handle, l netlink.Link) error { return h.LinkSetDown(l) }),
		insideDo("link added inside", func(_ *testing.T, h *netlink.Handle, _ netlink.Link) error {
			return h.LinkAdd(veth("way-out"))
		}),
		insideDo("default route in the local table", func(_ *testing.T, h *netlink.Handle, l netlink.Link) error {
			r := (Slot{Egress: "internet", Host: netlink10()}).route()
			r.Table, r.LinkIndex = unix.RT_TABLE_LOCAL, l.Attrs().Index
			return h.RouteAdd(r)
		}),
		insideDo("default route in a table of its own", func(_ *testing.T, h *netlink.Handle, l netlink.Link) error {
			r := (Slot{Egress: "internet", Host: netlink10()}).route()
			r.Table, r.LinkIndex = 7, l.Attrs().Index
			return h.RouteAdd(r)
		}),
		insideDo("all addresses local", func(t *testing.T, h *netlink.Handle, _ netlink.Link) error {
			lo, err := h.LinkByName("lo")
			must(t, err)
			return h.RouteAdd(&netlink.Route{
				LinkIndex: lo.Attrs().Index, Dst: parse(t, "192.0.2.0/24").IPNet, Type: unix.RTN_LOCAL,
				Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
			})
		}),
		insideDo("a black hole", func(t *testing.T, h *netlink.Handle, _ netlink.Link) error {
			return h.RouteAdd(&netlink.Route{Dst: parse(t, "192.0.2.0/24").IPNet, Type: unix.RTN_BLACKHOLE, Table: unix.RT_TABLE_LOCAL})
		}),
		insideDo("a rule added", func(t *testing.T, h *netlink.Handle, _ netlink.Link) error {
			r := netlink.NewRule()
			r.Src, r.Table = parse(t, "192.0.2.0/24").IPNet, unix.RT_TABLE_MAIN
			return h.RuleAdd(r)
		}),
		insideDo("a rule removed", func(_ *testing.T, h *netlink.Handle, _ netlink.Link) error {
			r := netlink.NewRule()
			r.Priority, r.Table = 32767, unix.RT_TABLE_DEFAULT
			return h.RuleDel(r)
		}),
		insideDo("a neighbour set", func(_ *testing.T, h *netlink.Handle, l netlink.Link) error {
			return h.NeighAdd(&netlink.Neigh{
				LinkIndex: l.Attrs().Index, IP: netlink10().Addr().AsSlice(), State: netlink.NUD_PERMANENT, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1},
			})
		}),
		insideDo("a neighbour answered for", func(t *testing.T, h *netlink.Handle, l netlink.Link) error {
			return h.NeighAdd(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: net.IPv4(10, 201, 0, 3), Flags: netlink.NTF_PROXY})
		}),
		ipDo("an address of lo's in the local table", "route add local 192.0.2.1/32 dev lo table local"),
		ipDo("its own address on lo", "route append local 10.201.0.2/32 dev lo table local"),
		ipDo("another loopback address", "addr add 127.0.0.5/32 dev eth0"),
		ipDo("a neighbour set on lo", "neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 nud permanent dev lo"),
		ipDo("a neighbour answered for on lo", "neigh add proxy 192.0.2.1 dev lo"),
		ipDo("a neighbour without ARP", "neigh replace 10.201.0.1 lladdr 02:00:00:00:00:01 nud noarp dev eth0"),
		ipDo("a neighbour without ARP on lo", "neigh replace 192.0.2.1 lladdr 02:00:00:00:00:01 nud noarp dev lo"),
		ipDo("a neighbour that stays", "neigh replace 10.201.0.1 lladdr 02:00:00:00:00:01 nud stale extern_learn dev eth0"),
		ipDo("a route by the number of a next hop", "nexthop add id 5 blackhole", "route add 192.0.2.1 nhid 5"),
		ipDo("a route over lo", "route add 192.0.2.1 dev lo"),
		ipDo("a route with a metric", "route add 10.201.0.0/30 dev eth0 metric 7"),
		ipDo("another metric", "route add 10.201.0.0/30 dev eth0 metric 7", "route del 10.201.0.0/30 dev eth0 metric 0"),
		ipDo("a route of a type of service", "route add 10.201.0.0/30 dev eth0 tos 0x10"),
		ipDo("a route from another address", "route change 10.201.0.0/30 dev eth0 src 127.0.0.1"),
		ipDo("a route with an MTU", "route change 10.201.0.0/30 dev eth0 src 10.201.0.2 mtu 1000"),
		ipDo("an address's route from another", "route change local 10.201.0.2/32 dev eth0 table local src 127.0.0.1"),
		ipDo("lo down", "link set lo down"),
		insideDo("forwarding from eth0", func(*testing.T, *netlink.Handle, netlink.Link) error { return forward(inner) }),
		insideDo("forwarding from lo", func(*testing.T, *netlink.Handle, netlink.Link) error { return forward("lo") }),
		insideDo("forwarding from links to come", func(*testing.T, *netlink.Handle, netlink.Link) error {
			return errors.Join(forward("default"), forward(inner))
		}),
		insideDo("a pair with a tunnel's name", func(_ *testing.T, h *netlink.Handle, _ netlink.Link) error { return h.LinkAdd(veth("sit0")) }),
		insideDo("another pair with a tunnel's name", func(_ *testing.T, h *netlink.Handle, _ netlink.Link) error {
			return h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "tunl0"}, PeerName: "gre0"})
		}),
		insideDo("a table of iptables", func(t *testing.T, _ *netlink.Handle, _ netlink.Link) error {
			kerneltest.Program(t, "xtables-legacy-multi")
			return exec.Command("xtables-legacy-multi", "iptables", "-A", "OUTPUT", "-j", "ACCEPT").Run() // in this thread's namespace
		}),
		insideDo("forwarding inside", func(_ *testing.T, _ *netlink.Handle, _ netlink.Link) error {
			return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
		}),
		{Name: "IPv6 on inside", Do: func(t *testing.T) {
			within(t, "llm.0", func(*netlink.Handle) error { return sysctl{name: "ipv6/disable_ipv6", value: "0"}.write(inner) })
		}},
		{Name: "IPv6 on inside for links to come", Do: func(t *testing.T) {
			within(t, "llm.0", func(*netlink.Handle) error {
				on := sysctl{name: "ipv6/disable_ipv6", value: "0"}
				must(t, on.write("all"))
				return on.write("default")
			})
		}},
		{Name: "pin unmounted", Do: func(t *testing.T) { must(t, unix.Unmount("/run/cordon/netns/llm.0", unix.MNT_DETACH)) }},
		{Name: "pin removed", Do: func(t *testing.T) { must(t, unpin("/run/cordon/netns/llm.0")) }},
		{Name: "pin replaced by a link", Do: func(t *testing.T) {
			must(t, unpin("/run/cordon/netns/llm.0"))
			must(t, os.Symlink("/proc/1/ns/net", "/run/cordon/netns/llm.0"))
		}},
		{Name: "all pins unmounted", Do: func(t *testing.T) { must(t, unix.Unmount("/run/cordon/netns", unix.MNT_DETACH)) }},
	}...)
	for _, s := range hostSysctls("none") {
		other := sysctl{name: s.name, value: map[string]string{"0": "1", "1": "0"}[s.value]}
		list = append(list, enforcertest.Damage{Name: s.name, Do: func(t *testing.T) { must(t, other.write("c-llm.0")) }})
	}
	return append(list, enforcertest.Damage{Name: "forwarding off", Do: func(t *testing.T) {
		must(t, sysctl{name: "ipv4/forwarding", value: "0"}.write("c-term-1.3"))
	}})
}

func netlink10() netip.Prefix { return netip.MustParsePrefix("10.201.0.1/30") }

func TestOnKernel(t *testing.T) {
	kerneltest.Host(t)
	enforcertest.Run(t, enforcertest.Harness{
		Name: Name,
		New: func(*testing.T) reconciler.Enforcer {
			e, _ := real()
			return e
		},
		Sets:    sets(),
		Foreign: foreignLinks,
		Damage:  damage(),
		Steps:   20,
	})
	leavesNothing(t)
}

// Others can't lock the directory of pins, which would hold up each new slot;
// neither could they where an older build made it.
func TestPinsAreClosed(t *testing.T) {
	kerneltest.Host(t)
	k := linux{dir: rundir.Dir(t.TempDir())}
	for _, before := range []string{"", k.pinDir()} {
		if before != "" {
			must(t, os.Mkdir(before, 0o755))
		}
		unlock, err := k.holdPins(context.Background())
		must(t, err)
		if info, err := os.Stat(k.pinDir()); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		unlock()
		must(t, k.dropPins())
	}
}

func leavesNothing(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/run/cordon/netns"); !os.IsNotExist(err) {
		t.Errorf("the directory of pins is left behind: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if strings.Contains(string(mounts), "/run/cordon") {
		t.Errorf("mounts are left behind:\n%s", mounts)
	}
}

// foreignLinks makes links with names and marks that are almost cordon's.
func foreignLinks(t *testing.T) func(*testing.T) {
	aliases := map[string]string{"c-llm.5": "", "c-llm": "cordon", "c-ab.0": "cordon:network.x.1", "c-term-1.9": "not cordon:slot.term-1.9"}
	for name, alias := range aliases {
		must(t, netlink.LinkAdd(veth(name)))
		l := byName(t, name)
		if alias != "" {
			must(t, netlink.LinkSetAlias(l, alias))
		}
		must(t, netlink.LinkSetUp(l))
		t.Cleanup(func() { _ = netlink.LinkDel(l) })
	}
	must(t, netlink.AddrAdd(byName(t, "c-llm.5"), parse(t, "192.0.2.5/32")))
	return func(t *testing.T) {
		for name, alias := range aliases {
			l := byName(t, name)
			if l.Attrs().Alias != alias || l.Attrs().RawFlags&unix.IFF_UP == 0 {
				t.Errorf("%s: alias %q flags %x", name, l.Attrs().Alias, l.Attrs().RawFlags)
			}
		}
		addrs, err := netlink.AddrList(byName(t, "c-llm.5"), netlink.FAMILY_V4)
		must(t, err)
		if len(addrs) != 1 {
			t.Errorf("addresses of c-llm.5: %v", addrs)
		}
	}
}

func create(t testing.TB, e *Enforcer, n specs.Network, i int) error {
	t.Helper()
	s := desired(n, i)
	t.Cleanup(func() { _ = e.Apply(context.Background(), reconciler.Change{Before: s}) })
	return e.Apply(context.Background(), reconciler.Change{After: s})
}

func desired(n specs.Network, i int) Slot {
	h, s := n.SlotAddrs(i)
	return Slot{Network: n.Name, Number: i, Host: h, Session: s, Egress: n.Egress}
}

func TestForeignLinkOfOurName(t *testing.T) {
	kerneltest.Host(t)
	e, _ := real()
	must(t, netlink.LinkAdd(veth("c-llm.0")))
	index := byName(t, "c-llm.0").Attrs().Index
	t.Cleanup(func() { _ = netlink.LinkDel(byName(t, "c-llm.0")) })
	err := create(t, e, sets()[0].Networks[0], 0)
	if err == nil || !strings.Contains(err.Error(), "c-llm.0") {
		t.Fatalf("a link of the name exists: %v", err)
	}
	if byName(t, "c-llm.0").Attrs().Index != index {
		t.Error("it was replaced")
	}
}

func TestPoolInUse(t *testing.T) {
	kerneltest.Host(t)
	e, _ := real()
	must(t, netlink.LinkAdd(veth("lan")))
	l := byName(t, "lan")
	t.Cleanup(func() { _ = netlink.LinkDel(l) })
	must(t, netlink.AddrAdd(l, parse(t, "10.201.0.200/16")))
	must(t, netlink.LinkSetUp(l))
	err := create(t, e, sets()[0].Networks[0], 0)
	if err == nil || !strings.Contains(err.Error(), "10.201.0.0/16 dev lan") {
		t.Fatalf("the host has a route into the pool: %v", err)
	}
}

// A run killed between making the pair and marking it leaves a link of our
// name without mark; the pinned namespace shows whose it is.
func TestUnmarkedEndOfOurs(t *testing.T) {
	kerneltest.Host(t)
	e, _ := real()
	n := sets()[0].Networks[0]
	must(t, create(t, e, n, 0))
	must(t, netlink.LinkSetAlias(byName(t, "c-llm.0"), ""))
	if err := create(t, e, n, 0); err != nil {
		t.Fatal(err)
	}
}

// The first thread's namespace is what /proc/self and /proc/net show.
func TestFirstThreadStays(t *testing.T) {
	kerneltest.Host(t)
	e, _ := real()
	before, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	for i := range 20 {
		must(t, create(t, e, sets()[0].Networks[0], i))
		_, err := e.Read(context.Background())
		must(t, err)
	}
	if after, err := os.Readlink("/proc/self/ns/net"); err != nil || after != before {
		t.Errorf("the first thread is in %s, not %s: %v", after, before, err)
	}
	// The threads that were thrown away may take a moment to end.
	var strays []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if strays = threadsElsewhere(t, before); len(strays) == 0 {
			return
		}
	}
	t.Errorf("threads stay in other namespaces: %v", strays)
}

func threadsElsewhere(t *testing.T, home string) []string {
	paths, err := filepath.Glob("/proc/self/task/*/ns/net")
	must(t, err)
	return slices.DeleteFunc(paths, func(p string) bool {
		ns, err := os.Readlink(p)
		return err != nil || ns == home
	})
}

func TestExamine(t *testing.T) {
	kerneltest.Host(t)
	const all = "/proc/sys/net/ipv4/conf/all/rp_filter"
	was, err := os.ReadFile(all)
	must(t, err)
	t.Cleanup(func() { must(t, os.WriteFile(all, was, 0o644)) })
	e, _ := real()
	for value, want := range map[string]reconciler.Status{"0": reconciler.OK, "1": reconciler.OK, "2": reconciler.Warn} {
		must(t, os.WriteFile(all, []byte(value), 0o644))
		found := e.Examine(context.Background())
		if found[0].Status != reconciler.OK || found[1].Status != want {
			t.Errorf("all.rp_filter %s: %+v", value, found)
		}
	}
}

// A process that lives in a namespace keeps it, and the pair with it, unless
// the link is deleted.
func TestRemoveWhileInUse(t *testing.T) {
	kerneltest.Host(t)
	e, k := real()
	n := sets()[0].Networks[0]
	for name, before := range map[string]func(path string){
		"as made":         func(string) {},
		"without its pin": func(path string) { must(t, unpin(path)) },
		"not marked yet":  func(string) { must(t, netlink.LinkSetAlias(byName(t, "c-llm.0"), "")) },
		"under another name": func(string) {
			must(t, netlink.LinkSetDown(byName(t, "c-llm.0")))
			must(t, netlink.LinkSetName(byName(t, "c-llm.0"), "other"))
		},
	} {
		must(t, create(t, e, n, 0))
		path := k.dir.Netns(n.Name, 0)
		ns, err := os.Open(path)
		must(t, err)
		defer ns.Close()
		before(path)
		must(t, e.Apply(context.Background(), reconciler.Change{Before: desired(n, 0)}))
		for _, end := range []string{"c-llm.0", "other"} {
			if l, err := find(end); l != nil || err != nil {
				t.Errorf("%s: the host end is left: %v %v", name, l, err)
			}
		}
		left, err := e.Read(context.Background())
		must(t, err)
		if len(left) > 0 {
			t.Errorf("%s: left: %v", name, left)
		}
	}
	leavesNothing(t)
}

// A pin over which another namespace is mounted is only taken away: nothing in
// that is changed.
func TestPinOfAnothersNamespace(t *testing.T) {
	kerneltest.Host(t)
	ctx := context.Background()
	e, k := real()
	n := sets()[0].Networks[0]
	host := k.dir.Netns(n.Name, 0)
	eth0 := veth(inner)
	must(t, netlink.LinkAdd(eth0))
	t.Cleanup(func() { _ = netlink.LinkDel(eth0) })
	must(t, netlink.AddrAdd(byName(t, inner), parse(t, "198.51.100.1/24")))
	must(t, netlink.LinkSetUp(byName(t, inner)))
	lo, own := byName(t, "lo"), parse(t, "198.51.100.9/32")
	must(t, netlink.AddrAdd(lo, own))
	t.Cleanup(func() { _ = netlink.AddrDel(lo, own) })
	state := func() string {
		addrs, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		must(t, err)
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{LinkIndex: byName(t, inner).Attrs().Index}, netlink.RT_FILTER_OIF)
		must(t, err)
		addrs = slices.DeleteFunc(addrs, func(a netlink.Addr) bool { return strings.HasPrefix(a.Label, "c-") })
		return fmt.Sprint(byName(t, inner).Attrs().Index, addrs, routes)
	}
	before := state()
	other := func() error { // with nothing of a slot's
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(lo, own), unix.Mount("/proc/thread-self/ns/net", host, "", unix.MS_BIND, ""))
	}
	for name, c := range map[string]struct {
		do   func()
		want string
	}{
		"the host's": {func() { must(t, unix.Mount("/proc/self/ns/net", host, "", unix.MS_BIND, "")) }, "the host's network namespace"},
		"the host's, the link gone": {func() {
			must(t, netlink.LinkDel(byName(t, "c-llm.0")))
			must(t, unix.Mount("/proc/self/ns/net", host, "", unix.MS_BIND, ""))
		}, "the host's network namespace"},
		"another slot's": {func() { must(t, unix.Mount(k.dir.Netns(n.Name, 1), host, "", unix.MS_BIND, "")) }, "another namespace"},
		"another slot's, the links gone": {func() {
			must(t, unix.Mount(k.dir.Netns(n.Name, 1), host, "", unix.MS_BIND, ""))
			must(t, netlink.LinkDel(byName(t, "c-llm.0")))
			must(t, netlink.LinkDel(byName(t, "c-llm.1")))
		}, "no eth0"},
		"some other": {func() { must(t, alone(other)) }, "another namespace"},
	} {
		for _, remove := range []bool{false, true} {
			must(t, create(t, e, n, 0))
			must(t, create(t, e, n, 1))
			c.do()
			victim, err := os.Open(host)
			must(t, err)
			read, err := e.ReadPart(ctx, []reconciler.Addr{Addr(n.Name, 0)})
			must(t, err)
			if d := strings.Join(read[0].(Slot).Drift, "; "); !strings.Contains(d, c.want) {
				t.Errorf("%s: drift %q", name, d)
			}
			pinned := inNamespace(t, victim)
			change := reconciler.Change{Before: read[0], After: desired(n, 0)}
			if remove {
				change.After = nil
			}
			must(t, e.Apply(ctx, change))
			if after := inNamespace(t, victim); after != pinned && !strings.HasPrefix(name, "the host's") {
				t.Errorf("%s, remove %t: was\n%s, is\n%s", name, remove, pinned, after)
			}
			_ = victim.Close()
			if after := state(); after != before {
				t.Fatalf("%s, remove %t: the host was\n%s, is\n%s", name, remove, before, after)
			}
			left, err := e.ReadPart(ctx, []reconciler.Addr{Addr(n.Name, 0)})
			must(t, err)
			if remove != (len(left) == 0) || !remove && left[0].(Slot).Drift != nil {
				t.Errorf("%s, remove %t: %+v", name, remove, left)
			}
			must(t, e.Apply(ctx, reconciler.Change{Before: desired(n, 0)}))
			must(t, e.Apply(ctx, reconciler.Change{Before: desired(n, 1)}))
		}
	}
	leavesNothing(t)
}

// inNamespace shows the addresses in a namespace.
func inNamespace(t *testing.T, ns *os.File) (out string) {
	t.Helper()
	must(t, alone(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		addrs, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		out = fmt.Sprint(addrs)
		return err
	}))
	return out
}

// What the kernel learns while a session talks is no drift.
func TestTalkIsNoDrift(t *testing.T) {
	kerneltest.Host(t)
	e, _ := real()
	must(t, create(t, e, sets()[0].Networks[0], 0))
	within(t, "llm.0", func(h *netlink.Handle) error {
		for _, to := range []string{"127.0.0.1", "10.201.0.0", "10.201.0.1", "10.201.0.2", "10.201.0.3", "255.255.255.255%eth0", "224.0.0.251"} {
			addr, device, _ := strings.Cut(to, "%")
			d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
				err = errors.Join(c.Control(func(fd uintptr) {
					if device != "" || addr == "224.0.0.251" {
						err = unix.BindToDevice(int(fd), inner)
					}
				}), err)
				return err
			}}
			c, err := d.Dial("udp4", addr+":9")
			if err != nil {
				return err
			}
			_, err = c.Write([]byte("x"))
			must(t, errors.Join(c.Close(), err))
		}
		known, err := h.NeighList(0, netlink.FAMILY_V4)
		noarp := slices.DeleteFunc(known, func(n netlink.Neigh) bool { return n.State != netlink.NUD_NOARP })
		if len(noarp) < 3 {
			t.Errorf("the kernel knows %v without ARP", noarp)
		}
		return err
	})
	read, err := e.ReadPart(context.Background(), []reconciler.Addr{Addr("llm", 0)})
	must(t, err)
	if d := read[0].(Slot).Drift; d != nil {
		t.Errorf("drift: %q", d)
	}
}

// A record has no type: a plan of records is shown, never applied.
func TestApplyRefusesRecords(t *testing.T) {
	f := newFake()
	e := &Enforcer{kernel: f}
	for _, r := range []Slot{desired(sets()[0].Networks[0], 0)} {
		rec, err := reconciler.Record(r)
		must(t, err)
		for _, c := range []reconciler.Change{{After: rec}, {Before: rec}} {
			if err := e.Apply(context.Background(), c); err == nil || !strings.Contains(err.Error(), "Recorded") {
				t.Errorf("%s %s: %v", c.Action(), c.Addr(), err)
			}
		}
	}
	if len(f.ends)+len(f.spaces) > 0 {
		t.Errorf("made: %v %v", f.ends, f.spaces)
	}
}
