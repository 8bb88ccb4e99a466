package slotnet

import (
	"net/netip"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

func TestTakes(t *testing.T) {
	l := Listener{Networks: []specs.Network{
		{Name: "a", Pool: netip.MustParsePrefix("10.202.0.0/16")},
		{Name: "b", Pool: netip.MustParsePrefix("10.9.0.0/28")},
	}}
	for _, c := range []struct {
		local, remote string
		want          bool
	}{
		{"10.202.0.1", "10.202.0.2", true},
		{"10.202.0.5", "10.202.0.6", true},
		{"10.9.0.13", "10.9.0.14", true},
		{"10.202.0.1", "10.202.0.6", false}, // another slot's host end
		{"10.202.0.1", "10.202.0.1", false}, // the host itself
		{"127.0.0.1", "127.0.0.1", false},
		{"127.0.0.1", "10.202.0.2", false},
		{"192.0.2.1", "10.202.0.2", false}, // another address of the host
		{"10.202.0.1", "192.0.2.7", false},
		{"10.9.0.17", "10.9.0.18", false},         // beyond the pool
		{"10.202.0.2", "10.202.0.1", false},       // the wrong way round
		{"10.202.156.65", "10.202.156.66", false}, // beyond the last slot
	} {
		if got := l.Takes(netip.MustParseAddr(c.local), netip.MustParseAddr(c.remote)); got != c.want {
			t.Errorf("%s ← %s: %v", c.local, c.remote, got)
		}
	}
}
