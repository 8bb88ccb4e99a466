package slot

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// leaf is a line of /proc/net/fib_trie that names a route.
type leaf struct {
	table string // "Main", "Local"
	dst   netip.Prefix
	kind  string // "UNICAST", "LOCAL", "BROADCAST", …
}

func parseTrie(text string) (out []leaf) {
	table := ""
	var addr netip.Addr
	for _, line := range strings.Split(text, "\n") {
		if name, ok := strings.CutSuffix(line, ":"); ok && !strings.HasPrefix(line, " ") {
			table = name
			continue
		}
		line = strings.TrimSpace(line)
		if a, ok := strings.CutPrefix(line, "|-- "); ok {
			addr, _ = netip.ParseAddr(a)
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 || f[0][0] != '/' {
			continue
		}
		bits, err := strconv.Atoi(f[0][1:])
		if err != nil {
			continue
		}
		out = append(out, leaf{table, netip.PrefixFrom(addr, bits), f[2]})
	}
	return out
}

// checkTables compares all tables with the routes of the main one. Without
// rules of routing the kernel keeps the main and the local table in one, and
// shows it twice; with the first rule that comes or goes it parts them for
// good.
func (s *Slot) checkTables(trie string, routes []route) {
	left := map[string]int{}
	together := false
	for _, l := range parseTrie(trie) {
		switch {
		case l.kind == "LOCAL" && (l.dst.IsSingleIP() || l.dst == loopback()):
			together = together || l.table == "Main" && l.dst.Addr().IsLoopback()
			continue
		case l.kind == "BROADCAST" && (loopback().Contains(l.dst.Addr()) || s.Session.Masked().Contains(l.dst.Addr())):
			continue
		}
		key := l.table + l.dst.String()
		if _, seen := left[key]; !seen {
			for _, r := range routes {
				if r.dst == l.dst {
					left[key]++
				}
			}
		}
		if left[key]--; left[key] < 0 && l.table != "Main" {
			s.renew("route %s %s in another table inside", strings.ToLower(l.kind), l.dst)
		}
	}
	if !together {
		s.renew("rules of routing, or lo, were changed inside")
	}
}

func loopback() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8) }

// checkRest looks at what a namespace as it was made does not have: neighbours
// set by hand, forwarding, tables of iptables (of the legacy kind).
func (s *Slot) checkRest(in inside) {
	for i, line := range strings.Split(in.files["arp"], "\n") {
		f := strings.Fields(line)
		if i == 0 || len(f) < 3 {
			continue
		}
		const set = 0x04 | 0x08 // ATF_PERM, ATF_PUBL of linux/if_arp.h
		if flags, err := strconv.ParseUint(f[2], 0, 32); err != nil || flags&set != 0 {
			s.drift("neighbour %s set inside", f[0])
		}
	}
	if forwards(in.files["snmp"]) {
		s.drift("forwarding is on inside")
	}
	if names := strings.Fields(in.files["ip_tables_names"]); len(names) > 0 {
		s.renew("iptables has tables inside: %s", strings.Join(names, ", "))
	}
}

// forwards reads /proc/net/snmp, whose second line begins with ipForwarding
// of RFC 4293: 1 is on. The setting is inherited from the first namespace.
func forwards(snmp string) bool {
	_, rest, _ := strings.Cut(snmp, "\n")
	return strings.HasPrefix(rest, "Ip: 1 ")
}

// renew is drift that only another namespace is without.
func (s *Slot) renew(format string, args ...any) {
	s.fresh = true
	s.Drift = append(s.Drift, fmt.Sprintf(format, args...))
}
