package postgres

import (
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
)

// What the server's configuration sets for everybody is seen, also by a
// connection that was there before.
func TestServerSettings(t *testing.T) {
	w := newWorld(t, "serverset", `CREATE SCHEMA serverset; CREATE TABLE serverset.t (user_id text)`)
	p := project("serverset", "user_id")
	w.apply(p)
	set := w.set(p)
	r, _ := w.plan(set)
	configure := func(sql, want string) {
		t.Helper()
		for _, one := range []string{sql, "SELECT pg_reload_conf()"} {
			pgtest.Exec(t, w.url, one)
		}
		for range 500 { // the server does so when it gets to it
			var got string
			conn := pgtest.Connect(t, w.url)
			if err := conn.QueryRow(t.Context(), "SELECT current_setting('lo_compat_privileges')").Scan(&got); err != nil {
				t.Fatal(err)
			}
			_ = conn.Close(t.Context())
			if got == want {
				return
			}
		}
		t.Fatalf("%s: is not so", sql)
	}
	configure("ALTER SYSTEM SET lo_compat_privileges = on", "on")
	defer configure("ALTER SYSTEM RESET lo_compat_privileges", "off")
	w.refuses(t, r, "lo_compat_privileges")
	configure("ALTER SYSTEM RESET lo_compat_privileges", "off")
	if p, err := r.Plan(t.Context(), set); err != nil || !p.Empty() {
		t.Errorf("%v; after it is reset the plan is\n%s", err, describe(p))
	}

	// The server's command line is the one place for claims, for their name
	// has two dots. What comes with the connection looks the same.
	e := w.enforcerAs(t, w.url+"&options=-c%20request.jwt.claims%3Dmallory", nil)
	w.refuses(t, &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}, "request.jwt.claims")
}

func (w *world) refuses(t *testing.T, r *reconciler.Reconciler, setting string) {
	t.Helper()
	plan, err := r.Plan(t.Context(), w.declared(project(w.block, "user_id")))
	if err != nil || len(plan.Changes) != 1 || !strings.Contains(string(plan.Changes[0].Addr()), "setting "+setting) {
		t.Fatalf("%s: %v, the plan is\n%s", setting, err, describe(plan))
	}
	if err := r.Apply(t.Context(), plan, nil).Err(); err == nil || !strings.Contains(err.Error(), "ALTER SYSTEM RESET "+setting) {
		t.Errorf("%s: apply: %v", setting, err)
	}
}

// A setting of the database that the same connection resets is not taken for
// one of the server.
func TestSettingReset(t *testing.T) {
	w := newWorld(t, "setreset", `CREATE SCHEMA setreset; CREATE TABLE setreset.t (user_id text)`)
	p := project("setreset", "user_id")
	w.apply(p)
	w.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET request.jwt.claims = %L', current_database(), 'mallory'); END $$`)
	set := w.set(p)
	r, plan := w.plan(set)
	if err := r.Apply(t.Context(), plan, nil).Err(); err != nil || len(plan.Changes) != 1 {
		t.Errorf("%v\n%s", err, describe(plan))
	}
	if plan, err := r.Plan(t.Context(), set); err != nil || !plan.Empty() {
		t.Errorf("again: %v\n%s", err, describe(plan))
	}
}
