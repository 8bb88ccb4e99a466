package specs_test

import (
	"testing"

	"github.com/aicodesit/cordon/specs"
)

func example() specs.Set {
	return specs.Set{
		Networks:     []specs.Network{network("n", "10.1.0.0/16"), network("other", "10.2.0.0/16")},
		Environments: []specs.Environment{{Name: "e", Allow: []string{"PATH"}}},
		Seccomps:     []specs.Seccomp{{Name: "c", Base: "container"}},
		Sandboxes: []specs.Sandbox{
			{Name: "s", Network: "n", Environment: "e", Seccomp: "c", Namespaces: []string{"pid"}},
			{Name: "t", Namespaces: []string{"pid"}},
		},
	}
}

func TestDigest(t *testing.T) {
	base := example().Digest()
	same := example()
	same.Networks[0].Range = specs.Range{File: "elsewhere.hcl", Line: 7}
	same.Leases = []specs.Lease{{ID: "00000001"}}
	same.Tables = []specs.Table{{Name: "t"}}
	same.Functions, same.Servers = []specs.Function{{Name: "f"}}, []specs.Server{{Database: "d"}}
	if same.Digest() != base {
		t.Error("files and facts are not part of what is declared")
	}
	if same.Leases == nil || same.Tables == nil {
		t.Error("the Set was changed")
	}
	other := example()
	other.Networks[0].Warm = 1
	if other.Digest() == base {
		t.Error("another declaration has the same digest")
	}
}

// A profile's digest changes with what it refers to, and with that only.
func TestSandboxDigest(t *testing.T) {
	base := example()
	s, other := base.SandboxDigest("s"), base.SandboxDigest("t")
	if s == "" || s == other || base.SandboxDigest("nothing") != "" {
		t.Fatal(s, other)
	}
	for name, change := range map[string]func(*specs.Set){
		"network":     func(s *specs.Set) { s.Networks[0].Warm = 1 },
		"environment": func(s *specs.Set) { s.Environments[0].Allow = nil },
		"seccomp":     func(s *specs.Set) { s.Seccomps[0].Log = true },
		"sandbox":     func(s *specs.Set) { s.Sandboxes[0].Limits.Pids = 1 },
	} {
		changed := example()
		change(&changed)
		if changed.SandboxDigest("s") == s {
			t.Errorf("a change of its %s does not show", name)
		}
		if changed.SandboxDigest("t") != other {
			t.Errorf("a change of another's %s shows", name)
		}
	}
	unrelated := example()
	unrelated.Networks[1].Warm = 1
	if unrelated.SandboxDigest("s") != s {
		t.Error("a change of a network that it has not shows")
	}
}

// Who asks for many looks at each profile once.
func TestSandboxDigests(t *testing.T) {
	set := example()
	want, digest := set.SandboxDigest("s"), set.SandboxDigests()
	for range 2 {
		if got := digest("s"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		set.Networks[0].Warm++ // is not looked at again
	}
	if got := digest("nothing"); got != "" {
		t.Errorf("of none: %s", got)
	}
}
