package main

import (
	"path/filepath"
	"testing"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// What a change is made for is found in the files, in every enforcer.
func TestPlacesOfChanges(t *testing.T) {
	set, diags := hcl.Load("../../examples/aicodesit", hcl.Options{})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	a := &app{App: &cli.App{Settings: cli.Settings{RunDir: t.TempDir(), StateDir: t.TempDir()}}}
	h := a.host(set)
	p, err := h.PlanBetween(specs.Set{}, set, nil)
	if err != nil || len(p.Failures) > 0 {
		t.Fatal(err, p.Failures)
	}
	places := h.Places(p)
	for addr, want := range map[reconciler.Addr]string{
		"declared.sandbox.claude-code":                     "sandboxes.hcl",
		"root.claude-code":                                 "sandboxes.hcl",
		"network.set.llm-only":                             "network.hcl",
		"network.chain.ipv4.filter.CORDON-IN-llm-only":     "network.hcl",
		"network.chain.ipv4.filter.CORDON-INPUT":           "",
		"network.hook.ipv4.filter.INPUT":                   "",
		"slot.llm-only.0":                                  "network.hcl",
		"git.shop":                                         "shop.hcl",
		"postgres.table.main.shop.orders":                  "shop.hcl",
		"postgres.role.main.shop_anon":                     "shop.hcl",
		"postgres.guard.main":                              "databases.hcl",
		"declared.gateway.data":                            "databases.hcl",
		"seccomp." + reconciler.Addr(set.Seccomps[0].Name): filepath.Base(set.Seccomps[0].Range.File),
	} {
		if got := places[addr].File; got != want && filepath.Base(got) != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	changed := map[reconciler.Addr]bool{}
	for _, c := range p.Changes {
		changed[c.Addr()] = true
	}
	for addr := range places {
		if addr.Enforcer() != "declared" && !changed[addr] {
			t.Errorf("%s has a place and does not change", addr)
		}
	}
	for _, addr := range []reconciler.Addr{"root.claude-code", "network.chain.ipv4.filter.CORDON-IN-llm-only", "slot.llm-only.0", "git.shop"} {
		if !changed[addr] {
			t.Errorf("%s is not in the plan", addr)
		}
	}
}
