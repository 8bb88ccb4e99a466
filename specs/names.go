package specs

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// Limits of the systems that names end up in, in bytes.
const (
	MaxInterface = 15 // IFNAMSIZ less the NUL, linux/if.h
	MaxChain     = 28 // XT_EXTENSION_MAXNAMELEN less the NUL, xtables
	MaxSet       = 31 // IPSET_MAXNAMELEN less the NUL, linux/netfilter/ipset/ip_set.h
	MaxRole      = 63 // NAMEDATALEN - 1, PostgreSQL
)

// MaxSlots is how many slots a network has at most: the slot's number has
// four digits in the name of its interface.
const MaxSlots = 10_000

// What the names of kernel objects that are cordon's begin with, in namespaces
// that it has for itself.
const (
	ChainPrefix = "CORDON-" // of iptables chains
	SetPrefix   = "cordon-" // of ipsets
	linkPrefix  = "c-"      // of host ends
)

// BaseFilter is the name of the system call filter that is the base as it is.
// A block can't have it: no block's name has a dot.
const BaseFilter = "container.base"

// ValidSessionID tells whether id has the form that sessions' ids have: 8
// lower-case hexadecimal digits.
func ValidSessionID(id string) bool {
	return len(id) == 8 && strings.Trim(id, "0123456789abcdef") == ""
}

// InterfacePrefix is what the names of all host ends of the network's slots
// begin with. The dot can't occur in a block's name, so no prefix is the
// prefix of another network's.
func (n Network) InterfacePrefix() string { return linkPrefix + n.Name + "." }

// Interface is the name of the host end of a slot's veth pair.
func (n Network) Interface(slot int) string { return n.InterfacePrefix() + strconv.Itoa(slot) }

// ParseInterface is the inverse of [Network.Interface]. It knows no network's
// pool, so the slot may lie outside of it.
func ParseInterface(name string) (network string, slot int, ok bool) {
	rest, ok := strings.CutPrefix(name, linkPrefix)
	if !ok {
		return "", 0, false
	}
	return ParseSlot(rest)
}

// SlotName is the name of a slot among those of all networks.
func SlotName(network string, slot int) string { return network + "." + strconv.Itoa(slot) }

// ParseSlot is the inverse of [SlotName].
func ParseSlot(name string) (network string, slot int, ok bool) {
	network, digits, ok := strings.Cut(name, ".")
	slot, err := strconv.Atoi(digits)
	if !ok || err != nil || slot < 0 || network == "" || SlotName(network, slot) != name {
		return "", 0, false
	}
	return network, slot, true
}

// Chain is the name of the network's chain for traffic that comes from its
// slots by way of the hook: "IN", "FWD" or "NAT".
func (n Network) Chain(hook string) string { return ChainPrefix + hook + "-" + n.Name }

// MembersSet is the name of the ipset that holds (address, interface) of the
// network's running sessions.
func (n Network) MembersSet() string { return SetPrefix + n.Name }

// Slots is how many slots the network has.
func (n Network) Slots() int {
	bits := 30 - n.Pool.Bits()
	if !n.Pool.IsValid() || bits < 0 {
		return 0
	}
	if bits > 13 { // 1<<14 > MaxSlots
		return MaxSlots
	}
	return 1 << bits
}

// SlotAddrs are the two usable addresses of a slot's /30: the host's end and
// the session's end.
func (n Network) SlotAddrs(slot int) (host, session netip.Prefix) {
	base := n.Pool.Masked().Addr().As4()
	v := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	v += uint32(slot) * 4
	at := func(v uint32) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), 30)
	}
	return at(v + 1), at(v + 2)
}

// SlotOf returns the slot that an address of the pool belongs to, its host's
// end or its session's.
func (n Network) SlotOf(addr netip.Addr) (slot int, ok bool) {
	addr = addr.Unmap()
	if !addr.Is4() || !n.Pool.Contains(addr) {
		return 0, false
	}
	at, base := addr.As4(), n.Pool.Masked().Addr().As4()
	slot = int(binary.BigEndian.Uint32(at[:])-binary.BigEndian.Uint32(base[:])) / 4
	return slot, slot < n.Slots()
}

// The four roles of a project's schema.
const (
	RoleAnon    = "anon"    // not logged in
	RoleUser    = "user"    // logged in; "authenticated" in the files
	RoleAdmin   = "admin"   // sees all rows of the schema
	RoleService = "service" // the project's own backend: all rows, bypassing policies
)

// SchemaName is the name of the project's schema.
func (p Project) SchemaName() string { return p.Name }

// Role is the name of one of the project's database roles.
func (p Project) Role(kind string) string { return p.Name + "_" + kind }

// AgentKinds are the clients that sandboxes can be prepared for.
func AgentKinds() []string { return []string{"aider", "claude-code", "codex", "gemini-cli"} }

// NestingCalls are the system calls that an agent needs besides those of the
// base to run what it starts in a sandbox of its own, sorted.
func NestingCalls() []string {
	return []string{"clone", "mount", "pivot_root", "umount2", "unshare"}
}
