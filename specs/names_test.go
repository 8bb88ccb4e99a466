package specs_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

func network(name, pool string) specs.Network {
	return specs.Network{Name: name, Pool: netip.MustParsePrefix(pool), Egress: specs.EgressNone, Fallback: specs.FallbackRefuse}
}

func TestNames(t *testing.T) {
	n := network("llm-only", "10.202.0.0/16")
	for got, want := range map[string]string{
		n.Interface(9999): "c-llm-only.9999",
		n.Chain("FWD"):    "CORDON-FWD-llm-only",
		n.MembersSet():    "cordon-llm-only",
		specs.Project{Name: "shop"}.Role(specs.RoleService): "shop_service",
		specs.Project{Name: "shop"}.SchemaName():            "shop",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if len(n.Interface(9999)) != specs.MaxInterface {
		t.Error("the longest name that is allowed fills the interface's name")
	}
}

func TestSlots(t *testing.T) {
	for pool, want := range map[string]int{
		"10.0.0.0/30": 1, "10.0.0.0/29": 2, "10.0.0.0/24": 64, "10.0.0.0/17": 8192,
		"10.0.0.0/16": specs.MaxSlots, "10.0.0.0/8": specs.MaxSlots, "10.0.0.0/31": 0, "10.0.0.0/32": 0,
	} {
		if got := network("n", pool).Slots(); got != want {
			t.Errorf("%s has %d slots, want %d", pool, got, want)
		}
	}
	if (specs.Network{}).Slots() != 0 {
		t.Error("no pool has no slots")
	}
}

// All slots lie in the pool and no two share an address.
func TestSlotAddrs(t *testing.T) {
	n := network("n", "10.203.0.0/16")
	seen := map[netip.Addr]bool{}
	for slot := range n.Slots() {
		host, session := n.SlotAddrs(slot)
		if host.Bits() != 30 || session.Bits() != 30 || host.Masked() != session.Masked() {
			t.Fatalf("slot %d: %s and %s are not of one /30", slot, host, session)
		}
		for _, a := range []netip.Addr{host.Addr(), session.Addr()} {
			if !n.Pool.Contains(a) || seen[a] || a == host.Masked().Addr() {
				t.Fatalf("slot %d: %s", slot, a)
			}
			seen[a] = true
		}
	}
	host, session := n.SlotAddrs(7)
	if host.String() != "10.203.0.29/30" || session.String() != "10.203.0.30/30" {
		t.Error(host, session)
	}
}

func TestFind(t *testing.T) {
	list := []specs.Secret{{Name: "a"}, {Name: "b"}, {Name: "d"}}
	for _, name := range []string{"a", "b", "d"} {
		if got := specs.Find(list, name); got == nil || got.Name != name {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, name := range []string{"", "c", "e"} {
		if specs.Find(list, name) != nil {
			t.Errorf("%q is not there", name)
		}
	}
}

func TestNotEnforced(t *testing.T) {
	s := specs.Set{
		Proxies:   []specs.Proxy{{Name: "llm"}},
		Networks:  []specs.Network{{Name: "dev", Publish: true}, {Name: "n"}},
		Sandboxes: []specs.Sandbox{{Name: "a", Agent: &specs.Agent{}}, {Name: "b"}},
		Gateways:  []specs.Gateway{{Name: "data"}},
		Projects:  []specs.Project{{Name: "p", Operators: []string{"user:x"}, Git: &specs.Git{}, DevServer: &specs.DevServer{}, Preview: &specs.Preview{}, Schema: &specs.Schema{}}},
	}
	got := s.NotEnforced()
	for _, want := range []string{"project.p.dev_server", "project.p.preview"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %v", want, got)
		}
	}
	if slices.Contains(got, "network.n.publish") || slices.Contains(got, "proxy.llm") || slices.Contains(got, "sandbox.a.agent") || slices.Contains(got, "project.p.schema") || slices.Contains(got, "project.p.operators") || slices.Contains(got, "project.p.git") {
		t.Error(got)
	}
	if len(specs.Set{}.NotEnforced()) != 0 {
		t.Error("nothing declared, nothing to tell")
	}
}

func TestParseInterface(t *testing.T) {
	for _, n := range []specs.Network{{Name: "a"}, {Name: "llm-only"}, {Name: "1"}} {
		for _, slot := range []int{0, 7, 9999} {
			network, got, ok := specs.ParseInterface(n.Interface(slot))
			if !ok || network != n.Name || got != slot {
				t.Errorf("%s: %s, %d, %v", n.Interface(slot), network, got, ok)
			}
		}
	}
	for _, name := range []string{"", "c-", "c-a", "c-a.", "c-.1", "c-a.-1", "c-a.+1", "c-a.01", "c-a.1.2", "c-a.x", "a.1", "C-a.1", "c-a.99999999999999999999"} {
		if network, slot, ok := specs.ParseInterface(name); ok {
			t.Errorf("%q is slot %d of %q", name, slot, network)
		}
	}
}

func TestValidSessionID(t *testing.T) {
	for id, want := range map[string]bool{"0123abcd": true, "0123ABCD": false, "0123abc": false, "0123abcde": false, "../../ab": false, "": false} {
		if specs.ValidSessionID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}
