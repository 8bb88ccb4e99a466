package main

import (
	"context"
	"slices"

	"github.com/aicodesit/cordon/enforcers/git"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/internal/source"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// kernelGroup is what sessions are made of.
const kernelGroup = "kernel"

// target is what enforces a set for ever: what sessions are made of together,
// each database and the repositories by themselves. The first alone takes the
// host's lock: it is what keeps sessions from starting meanwhile, and a slow
// database must not.
func (a *app) target(set specs.Set) loop.Target {
	log := a.Log()
	groups := []loop.Group{
		{
			Name: kernelGroup, Set: set,
			Reconciler: &reconciler.Reconciler{Log: log, Enforcers: a.Kernel(set, a.Cgroups())},
			Lock:       func(ctx context.Context) (func(), error) { return a.Rundir().Lock(ctx, true, nil) },
		},
		{
			Name: "git", Set: set,
			Reconciler: &reconciler.Reconciler{Log: log, Enforcers: []reconciler.Named{
				{Name: "git", Enforcer: git.New(git.Options{Projects: set.Projects, Log: log})},
			}},
		},
	}
	for _, d := range set.Databases {
		e := a.postgres(set.Secrets, []specs.Database{d})
		groups = append(groups, loop.Group{
			Name: "postgres." + d.Name, Set: within(set, d),
			Reconciler: &reconciler.Reconciler{Log: log, Enforcers: []reconciler.Named{{Name: "postgres", Enforcer: e}}},
			Close: func() {
				if err := e.Close(context.Background()); err != nil {
					log.Debug("close", "error", err)
				}
			},
		})
	}
	return loop.Target{Groups: groups}
}

// within is what of a set concerns one database.
func within(set specs.Set, d specs.Database) specs.Set {
	set.Databases = []specs.Database{d}
	set.Projects = slices.Clone(set.Projects)
	for i, p := range set.Projects {
		if p.Schema != nil && p.Schema.Database != d.Name {
			set.Projects[i].Schema = nil
		}
	}
	return set
}

// loadFiles is what the texts of a revision declare, or what is wrong with
// them.
func (a *app) loadFiles(files []source.File) (specs.Set, []string) {
	texts := make([]hcl.File, len(files))
	for i, f := range files {
		texts[i] = hcl.File(f)
	}
	set, diags := hcl.LoadFiles(texts, a.LoadOptions())
	return set, diags.Errors()
}
