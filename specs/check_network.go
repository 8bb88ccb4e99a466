package specs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func (c *checker) proxies(s Set) {
	ports := map[int]string{}
	for _, p := range s.Proxies {
		if other, taken := ports[p.Port]; taken && p.Port != 0 {
			c.add(p.Range, "port", fmt.Sprintf("port %d is taken by proxy %q", p.Port, other), "Each proxy listens on a port of its own.")
		}
		ports[p.Port] = p.Name
		c.inject(s, p.Range, p.Inject)
		for _, u := range p.Upstreams {
			c.inject(s, u.Range, u.Inject)
			missing(c, s.Secrets, u.Range, "credential", "secret", u.Credential)
		}
	}
}

func (c *checker) inject(s Set, at Range, inject map[string]string) {
	seen := map[string]string{}
	for _, header := range slices.Sorted(maps.Keys(inject)) {
		c.header(at, header)
		if other := seen[strings.ToLower(header)]; other != "" {
			c.add(at, "inject", fmt.Sprintf("header %s is injected twice", header), fmt.Sprintf("Case makes no difference in headers: it is %s too.", other))
		}
		seen[strings.ToLower(header)] = header
		missing(c, s.Secrets, at, "inject", "secret", inject[header])
	}
}

// header holds names of headers to the tokens of RFC 9110, 5.6.2.
func (c *checker) header(at Range, name string) {
	const others = "!#$%&'*+-.^_`|~"
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune(others, r) {
			c.add(at, "inject", fmt.Sprintf("%q is not the name of a header", name), `Write it like "x-api-key".`)
			return
		}
	}
}

func (c *checker) networks(s Set) {
	for i, n := range s.Networks {
		for _, proxy := range n.Allow {
			missing(c, s.Proxies, n.Range, "allow", "proxy", proxy)
		}
		if proxy, ok := twice(n.Allow); ok {
			c.addElement(n.Range, "allow", proxy, fmt.Sprintf("network %q allows proxy %q twice", n.Name, proxy), "List it once.")
		}
		c.egress(n)
		if !n.Pool.IsValid() {
			continue
		}
		c.pool(n)
		c.networkName(n)
		for _, other := range s.Networks[:i] {
			if other.Pool.IsValid() && other.Pool.Overlaps(n.Pool) {
				c.overlap(n, other)
			}
		}
	}
}

// overlap reports two pools at the one that stands later in the files.
func (c *checker) overlap(a, b Network) {
	if a.Range.File < b.Range.File || a.Range.File == b.Range.File && a.Range.Byte < b.Range.Byte {
		a, b = b, a
	}
	c.add(a.Range, "pool", fmt.Sprintf("pool %s of network %q overlaps %s of network %q", a.Pool, a.Name, b.Pool, b.Name),
		"Each address belongs to one slot of one network: give one of the two another pool.")
}

func (c *checker) egress(n Network) {
	if n.Egress == EgressInternet && n.Publish {
		c.add(n.Range, "publish", fmt.Sprintf("network %q publishes and has egress", n.Name), `What leads in must not lead out: leave out publish or egress = "internet".`)
	}
	if n.Egress != EgressInternet && len(n.Deny) > 0 {
		c.add(n.Range, "deny", fmt.Sprintf("network %q denies what it does not open", n.Name), `Without egress = "internet" nothing is reachable but what allow lists, so deny means nothing: leave it out.`)
	}
}

// unusable are ranges that no slot can have, with why.
func unusable() map[string]string {
	return map[string]string{
		"0.0.0.0/8":      "addresses of \"this network\"",
		"127.0.0.0/8":    "the host's loopback",
		"169.254.0.0/16": "link-local addresses",
		"224.0.0.0/3":    "multicast and reserved addresses",
	}
}

func (c *checker) pool(n Network) {
	ranges := unusable()
	for _, r := range slices.Sorted(maps.Keys(ranges)) {
		if netip.MustParsePrefix(r).Overlaps(n.Pool) {
			c.add(n.Range, "pool", fmt.Sprintf("pool %s of network %q has %s", n.Pool, n.Name, ranges[r]), "Take a private range, such as 10.202.0.0/16.")
			return
		}
	}
	switch slots := n.Slots(); {
	case slots == 0:
		c.add(n.Range, "pool", fmt.Sprintf("pool %s of network %q is too small", n.Pool, n.Name), "A slot takes a /30: the pool must be a /30 or larger, such as a /16.")
	case n.Warm > slots:
		c.add(n.Range, "warm", fmt.Sprintf("pool %s of network %q is too small for %d warm slots", n.Pool, n.Name, n.Warm), fmt.Sprintf("It has %d slots, each a /30.", slots))
	}
}

// networkName holds the names that follow from a network's to the limits of
// the kernel.
func (c *checker) networkName(n Network) {
	var over []string
	limit := func(what, name string, most int) {
		if len(name) > most {
			over = append(over, fmt.Sprintf("%s %s has %d bytes, of at most %d", what, name, len(name), most))
		}
	}
	highest := max(n.Slots()-1, 0)
	limit("interface", n.Interface(highest), MaxInterface)
	limit("chain", n.Chain("FWD"), MaxChain)
	limit("set", n.MembersSet(), MaxSet)
	if len(over) == 0 {
		return
	}
	room := MaxInterface - len(Network{}.InterfacePrefix()) - len(strconv.Itoa(highest))
	c.add(n.Range, "", fmt.Sprintf("network name %q is too long", n.Name),
		fmt.Sprintf("Kernel objects are named after it: %s. With this pool the name may have %d bytes.", strings.Join(over, "; "), room))
}
