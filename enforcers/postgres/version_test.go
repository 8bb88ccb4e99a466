package postgres

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// TestByVersion is what only servers of some versions have, or lack.
func TestByVersion(t *testing.T) {
	major := pgtest.Start(t).Major
	for _, tt := range []struct {
		name     string
		from, to int
		run      func(*testing.T)
	}{
		{"too old", 0, 12, tooOld},
		{"roles by who may create", 13, 15, rolesByCreateRole},
		{"roles by who created them", 16, 99, rolesByCreator},
		{"virtual columns", 18, 99, virtualColumns},
		{"damaged all over", 13, 99, damagedAllOver},
	} {
		if tt.from <= major && major <= tt.to {
			t.Run(tt.name, tt.run)
		}
	}
}

// versioned are the tests that TestVersions runs: few that together ask the
// server for all kinds of objects. A run of everything on one version is by hand.
const versioned = "^Test(ByVersion|DatabaseAtTheEnd|FinerAccess|GuardKnowsItsPlace|OtherRelations|Standby|Trusted)$" +
	"|^TestLeaks$/^(parameter|event_triggers|trigger)"

// ends are the versions that TestVersions runs: one that is refused, the oldest
// and the newest of those that the product was made for.
var ends = []int{12, 13, 17}

// TestVersions runs them on the ends of what test/deps.sh fetched, in a process
// of its own each.
func TestVersions(t *testing.T) {
	if os.Getenv(pgtest.Variable) != "" {
		return // this is one of them
	}
	found := pgtest.Fetched()
	if len(found) == 0 {
		kerneltest.Missing(t, "PostgreSQL 12 to 18, which make deps fetches: access was tested on the installed version alone")
	}
	for _, major := range ends {
		if !slices.Contains(found, major) {
			t.Errorf("PostgreSQL %d was not fetched with the others", major)
			continue
		}
		t.Run(fmt.Sprint("PostgreSQL ", major), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+versioned, "-test.v", "-test.timeout=15m")
			cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "CORDON_TEST_HOST=") }),
				fmt.Sprintf("%s=%d", pgtest.Variable, major))
			out, err := cmd.CombinedOutput()
			if passed := strings.Count(string(out), "--- PASS"); err != nil || passed == 0 {
				t.Errorf("%v, after %d passed:\n%s", err, passed, out)
			}
		})
	}
}

// major is the version of the server that the test runs on.
func (w *world) major() int { return pgtest.Start(w.t).Major }

// invokers is the version whose views can read with the rights of who asks.
const invokers = 15

// older is sql as a server of the version takes it, or the nearest that it has.
func older(major int, sql string) string {
	if major < invokers {
		sql = regexp.MustCompile(`WITH \(security_invoker[^)]*\)`).ReplaceAllString(sql, "")
	}
	if major < 14 {
		sql = strings.ReplaceAll(sql, "pg_read_all_data", "pg_read_server_files")
		sql = strings.ReplaceAll(sql, "OUT b text", "INOUT b text")
		sql = regexp.MustCompile(`BEGIN ATOMIC (.*?); END`).ReplaceAllString(sql, "LANGUAGE sql AS '$1'")
		sql = strings.ReplaceAll(sql, "LANGUAGE sql SECURITY DEFINER LANGUAGE sql", "LANGUAGE sql SECURITY DEFINER")
	}
	return sql
}

// A server that is too old is refused, whatever is asked of it first.
func tooOld(t *testing.T) {
	s := pgtest.Start(t)
	w := &world{t: t, url: s.URL(pgtest.Superuser, "postgres"), block: "ancient"}
	e := w.enforcer(t)
	set := w.declared(project("ancient", ""))
	_, surveyed := e.Survey(t.Context(), set)
	_, read := e.Read(t.Context())
	applied := e.Apply(t.Context(), reconciler.Change{After: Role{Database: "ancient", Name: "ancient_user"}})
	for _, err := range []error{surveyed, read, applied, e.Watch(context.Background(), "ancient", func() {})} {
		wantErr(t, err, "PostgreSQL 13 is the oldest that is supported", "12")
	}
	finding(t, e, reconciler.Fail, "13 is the oldest")
}

// Columns that are computed when they are read, from 18 on, can tell the owner
// and stand in conditions; their tables' constraints are no ways to other rows.
func virtualColumns(t *testing.T) {
	w := newWorld(t, "virtual", `CREATE SCHEMA virtual; CREATE TABLE virtual.t (mail text NOT NULL, user_id text GENERATED ALWAYS AS (lower(mail)) VIRTUAL, x int NOT NULL);
INSERT INTO virtual.t VALUES ('Alice', DEFAULT, 1), ('mallory', DEFAULT, 2)`)
	w.apply(project("virtual", "user_id", specs.TableAccess{Name: "t", Check: "x > 0 and user_id <> 'root'"}))
	for sql, want := range map[string]bool{
		"SELECT count(*) FROM virtual.t WHERE mail = 'Alice'":                                  true,
		"SELECT count(*) FROM virtual.t WHERE mail = 'mallory'":                                false,
		"WITH i AS (INSERT INTO virtual.t VALUES ('ALICE', DEFAULT, 2) RETURNING 1) TABLE i":   true,
		"WITH i AS (INSERT INTO virtual.t VALUES ('ALICE', DEFAULT, 0) RETURNING 1) TABLE i":   false,
		"WITH i AS (INSERT INTO virtual.t VALUES ('Mallory', DEFAULT, 2) RETURNING 1) TABLE i": false,
		"WITH u AS (UPDATE virtual.t SET mail = 'mallory' RETURNING 1) SELECT count(*) FROM u": false,
	} {
		try := `SET LOCAL request.jwt.claims = '{"sub":"alice"}';` + sql
		if got := w.leaks(leak{as: "virtual_user", try: try}); got != want {
			t.Errorf("%s: %v, want %v", sql, got, want)
		}
	}
}

