// Package network is the firewall of slots: chains, the jumps into them, and
// the sets of who is a running session.
//
// # Mechanism
//
// Each network has a constant few rules, whatever the number of its sessions.
// A session is one element (address, host interface) of the network's ipset,
// a hash:net,iface whose elements are /32. The rules, by way of packets:
//
//   - From a slot to the host (CORDON-INPUT, then CORDON-IN-NETWORK): TCP from
//     a member to the address of the very interface it came in by, on the port
//     of an allowed proxy. Nothing is accepted for being ESTABLISHED: each
//     packet must fit, so a session that is no member any more is cut off in
//     the middle of its connections.
//   - From a slot elsewhere (CORDON-FORWARD): nothing. With egress "internet",
//     from a member to what is neither private, nor special, nor a pool, nor
//     denied (CORDON-FWD-NETWORK), with the host's address (CORDON-NAT-NETWORK).
//   - From elsewhere to a slot: replies to a member, by connection tracking's
//     direction; nothing else.
//   - IPv6, in and through: nothing.
//
// What is refused is rejected as unreachable, so clients fail at once. (The
// kernel bounds the rate of such answers to each address, icmp_ratelimit; a
// client that asks for many closed addresses waits a second for some.) OUTPUT
// is left alone: what the host itself sends to a slot is the host's business,
// and the answers don't get in unless they go to a proxy's port.
//
// A chain changes in one iptables-restore, a jump moves in one: there is no
// moment without the rules. The jumps stand at position 1 of the built-in
// chains, so that no rule before them accepts more.
//
// # Mark
//
// Chains are cordon's by the prefix CORDON-, sets by cordon-, and a rule of a
// built-in chain by its jump into one of those chains. Forwarding that cordon
// switched on is remembered in the run directory ([rundir.Dir.Forwarding]).
//
// # Backends
//
// The programs called are iptables-save and iptables-restore as PATH has them,
// of the nf_tables or the legacy kind. They are called such that neither makes
// a table of the other kind; a plain save makes none at all.
//
// Tables of nf_tables can be dormant, with all rules there and none asked: that
// is drift of the table's hooks, and who puts a hook wakes the table. A built-in
// chain that hangs on no hook, or another one, is an error: to make it anew
// would take others' rules away. What decides before these tables is not looked
// at: chains of the family netdev and flowtables that others make for slots'
// interfaces, by nft alone.
//
// Needs CAP_NET_ADMIN on the host, and the ipset type hash:net,iface.
package network
