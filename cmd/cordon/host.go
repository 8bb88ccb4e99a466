package main

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/term"

	"github.com/aicodesit/cordon/enforcers/cgroup"
	"github.com/aicodesit/cordon/enforcers/git"
	"github.com/aicodesit/cordon/enforcers/network"
	"github.com/aicodesit/cordon/enforcers/postgres"
	"github.com/aicodesit/cordon/enforcers/root"
	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/enforcers/slot"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/internal/secret"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// host is the enforcers of this machine.
type host struct {
	*reconciler.Reconciler
	cgroup   *cgroup.Enforcer
	postgres *postgres.Enforcer
}

// host wires the enforcers. It touches nothing: a plan from a snapshot needs
// them too.
func (a *app) host(set specs.Set) *host {
	h := &host{cgroup: a.cgroups(), postgres: a.postgres(set.Secrets, set.Databases)}
	h.Reconciler = &reconciler.Reconciler{Log: a.log(), Enforcers: append(a.kernel(set, h.cgroup),
		reconciler.Named{Name: "git", Enforcer: git.New(git.Options{Projects: set.Projects, Log: a.log()})},
		reconciler.Named{Name: "postgres", Enforcer: h.postgres},
	)}
	return h
}

func (a *app) cgroups() *cgroup.Enforcer { return cgroup.New(cgroup.Options{Parent: a.CgroupParent}) }

// kernel is the enforcers whose resources a session needs.
func (a *app) kernel(set specs.Set, groups *cgroup.Enforcer) []reconciler.Named {
	log := a.log()
	return []reconciler.Named{
		{Name: "session", Needs: []string{"cgroup", "seccomp", "root", "network"}, Enforcer: session.New(session.Options{RunDir: a.run(), Log: log, Scrub: a.scrubber(set)})},
		{Name: "cgroup", Enforcer: groups},
		{Name: "seccomp", Enforcer: seccomp.New(seccomp.Options{Dir: a.run()})},
		{Name: "root", Enforcer: root.New(root.Options{Dir: a.run(), Log: log})},
		{Name: "network", Needs: []string{"slot"}, Enforcer: network.New(network.Options{Dir: a.run(), NoIPv6: network.IPv6Absent()})},
		{Name: "slot", Needs: []string{"network"}, Enforcer: slot.New(slot.Options{Dir: a.run()})},
	}
}

// postgres enforces what is declared in some databases.
func (a *app) postgres(declared []specs.Secret, databases []specs.Database) *postgres.Enforcer {
	secrets := secret.Reader{Secrets: declared}
	return postgres.New(postgres.Options{
		Databases: databases,
		URL: func(_ context.Context, name string) (string, error) {
			db := specs.Find(databases, name)
			if db == nil {
				return "", errors.New("not declared")
			}
			return secrets.Read(db.Connection)
		},
		Log: a.log(),
	})
}

// close ends the connections to the databases. That they end badly changes
// nothing: what was committed is committed.
func (h *host) close(ctx context.Context) {
	if err := h.postgres.Close(ctx); err != nil {
		h.Log.Debug("close", "error", err)
	}
}

// load reads the files; what is wrong with them is shown on stderr.
func (a *app) load() (specs.Set, error) {
	set, diags := hcl.Load(a.Dir, a.options())
	return set, a.showErrors(diags)
}

// showErrors shows all diagnostics, and returns an error if one of them is.
func (a *app) showErrors(diags hcl.Diagnostics) error {
	if err := diags.WriteText(a.stderr, a.color(a.stderr)); err != nil {
		return err
	}
	if diags.HasErrors() {
		return exitError{1}
	}
	return nil
}

// color tells whether f is a terminal that may get colours.
func (a *app) color(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// needRoot explains what would otherwise fail in many ways.
func needRoot(what string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return errors.New(what + " needs root")
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
