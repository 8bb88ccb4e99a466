package network

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// What the sets of members are.
const (
	setType   = "hash:net,iface"
	setFamily = "inet"
)

// Chain is a chain of ours.
type Chain struct {
	Family string   `json:"family"` // "ipv4" or "ipv6"
	Table  string   `json:"table"`
	Name   string   `json:"name"`
	Rules  []string `json:"rules"` // as iptables-save writes them, without -A NAME
}

// Addr implements [reconciler.Resource].
func (c Chain) Addr() reconciler.Addr {
	return reconciler.NewAddr(Name, "chain", c.Family, c.Table, c.Name)
}

// Needs implements [reconciler.Resource]: the chains that it jumps to and the
// sets that it asks.
func (c Chain) Needs() []reconciler.Addr {
	var needs []reconciler.Addr
	for _, r := range c.Rules {
		if to := target(r); strings.HasPrefix(to, specs.ChainPrefix) {
			needs = append(needs, Chain{Family: c.Family, Table: c.Table, Name: to}.Addr())
		}
		for _, s := range setsOf(r) {
			needs = append(needs, Set{Network: s}.Addr())
		}
	}
	return needs
}

// setsOf are the networks whose sets a rule asks.
func setsOf(rule string) []string {
	var networks []string
	f := strings.Fields(rule)
	for i := range len(f) - 1 {
		if f[i] != "--match-set" {
			continue
		}
		if n, ours := strings.CutPrefix(f[i+1], specs.SetPrefix); ours {
			networks = append(networks, n)
		}
	}
	return networks
}

// Hook is the jump from a built-in chain into ours.
type Hook struct {
	Family   string   `json:"family"`
	Table    string   `json:"table"`
	Chain    string   `json:"chain"` // the built-in one
	Rule     string   `json:"rule"`
	Position int      `json:"position"` // counts from 1
	Drift    []string `json:"drift,omitempty"`
}

// Addr implements [reconciler.Resource].
func (h Hook) Addr() reconciler.Addr {
	return reconciler.NewAddr(Name, "hook", h.Family, h.Table, h.Chain)
}

// Needs implements [reconciler.Resource].
func (h Hook) Needs() []reconciler.Addr {
	return []reconciler.Addr{Chain{Family: h.Family, Table: h.Table, Name: target(h.Rule)}.Addr()}
}

// Set is a network's ipset of members.
type Set struct {
	Network string   `json:"network"`
	Type    string   `json:"type"`
	Family  string   `json:"family"`
	Drift   []string `json:"drift,omitempty"` // elements that are no slot's, options
}

// Addr implements [reconciler.Resource].
func (s Set) Addr() reconciler.Addr { return reconciler.NewAddr(Name, "set", s.Network) }

// Needs implements [reconciler.Resource].
func (s Set) Needs() []reconciler.Addr { return nil }

func (s Set) name() string { return specs.Network{Name: s.Network}.MembersSet() }

// Member is a running session's right to the network: an element of its set.
type Member struct {
	Network   string     `json:"network"`
	Slot      int        `json:"slot"`
	Address   netip.Addr `json:"address"`
	Interface string     `json:"interface"`
}

// Addr implements [reconciler.Resource].
func (m Member) Addr() reconciler.Addr {
	return reconciler.NewAddr(Name, "member", m.Network, strconv.Itoa(m.Slot))
}

// Needs implements [reconciler.Resource]: its slot, and the rules.
func (m Member) Needs() []reconciler.Addr {
	return []reconciler.Addr{
		Set{Network: m.Network}.Addr(),
		reconciler.NewAddr("slot", m.Network, strconv.Itoa(m.Slot)),
		Hook{Family: v4, Table: "filter", Chain: "INPUT"}.Addr(),
		Hook{Family: v4, Table: "filter", Chain: "FORWARD"}.Addr(),
		Hook{Family: v6, Table: "filter", Chain: "INPUT"}.Addr(),
		Hook{Family: v6, Table: "filter", Chain: "FORWARD"}.Addr(),
	}
}

// Ephemeral implements [reconciler.Ephemeral].
func (m Member) Ephemeral() bool { return true }

func (m Member) element() Element {
	return Element{Prefix: netip.PrefixFrom(m.Address, m.Address.BitLen()), Interface: m.Interface}
}

// Forwarding is IPv4 forwarding between the host's interfaces, which egress to
// the internet needs. What it was before is remembered and comes back.
type Forwarding struct {
	Value string `json:"value"` // of net.ipv4.ip_forward
}

// Addr implements [reconciler.Resource].
func (f Forwarding) Addr() reconciler.Addr { return reconciler.NewAddr(Name, "forwarding") }

// Needs implements [reconciler.Resource]: nothing is forwarded to or from a
// slot before the rules stand.
func (f Forwarding) Needs() []reconciler.Addr {
	return []reconciler.Addr{
		Hook{Family: v4, Table: "filter", Chain: "FORWARD"}.Addr(),
		Hook{Family: v4, Table: "nat", Chain: "POSTROUTING"}.Addr(),
	}
}
