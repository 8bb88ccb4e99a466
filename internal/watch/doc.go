// Package watch tells at once that something of the host may have changed, so
// that a daemon need not wait for its interval. A [Watcher] never says what
// changed: whoever is woken reads the host, and what cordon itself did wakes
// as well. Each wakes all its parts when it begins to watch and when it may
// have missed something; after each wake it rests a little, so that a storm of
// changes costs no more than a few looks at them.
//
// # What is heard, and how
//
//   - links, addresses, routes and rules of routing, queueing disciplines,
//     settings of interfaces, neighbours set by hand: rtnetlink(7), of the host
//     and, by one socket with NETLINK_LISTEN_ALL_NSID (netlink(7)), of every
//     namespace that the host has an id for. It has one for each slot, for
//     their links are pairs. Wakes slot; settings wake network too.
//   - rules of nf_tables: the multicast group of nfnetlink. The legacy
//     iptables tells nobody; [Firewall] then is an error.
//   - sets: ipset tells nobody either (nfnetlink has no group for it, up to
//     Linux 6.18). Cordon's own are read twice a second.
//   - mounts below the run directory: poll(2) on mountinfo, see
//     proc_pid_mountinfo(5). Wakes root and slot. Sessions have mount
//     namespaces of their own and are not seen there.
//   - filters, manifests, leases, pins: inotify(7) on the run directory.
//   - cgroups: inotify on their directories in every hierarchy, which shows
//     what is made, removed and written by hand.
//   - the processes that run sessions: their pidfds, see pidfd_open(2).
//   - .git of projects: inotify, without following links, on what its makers
//     may change.
//
// # What is not
//
// Whether a file of the host that is bound into a tree was replaced, whether a
// mount became shared, sysctls that rtnetlink does not show, rules of the
// legacy iptables: what an enforcer reads of these is seen at the interval.
//
// Needs CAP_NET_ADMIN and CAP_NET_BROADCAST, and to be in the namespaces of
// the host.
package watch
