package watch

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

func TestLinks(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "ip", "tc", "sysctl")
	sh(t, `
mkdir -p /run/netns
ip netns add slot0
ip netns exec slot0 ip link set lo up
ip -n slot0 link add eth0 type veth peer name c-n.0 netns $$
ip -n slot0 addr add 10.200.0.2/30 dev eth0
ip -n slot0 link set eth0 up
ip link set c-n.0 alias cordon:slot.n.0
ip addr add 10.200.0.1/30 dev c-n.0
ip link set c-n.0 up
ip link add other type veth peer name rehto
`)
	w := watching(t, Links{}, 2*rest)
	w.steps([]step{
		{"a route inside", slot, doing(t, `ip -n slot0 route add default via 10.200.0.1`)},
		{"an address inside", slot, doing(t, `ip -n slot0 addr add 10.9.9.9/32 dev eth0`)},
		{"an IPv6 address inside", slot, doing(t, `ip -n slot0 addr add fd00::2/64 dev eth0`)},
		{"a link inside", slot, doing(t, `ip -n slot0 link add more type veth peer name erom`)},
		{"a rule of routing inside", slot, doing(t, `ip -n slot0 rule add from 1.2.3.4 table 7`)},
		{"a neighbour inside", slot, doing(t, `ip -n slot0 neigh add 10.200.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent`)},
		{"forwarding inside", slot, doing(t, `ip netns exec slot0 sysctl -qw net.ipv4.ip_forward=1`)},
		{"the host's end has another address", slot, doing(t, `ip addr replace 10.200.0.9/30 dev c-n.0`)},
		{"a setting of the host's end", slot, doing(t, `sysctl -qw net/ipv4/conf/c-n.0/rp_filter=2`)},
		{"forwarding", network, doing(t, `sysctl -qw net.ipv4.ip_forward=1`)},
		{"a qdisc at the way in", slot, doing(t, `tc qdisc add dev c-n.0 ingress`)},
		{"a link on top", slot, doing(t, `ip link add top link c-n.0 type macvlan`)},
		{"down", slot, doing(t, `ip link set c-n.0 down`)},
		{"renamed", slot, doing(t, `ip link set c-n.0 name hidden`)},
		{"deleted", slot, doing(t, `ip link del hidden`)},
		{"others' link", "", doing(t, `ip link set other up; ip addr add 10.77.0.1/24 dev other; ip route add 10.78.0.0/24 dev other`)},
		{"others' pair", "", doing(t, `ip link add v0 type veth peer name v1 && ip link del v0`)},
		{"nothing", "", func() {}},
	})
}

func TestLinksOverrun(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "ip")
	w := watching(t, Links{room: 4096}, 2*rest)
	// More than there is room for, within one rest.
	sh(t, `ip link add many type veth peer name ynam
for i in {1..250}; do echo "addr add 10.100.0.$i/32 dev many"; done | ip -batch -`)
	w.all() // no address alone wakes the network
	w.quiet()
	sh(t, `ip link add c-n.1 type veth peer name c-n.2`)
	w.wakes(slot)
}

func TestFirewall(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "iptables", "ip6tables", "nft")
	sh(t, `iptables -N CORDON-INPUT; iptables -A CORDON-INPUT -j REJECT; iptables -I INPUT -j CORDON-INPUT; ip6tables -N CORDON-INPUT; ip6tables -A CORDON-INPUT -j REJECT`)
	w := watching(t, Firewall{}, 2*rest)
	w.steps([]step{
		{"reading", "", doing(t, `iptables-save; ip6tables-save; iptables -L; nft list ruleset`)},
		{"a rule deleted", network, doing(t, `iptables -D CORDON-INPUT -j REJECT`)},
		{"flushed", network, doing(t, `iptables -F`)},
		{"of IPv6", network, doing(t, `ip6tables -F`)},
		{"a dormant table", network, doing(t, `nft add table ip filter '{ flags dormant; }'`)},
		{"all of it", network, doing(t, `nft flush ruleset`)},
		{"nothing", "", func() {}},
	})
}

func TestSets(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "ipset")
	sh(t, `ipset create cordon-n hash:net,iface; ipset add cordon-n 10.0.0.2,c-n.0; ipset create others hash:ip`)
	w := watching(t, Sets{}, setsEvery+2*rest)
	w.steps([]step{
		{"emptied", network, doing(t, `ipset flush cordon-n`)},
		{"added", network, doing(t, `ipset add cordon-n 10.0.0.2,c-n.0`)},
		{"another of the same number", network, doing(t, `ipset del cordon-n 10.0.0.2,c-n.0; ipset add cordon-n 10.0.0.6,c-n.1`)},
		{"of another type", network, doing(t, `ipset destroy cordon-n; ipset create cordon-n hash:ip`)},
		{"destroyed", network, doing(t, `ipset destroy cordon-n`)},
		{"others'", "", doing(t, `ipset add others 10.0.0.1`)},
	})
}

// Where rules are not those of nf_tables, nobody is told that they are watched.
func TestFirewallOfTheLegacyKind(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/xtables-legacy-multi", nil, 0o755), os.Symlink("xtables-legacy-multi", dir+"/iptables-save")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	err := Firewall{}.Run(t.Context(), func(...string) { t.Error("it watches") })
	if !errors.Is(err, errLegacy) || !strings.HasPrefix(err.Error(), "firewall: ") {
		t.Error(err)
	}
}
