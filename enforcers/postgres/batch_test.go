package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// sent records what is sent, without what only reads.
type sent struct{ sql []string }

func (s *sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.sql = append(s.sql, d.SQL)
	return ctx
}
func (s *sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *sent) count(what string) int {
	n := 0
	for _, sql := range s.sql {
		if strings.Contains(strings.ToLower(sql), what) {
			n++
		}
	}
	return n
}

// Many changes are one transaction; one among many projects is one too, and
// touches the others in no way.
func TestOneTransaction(t *testing.T) {
	var setup strings.Builder
	var projects []specs.Project
	for i := range 20 {
		fmt.Fprintf(&setup, "CREATE SCHEMA once%d; CREATE TABLE once%d.t (user_id text); CREATE TABLE once%d.u (user_id text);", i, i, i)
		projects = append(projects, project(fmt.Sprint("once", i), "user_id"))
	}
	w := newWorld(t, "once", setup.String())
	for _, change := range []func(){
		func() {},
		func() { projects[7].Schema.Tables = []specs.TableAccess{{Name: "t", Anonymous: []string{"select"}}} },
	} {
		change()
		trace := new(sent)
		e := w.enforcerAs(t, w.url, trace)
		r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
		p, err := r.Plan(t.Context(), w.declared(projects...))
		if err != nil {
			t.Fatal(err)
		}
		trace.sql = nil
		if err := r.Apply(t.Context(), p, nil).Err(); err != nil {
			t.Fatal(err)
		}
		if n := trace.count("begin"); n != 1 {
			t.Errorf("%d changes in %d transactions: %q", len(p.Changes), n, trace.sql)
		}
	}
	w.apply(projects...)
}

// What the server refuses is not made, nor what waits for it; all else is.
func TestBatchIsolatesFailures(t *testing.T) {
	w := newWorld(t, "isolate", `CREATE SCHEMA iso_a; CREATE SCHEMA iso_b; CREATE SCHEMA iso_c; CREATE ROLE iso_b_anon;
CREATE TABLE iso_a.t (user_id text); CREATE TABLE iso_b.t (user_id text); CREATE TABLE iso_c.t (user_id text); CREATE TABLE iso_c.gone (user_id text)`)
	t.Cleanup(func() { w.exec("DROP ROLE iso_b_anon") })
	r, p := w.plan(w.declared(project("iso_a", "user_id"), project("iso_b", "user_id"), project("iso_c", "user_id")))
	w.exec(`DROP TABLE iso_c.gone`)
	want := map[reconciler.Addr]string{
		"postgres.role.isolate.iso_b_anon":  "failed",
		"postgres.schema.isolate.iso_b":     "skipped",
		"postgres.table.isolate.iso_b.t":    "skipped",
		"postgres.table.isolate.iso_c.gone": "failed",
	}
	for _, res := range r.Apply(t.Context(), p, nil).Results {
		got := ""
		switch {
		case res.Skipped:
			got = "skipped"
		case res.Err != nil:
			got = "failed"
		}
		if got != want[res.Change.Addr()] {
			t.Errorf("%s: %q, want %q; %v", res.Change.Addr(), got, want[res.Change.Addr()], res.Err)
		}
	}
	var forced int
	if err := pgtest.Connect(t, w.url).QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relforcerowsecurity`).Scan(&forced); err != nil || forced != 2 {
		t.Errorf("%d tables closed, want those of iso_a and iso_c; %v", forced, err)
	}
}