// What is done by hand one by one in TestConformance is done all at once, for
// want of time, and put right by one apply.
func damagedAllOver(t *testing.T) {
	w := newWorld(t, "conform", applicationSQL)
	set := conformanceSets(w)[0]
	converged(t, w, set)
	conn := pgtest.Connect(t, w.url)
	all, failed := w.damages(), 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "role dropped") || strings.HasPrefix(name, "role renamed") || strings.HasPrefix(name, "role's mark") {
			continue // what others speak of: it is not seen that these are damaged before it is repaired
		}
		if _, err := conn.PgConn().Exec(t.Context(), "SET ROLE NONE;"+older(w.major(), all[name])).ReadAll(); err != nil {
			t.Logf("%s: %v", name, err) // after one that came before
			failed++
			if damages[name] == "" {
				t.Errorf("%s, of this version: %v", name, err)
			}
		}
	}
	if failed > len(all)/5 {
		t.Errorf("%d of %d were not done", failed, len(all))
	}
	r, p := w.plan(set)
	if len(p.Changes) < 15 {
		t.Errorf("only %d changes:\n%s", len(p.Changes), describe(p))
	}
	if err := r.Apply(t.Context(), p, nil).Err(); err != nil {
		t.Error(err)
	}
	if _, p := w.plan(set); !p.Empty() {
		t.Errorf("the plan is not empty after apply:\n%s", describe(p))
	}
}

// deployer is one who is no superuser and may do what it takes, with the set
// that it surveys.
func deployer(t *testing.T, w *world) (*Enforcer, specs.Set) {
	t.Helper()
	w.exec(`CREATE ROLE creator_deployer LOGIN CREATEROLE; GRANT app TO creator_deployer;
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO creator_deployer', current_database()); END $$`)
	t.Cleanup(func() { w.exec(`DROP OWNED BY creator_deployer; DROP ROLE creator_deployer`) })
	e := w.enforcerAs(t, pgtest.As(t, w.url, "creator_deployer", ""), nil)
	set, err := e.Survey(t.Context(), w.declared(project("creator", "user_id")))
	if err != nil {
		t.Fatal(err)
	}
	return e, set
}

const creatorSQL = `CREATE SCHEMA creator AUTHORIZATION app; SET ROLE app; CREATE TABLE creator.t (user_id text)`

// Before 16 who may create roles may change all that are no superusers,
// whoever made them.
func rolesByCreateRole(t *testing.T) {
	w := newWorld(t, "creator", creatorSQL)
	w.apply(project("creator", "user_id"))
	e, set := deployer(t, w)
	finding(t, e, reconciler.Warn, "has what it needs")
	w.exec(`GRANT creator_admin TO bob; ALTER ROLE creator_user LOGIN`)
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
	p, err := r.Plan(t.Context(), set)
	if err != nil || len(p.Changes) != 2 {
		t.Fatalf("%v: %s", err, describe(p))
	}
	if err := r.Apply(t.Context(), p, nil).Err(); err != nil {
		t.Error(err)
	}
	if p, err := r.Plan(t.Context(), set); err != nil || !p.Empty() {
		t.Errorf("the plan is not empty after apply: %v\n%s", err, describe(p))
	}
}

// From 16 on who makes a role may hand it on, and who did not may not, and a
// membership stands there once for each who granted it: two that are as
// declared are one, and one that is more is taken away by itself.
func rolesByCreator(t *testing.T) {
	w := newWorld(t, "creator", creatorSQL)
	w.authenticator = "creator_login"
	e, set := deployer(t, w)
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
	plan := func() *reconciler.Plan {
		t.Helper()
		p, err := r.Plan(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if err := r.Apply(t.Context(), plan(), nil).Err(); err != nil {
		t.Fatal(err)
	}
	if p := plan(); !p.Empty() {
		t.Errorf("the plan is not empty after apply:\n%s", describe(p))
	}
	finding(t, e, reconciler.Warn, "has what it needs")
	w.exec(`GRANT creator_user TO creator_login WITH INHERIT FALSE`) // once more, by the superuser
	if p := plan(); !p.Empty() {
		t.Errorf("granted twice as declared:\n%s", describe(p))
	}
	w.exec(`GRANT creator_user TO creator_login WITH INHERIT TRUE`)
	wantErr(t, r.Apply(t.Context(), plan(), nil).Err(), "postgres.role.creator.creator_user", "permission denied", "ADMIN option")
	w.apply(project("creator", "user_id")) // by the superuser, whose roles they are from now on
	finding(t, e, reconciler.Fail, `lacks the ADMIN option on ["creator_`)
}
