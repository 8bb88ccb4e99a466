package main

import (
	"context"
	"errors"

	"github.com/aicodesit/cordon/enforcers/git"
	"github.com/aicodesit/cordon/enforcers/postgres"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// host is the enforcers of this machine.
type host struct {
	*reconciler.Reconciler
	postgres *postgres.Enforcer
}

// host wires the enforcers. It touches nothing: a plan from a snapshot needs
// them too.
func (a *app) host(set specs.Set) *host {
	h := &host{postgres: a.postgres(set.Secrets, set.Databases)}
	h.Reconciler = &reconciler.Reconciler{Log: a.Log(), Enforcers: append(a.Kernel(set, a.Cgroups()),
		reconciler.Named{Name: "git", Enforcer: git.New(git.Options{Projects: set.Projects, Log: a.Log()})},
		reconciler.Named{Name: "postgres", Enforcer: h.postgres},
	)}
	return h
}

// postgres enforces what is declared in some databases.
func (a *app) postgres(declared []specs.Secret, databases []specs.Database) *postgres.Enforcer {
	secrets := a.Secrets(declared)
	return postgres.New(postgres.Options{
		Databases: databases,
		URL: func(_ context.Context, name string) (string, error) {
			db := specs.Find(databases, name)
			if db == nil {
				return "", errors.New("not declared")
			}
			return secrets.Read(db.Connection)
		},
		Log: a.Log(),
	})
}

// close ends the connections to the databases. That they end badly changes
// nothing: what was committed is committed.
func (h *host) close(ctx context.Context) {
	if err := h.postgres.Close(ctx); err != nil {
		h.Log.Debug("close", "error", err)
	}
}
