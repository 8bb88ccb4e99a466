package slot

import (
	"net/netip"
	"strconv"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Name is the first part of the addresses of slots.
const Name = "slot"

// Options is what an [Enforcer] works with.
type Options struct {
	Dir rundir.Dir
}

// Enforcer makes the host's slots match the specs.
type Enforcer struct {
	kernel kernel
}

// New returns an Enforcer on this host.
func New(o Options) *Enforcer {
	return &Enforcer{kernel: linux{dir: o.Dir}}
}

// Slot is one slot.
type Slot struct {
	Network string       `json:"network"`
	Number  int          `json:"number"`
	Host    netip.Prefix `json:"host"`    // address of the host end; zero when it has none
	Session netip.Prefix `json:"session"` // address of eth0 inside; zero when it has none
	Egress  string       `json:"egress"`  // [specs.EgressInternet]: there is a default route through the host end
	Drift   []string     `json:"drift,omitempty"`

	fresh   bool // it needs another namespace
	foreign bool // the namespace that is pinned is another's: nothing in it is to be changed

	link string // name of the host end as read; "" when there is none
}

// Addr implements [reconciler.Resource].
func (s Slot) Addr() reconciler.Addr { return Addr(s.Network, s.Number) }

// Addr is the address of a network's slot.
func Addr(network string, number int) reconciler.Addr {
	return reconciler.NewAddr(Name, network, strconv.Itoa(number))
}

// Needs implements [reconciler.Resource]: no namespace is joined to a host
// that is not closed.
func (s Slot) Needs() []reconciler.Addr {
	n := specs.Network{Name: s.Network}
	var needs []reconciler.Addr
	add := func(kind, family, table string, chains ...string) {
		for _, c := range chains {
			needs = append(needs, reconciler.NewAddr("network", kind, family, table, c))
		}
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		add("chain", family, "filter", specs.ChainPrefix+"INPUT", specs.ChainPrefix+"FORWARD")
		add("hook", family, "filter", "INPUT", "FORWARD")
	}
	add("chain", "ipv4", "filter", n.Chain("IN"))
	if s.Egress != specs.EgressInternet {
		return needs
	}
	add("chain", "ipv4", "filter", n.Chain("FWD"))
	add("chain", "ipv4", "nat", specs.ChainPrefix+"POSTROUTING", n.Chain("NAT"))
	add("hook", "ipv4", "nat", "POSTROUTING")
	return append(needs, reconciler.NewAddr("network", "forwarding"))
}

// Ephemeral implements [reconciler.Ephemeral]. Warm slots come and go with the
// sessions that take them, and nothing is lost with a free one.
func (s Slot) Ephemeral() bool { return true }

func (s Slot) host() string { return specs.Network{Name: s.Network}.Interface(s.Number) }
func (s Slot) mark() string { return owner.Mark(string(s.Addr())) }

// Desired implements [reconciler.Enforcer].
func (e *Enforcer) Desired(set specs.Set) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	for _, n := range set.Networks {
		for _, i := range set.DesiredSlots(n) {
			host, session := n.SlotAddrs(i)
			out = append(out, Slot{Network: n.Name, Number: i, Host: host, Session: session, Egress: egress(n.Egress == specs.EgressInternet)})
		}
	}
	return out, nil
}

func egress(internet bool) string {
	if internet {
		return specs.EgressInternet
	}
	return specs.EgressNone
}

// Locate implements [reconciler.Locator]: the network that the slot is of.
func (e *Enforcer) Locate(set specs.Set, addr reconciler.Addr) specs.Range {
	if n := specs.Find(set.Networks, append(addr.Parts(), "")[1]); n != nil {
		return n.Range
	}
	return specs.Range{}
}
