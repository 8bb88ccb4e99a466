package postgres

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	kerneltest.Main(m)
}

// world is a database with an application's objects in it, made before and
// after cordon came.
type world struct {
	t     testing.TB
	url   string
	block string // name of the database block

	trusted       []string // by the block
	authenticator string   // likewise
}

// block names must differ between worlds: roles are the cluster's.
func newWorld(t testing.TB, block, schema string) *world {
	t.Helper()
	if s := pgtest.Start(t); s.Major*10000 < oldest {
		t.Skipf("PostgreSQL %d is refused", s.Major)
	}
	w := &world{t: t, url: pgtest.Start(t).Database(t), block: block}
	for _, role := range []string{"app", "bob", "carol"} {
		w.exec(`DO $$ BEGIN CREATE ROLE ` + role + ` LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	}
	w.exec(schema)
	t.Cleanup(func() { w.clear() })
	return w
}

// clear removes cordon's objects: roles would outlive the database.
func (w *world) clear() {
	e := w.enforcer(w.t)
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
	p, err := r.Plan(context.Background(), specs.Set{})
	if err != nil || len(p.Failures) > 0 {
		w.t.Errorf("clear: %v %v", err, p.Failures)
		return
	}
	if err := r.Apply(context.Background(), p, nil).Err(); err != nil {
		w.t.Errorf("clear: %v", err)
	}
}

func (w *world) exec(sql string) {
	w.t.Helper()
	pgtest.Exec(w.t, w.url, "SET ROLE NONE;"+older(w.major(), sql))
}

func (w *world) enforcer(t testing.TB) *Enforcer { return w.enforcerAs(t, w.url, nil) }

func (w *world) enforcerAs(t testing.TB, url string, tracer pgx.QueryTracer) *Enforcer {
	e := New(Options{
		Databases: w.databases(),
		URL:       func(context.Context, string) (string, error) { return url, nil },
		tracer:    tracer,
	})
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

func (w *world) databases() []specs.Database {
	return []specs.Database{{Name: w.block, Trusted: w.trusted, Authenticator: w.authenticator}}
}

// set is the projects with the facts that are there now.
func (w *world) set(projects ...specs.Project) specs.Set {
	w.t.Helper()
	e := w.enforcer(w.t)
	defer e.Close(context.Background())
	out, err := e.Survey(context.Background(), w.declared(projects...))
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// declared is the projects without facts.
func (w *world) declared(projects ...specs.Project) specs.Set {
	for i := range projects {
		projects[i].Schema.Database = w.block
	}
	return specs.Set{Databases: w.databases(), Projects: projects}
}

func (w *world) plan(set specs.Set) (*reconciler.Reconciler, *reconciler.Plan) {
	w.t.Helper()
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: w.enforcer(w.t)}}}
	p, err := r.Plan(context.Background(), set)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range p.Failures {
		w.t.Fatal(f.Err)
	}
	return r, p
}

// apply converges, as the command does, and checks that nothing is left to do.
func (w *world) apply(projects ...specs.Project) {
	w.t.Helper()
	set := w.declared(projects...)
	r, p := w.plan(set)
	if err := r.Apply(context.Background(), p, nil).Err(); err != nil {
		w.t.Fatal(err)
	}
	closed(r)
	r, p = w.plan(set)
	if !p.Empty() {
		w.t.Fatalf("the plan is not empty after apply:\n%s", describe(p))
	}
	closed(r)
}

// closed gives back the connections of w.plan before the test ends: a server
// has only so many.
func closed(r *reconciler.Reconciler) {
	_ = r.Enforcers[0].Enforcer.(*Enforcer).Close(context.Background())
}

// applyUnchecked converges what only adds.
func (w *world) applyUnchecked(set specs.Set) {
	w.t.Helper()
	r, p := w.plan(set)
	p.Changes = slices.DeleteFunc(p.Changes, func(c reconciler.Change) bool { return c.After == nil })
	if err := r.Apply(context.Background(), p, nil).Err(); err != nil {
		w.t.Fatal(err)
	}
	closed(r)
}

func project(name, ownerColumn string, tables ...specs.TableAccess) specs.Project {
	return specs.Project{Name: name, Schema: &specs.Schema{OwnerColumn: ownerColumn, Tables: tables}}
}
