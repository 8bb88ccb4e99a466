// Package slot makes slots: network namespaces, each joined to the host by
// one veth pair, that sessions are started in.
//
// # Mechanism
//
// A slot is a network namespace pinned by a bind mount in the run directory
// ([rundir.Dir.Netns]), and a veth pair: eth0 inside, [specs.Network.Interface]
// on the host, with the two usable addresses of one /30. Everything is set
// before the host end comes up. IPv6 is off on both ends: with IPv4 closed,
// link-local addresses still reach listeners on ::. There is no default route
// inside, unless the network's egress is the internet.
//
// The host end takes packets of its own /30 only (strict reverse path
// filtering), answers ARP for its own address only, and neither accepts nor
// sends redirects. Who may talk to what is the firewall's matter (package
// network), which must stand before a slot does.
//
// Whatever takes packets from the host end before the firewall has them is
// drift: a bridge, bond or VRF that it is a port of, links on top of it
// (macvlan, vlan), a qdisc at its way in, XDP; a new pair is without. Not seen
// are links on top that were moved into other namespaces, and programs of BPF
// attached by tcx.
//
// Inside is compared: links (a tunnel's name is believed only of a tunnel that
// is down), whether lo is up, whether IPv6 is on or a link forwards, the addresses
// of eth0, the routes of all tables with all that they are given, rules of routing,
// neighbours set by hand, and tables of the legacy iptables. What does not go with
// eth0 or can't be taken out one by one needs a new namespace. Not seen are rules
// of nf_tables, qdiscs, most sysctls, next hops that no route uses, and how long an
// address is to last. None is a way out: a session has no capability over its
// namespace, so none of it is of its making, and whatever it sends comes out at
// the host end, where the host's rules decide.
//
// # Mark
//
// The host end's ifalias is the slot's address as [owner.Mark] writes it; the
// pin is in cordon's own directory. A link of a slot's name without mark
// belongs to someone else, unless its other end is in the pinned namespace
// (what a run that was killed leaves): it is never touched, and the slot is
// then refused.
//
// A pinned namespace that is the host's own, is pinned for another slot too, or
// does not hold the other end of the slot's link is another's, mounted over the
// pin: it is drift, and only the pin goes, nothing in the namespace.
//
// # Cost
//
// Reading takes one dump of links, of addresses and of qdiscs for all slots, and
// for each a socket that is asked five times and a file of /proc; making a
// slot takes no dump of the host, so the thousandth costs what the first did.
// Repairing or removing one looks at every pin, for another of its namespace.
//
// Needs CAP_NET_ADMIN and CAP_SYS_ADMIN on the host.
package slot
