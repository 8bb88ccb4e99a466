package network

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Name is the first part of this package's addresses.
const Name = "network"

// Options is what an [Enforcer] works with.
type Options struct {
	Dir    rundir.Dir
	NoIPv6 bool // the kernel has no IPv6 at all, see [IPv6Absent]
}

// Enforcer makes the host's firewall match the specs.
type Enforcer struct {
	kernel   kernel
	families []string
	links    func() ([]string, error) // names of the host's interfaces
	// wake makes the rules of a table be asked again, should it be dormant.
	wake func(family, table string) error
}

// New returns an Enforcer on this host.
func New(o Options) *Enforcer {
	return &Enforcer{kernel: linux{dir: o.Dir}, families: families(o.NoIPv6), links: linkNames, wake: wakeTable}
}

func families(noIPv6 bool) []string {
	if noIPv6 {
		return []string{v4}
	}
	return []string{v4, v6}
}

// Address families, as they stand in addresses.
const (
	v4 = "ipv4"
	v6 = "ipv6"
)

// The targets of rules that refuse: unreachable, so that clients fail at once.
const (
	reject4 = "-j REJECT --reject-with icmp-net-unreachable"
	reject6 = "-j REJECT --reject-with icmp6-no-route"
)

// The chains that the built-in ones jump to.
const (
	chainInput       = specs.ChainPrefix + "INPUT"
	chainForward     = specs.ChainPrefix + "FORWARD"
	chainPostrouting = specs.ChainPrefix + "POSTROUTING"
)

// Desired implements [reconciler.Enforcer].
func (e *Enforcer) Desired(set specs.Set) ([]reconciler.Resource, error) {
	if len(set.Networks) == 0 {
		return nil, nil
	}
	out := ipv4(set)
	if slices.Contains(e.families, v6) {
		out = append(out, ipv6(set.Networks)...)
	}
	for _, n := range set.Networks {
		out = append(out, Set{Network: n.Name, Type: setType, Family: setFamily})
		for _, i := range set.LeasedSlots(n) {
			_, session := n.SlotAddrs(i)
			out = append(out, Member{Network: n.Name, Slot: i, Address: session.Addr(), Interface: n.Interface(i)})
		}
	}
	return out, nil
}

// ipv4 are the chains and hooks of IPv4, and forwarding.
func ipv4(set specs.Set) []reconciler.Resource {
	input := Chain{Family: v4, Table: "filter", Name: chainInput, Rules: []string{}}
	forward := Chain{Family: v4, Table: "filter", Name: chainForward, Rules: []string{}}
	nat := Chain{Family: v4, Table: "nat", Name: chainPostrouting, Rules: []string{}}
	var out []reconciler.Resource
	// What goes to slots is looked at before what comes from them, so that one
	// network's egress is never another's way in.
	for _, n := range set.Networks {
		to := "-o " + n.InterfacePrefix() + "+ "
		if n.Egress == specs.EgressInternet {
			forward.Rules = append(forward.Rules,
				to+"-m set --match-set "+n.MembersSet()+" dst,dst -m conntrack --ctstate RELATED,ESTABLISHED --ctdir REPLY -j ACCEPT")
		}
		forward.Rules = append(forward.Rules, to+reject4)
	}
	for _, n := range set.Networks {
		from := "-i " + n.InterfacePrefix() + "+ "
		input.Rules = append(input.Rules, from+"-j "+n.Chain("IN"))
		out = append(out, Chain{Family: v4, Table: "filter", Name: n.Chain("IN"), Rules: inputRules(n, set.Proxies)})
		if n.Egress != specs.EgressInternet {
			forward.Rules = append(forward.Rules, from+reject4)
			continue
		}
		forward.Rules = append(forward.Rules, from+"-j "+n.Chain("FWD"))
		nat.Rules = append(nat.Rules, "-s "+n.Pool.Masked().String()+" -j "+n.Chain("NAT"))
		out = append(out,
			Chain{Family: v4, Table: "filter", Name: n.Chain("FWD"), Rules: forwardRules(n, set.Networks)},
			Chain{Family: v4, Table: "nat", Name: n.Chain("NAT"), Rules: []string{"! -o " + n.InterfacePrefix() + "+ -j MASQUERADE"}})
	}
	out = append(out, input, forward, newHook(v4, "filter", "INPUT"), newHook(v4, "filter", "FORWARD"))
	if len(nat.Rules) > 0 {
		out = append(out, nat, newHook(v4, "nat", "POSTROUTING"), Forwarding{Value: "1"})
	}
	return out
}

// inputRules accept what a member may send to the host. The address must be
// that of the interface: another slot's host end, and every other address of
// the host, is as unreachable as the rest.
func inputRules(n specs.Network, proxies []specs.Proxy) []string {
	var ports []int
	for _, name := range n.Allow {
		if p := specs.Find(proxies, name); p != nil {
			ports = append(ports, p.Port)
		}
	}
	slices.Sort(ports)
	rules := []string{}
	for _, port := range slices.Compact(ports) {
		rules = append(rules, "-p tcp -m set --match-set "+n.MembersSet()+
			" src,src -m addrtype --dst-type LOCAL --limit-iface-in -m tcp --dport "+strconv.Itoa(port)+" -j ACCEPT")
	}
	return append(rules, reject4)
}

// forwardRules let members out, but not to closed destinations.
func forwardRules(n specs.Network, all []specs.Network) []string {
	rules := []string{"-m set ! --match-set " + n.MembersSet() + " src,src " + reject4}
	for _, p := range closed(n, all) {
		if p.Bits() == 0 { // iptables reads it back as no condition at all
			return []string{reject4}
		}
		rules = append(rules, "-d "+p.String()+" "+reject4)
	}
	return append(rules, "-j ACCEPT")
}

// special are the destinations that are not the internet: the blocks of
// RFC 6890 that are not globally reachable, multicast (RFC 5771) and what is
// reserved (RFC 1112) with the limited broadcast. The blocks for
// documentation are left out: nothing is there.
func special() []string {
	return []string{
		"0.0.0.0/8",      // this host on this network
		"10.0.0.0/8",     // private, RFC 1918
		"100.64.0.0/10",  // shared by carriers, RFC 6598
		"127.0.0.0/8",    // loopback
		"169.254.0.0/16", // link-local; clouds serve credentials there
		"172.16.0.0/12",  // private, RFC 1918
		"192.0.0.0/24",   // IETF protocol assignments
		"192.168.0.0/16", // private, RFC 1918
		"198.18.0.0/15",  // benchmarking, RFC 2544
		"224.0.0.0/4",    // multicast
		"240.0.0.0/4",    // reserved, broadcast
	}
}

// closed are the destinations that n's sessions may not reach, sorted, none
// within another.
func closed(n specs.Network, all []specs.Network) []netip.Prefix {
	var list []netip.Prefix
	for _, s := range special() {
		list = append(list, netip.MustParsePrefix(s))
	}
	for _, other := range all {
		list = append(list, other.Pool.Masked())
	}
	for _, p := range n.Deny {
		if p.Addr().Is4() { // IPv6 is closed as a whole
			list = append(list, p.Masked())
		}
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	// What is within another comes after it.
	var out []netip.Prefix
	for _, p := range list {
		if k := len(out); k == 0 || !out[k-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// ipv6 closes IPv6.
func ipv6(networks []specs.Network) []reconciler.Resource {
	input := Chain{Family: v6, Table: "filter", Name: chainInput, Rules: []string{}}
	forward := Chain{Family: v6, Table: "filter", Name: chainForward, Rules: []string{}}
	for _, n := range networks {
		input.Rules = append(input.Rules, "-i "+n.InterfacePrefix()+"+ "+reject6)
		forward.Rules = append(forward.Rules, "-i "+n.InterfacePrefix()+"+ "+reject6, "-o "+n.InterfacePrefix()+"+ "+reject6)
	}
	return []reconciler.Resource{input, forward, newHook(v6, "filter", "INPUT"), newHook(v6, "filter", "FORWARD")}
}

func newHook(family, table, builtin string) Hook {
	h := Hook{Family: family, Table: table, Chain: builtin, Position: 1}
	h.Rule = `-m comment --comment "` + owner.Mark(string(h.Addr())) + `" -j ` + specs.ChainPrefix + builtin
	return h
}

// target is the chain or target that a rule goes to; "" when it has none.
func target(rule string) string {
	f := strings.Fields(rule)
	for i := len(f) - 2; i >= 0; i-- {
		if f[i] == "-j" || f[i] == "-g" {
			return f[i+1]
		}
	}
	return ""
}

// Locate implements [reconciler.Locator]: the network that the chain, set or
// member is of. What all networks share has no place.
func (e *Enforcer) Locate(set specs.Set, addr reconciler.Addr) specs.Range {
	parts := append(addr.Parts(), "", "")
	name := parts[2]
	if parts[1] == "chain" {
		_, name, _ = strings.Cut(strings.TrimPrefix(parts[len(parts)-3], specs.ChainPrefix), "-")
	}
	if n := specs.Find(set.Networks, name); n != nil {
		return n.Range
	}
	return specs.Range{}
}
