package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// applyErr surveys and applies, and returns what failed.
func applyErr(t *testing.T, w *world, e *Enforcer, projects ...specs.Project) error {
	t.Helper()
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
	p, err := r.Plan(context.Background(), w.declared(projects...))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Failures {
		return f.Err
	}
	return r.Apply(context.Background(), p, nil).Err()
}

func wantErr(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%v\nlacks %q", err, p)
		}
	}
}

func TestRoleOfAnother(t *testing.T) {
	w := newWorld(t, "taken", `CREATE ROLE taken_user LOGIN`)
	err := applyErr(t, w, w.enforcer(t), project("taken", ""))
	wantErr(t, err, "postgres.role.taken.taken_user", "not cordon's", "COMMENT ON ROLE")
	var login bool
	if err := pgtest.Connect(t, w.url).QueryRow(t.Context(), "SELECT rolcanlogin FROM pg_roles WHERE rolname = 'taken_user'").Scan(&login); err != nil || !login {
		t.Errorf("the role was changed (login %v, %v)", login, err)
	}
	_, adopt, _ := strings.Cut(err.Error(), "let cordon have it by ")
	adopt, _, _ = strings.Cut(adopt, "\n")
	w.exec(adopt) // what the error says to do works
	w.apply(project("taken", ""))
}

// Two installations with one database each, on one cluster.
func TestRolesOfAnotherDatabase(t *testing.T) {
	a, b := newWorld(t, "same", ""), newWorld(t, "same", "")
	a.apply(project("mine", ""))
	b.apply(project("yours", ""))
	if _, p := a.plan(a.set(project("mine", ""))); !p.Empty() {
		t.Errorf("a database sees the roles of another:\n%s", describe(p))
	}
	wantErr(t, applyErr(t, b, b.enforcer(t), project("mine", "")), "not cordon's in this database")
}

func TestRoleThatOwnsIsNotDropped(t *testing.T) {
	w := newWorld(t, "owns", "")
	w.apply(project("owns", ""))
	w.exec(`CREATE TABLE public.kept (x int); ALTER TABLE public.kept OWNER TO owns_user; CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; GRANT EXECUTE ON FUNCTION public.f TO owns_user, owns_anon`)
	t.Cleanup(func() { w.exec(`ALTER TABLE public.kept OWNER TO postgres`) })
	wantErr(t, applyErr(t, w, w.enforcer(t)), "postgres.role.owns.owns_user", "table public.kept", "owner first")
	w.exec(`SELECT * FROM public.kept`)
}

func TestSchemaAtTheEnd(t *testing.T) {
	w := newWorld(t, "ends", `CREATE SCHEMA theirs; COMMENT ON SCHEMA theirs IS E'two\nlines'; CREATE SCHEMA silent`)
	projects := []specs.Project{project("empty", ""), project("filled", ""), project("silent", ""), project("theirs", "")}
	w.apply(projects...)
	w.exec(`CREATE TABLE filled.t (x int)`)
	w.apply(projects...)
	w.apply()
	var got string
	err := pgtest.Connect(t, w.url).QueryRow(t.Context(), `
SELECT string_agg(nspname || '=' || coalesce(obj_description(oid, 'pg_namespace'), 'none'), ' ' ORDER BY nspname)
FROM pg_namespace WHERE nspname IN ('empty', 'filled', 'silent', 'theirs')`).Scan(&got)
	if want := "filled=none silent=none theirs=two\nlines"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// At the end, the tables' owner has its rows back; others' bounds stay.
func TestTableAtTheEnd(t *testing.T) {
	w := newWorld(t, "released", `CREATE SCHEMA rel; CREATE TABLE rel.t (user_id text)`)
	w.apply(project("rel", "user_id"))
	w.apply()
	var enabled, forced bool
	var policies int
	err := pgtest.Connect(t, w.url).QueryRow(t.Context(), `
SELECT relrowsecurity, relforcerowsecurity, (SELECT count(*) FROM pg_policy) FROM pg_class WHERE oid = 'rel.t'::regclass`).Scan(&enabled, &forced, &policies)
	if err != nil || !enabled || forced || policies != 0 {
		t.Errorf("row security %v, forced %v, %d policies, %v; want true, false, 0", enabled, forced, policies, err)
	}
}

func TestTableGoneMeanwhile(t *testing.T) {
	w := newWorld(t, "gone", `CREATE SCHEMA gone; CREATE TABLE gone.t (user_id text)`)
	set := w.set(project("gone", "user_id"))
	r, p := w.plan(set)
	w.exec(`DROP TABLE gone.t`)
	wantErr(t, r.Apply(t.Context(), p, nil).Err(), "postgres.table.gone.gone.t", "gone: plan again")
	w.apply(project("gone", "user_id"))
}

// A type whose condition the server writes in another way must not loop for
// ever between plan and apply, and not be left half open.
func TestConditionThatIsNotReadBack(t *testing.T) {
	w := newWorld(t, "strange", `CREATE SCHEMA strange; CREATE TYPE strange.pair AS (a int); CREATE DOMAIN strange.name AS text CHECK (value <> '');
CREATE TABLE strange.domains (user_id strange.name); CREATE TABLE strange.pairs (user_id strange.pair); CREATE TABLE strange.chars (user_id char(5)); CREATE TABLE strange.names (user_id name)`)
	w.apply(project("strange", "user_id"))
}

func TestRightsTooSmall(t *testing.T) {
	w := newWorld(t, "small", `CREATE SCHEMA small AUTHORIZATION app; SET ROLE app; CREATE TABLE small.t (user_id text)`)
	name := w.url[strings.LastIndex(w.url, "/")+1 : strings.Index(w.url, "?")]
	w.exec(`CREATE ROLE deployer LOGIN`)
	t.Cleanup(func() { w.exec(`DROP OWNED BY deployer; DROP ROLE deployer`) })
	as := func() *Enforcer { return w.enforcerAs(t, pgtest.As(t, w.url, "deployer", ""), nil) }

	wantErr(t, applyErr(t, w, as(), project("small", "user_id")), "small_anon", "permission denied", "CREATEROLE")
	finding(t, as(), reconciler.Fail, "lacks CREATEROLE")
	w.exec(`ALTER ROLE deployer CREATEROLE`)
	finding(t, as(), reconciler.Fail, "lacks CREATE")
	w.exec(`GRANT CREATE ON DATABASE ` + name + ` TO deployer`)
	wantErr(t, applyErr(t, w, as(), project("small", "user_id")), "postgres.schema.small.small", "must be owner of schema", "membership")
	w.apply(project("small", "user_id")) // by the superuser
	finding(t, as(), reconciler.Fail, `no member of ["app"]`)
	w.apply()
	w.exec(`GRANT app TO deployer`)
	finding(t, as(), reconciler.Warn, "has what it needs")
	for _, projects := range [][]specs.Project{{project("fresh2", ""), project("small", "user_id")}, {}} {
		if err := applyErr(t, w, as(), projects...); err != nil {
			t.Fatal(err)
		}
		r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: as()}}}
		p, err := r.Plan(t.Context(), w.declared(projects...))
		if err != nil || !p.Empty() {
			t.Errorf("not converged: %v\n%s", err, describe(p))
		}
		if told := slices.ContainsFunc(p.Notes, func(n reconciler.Note) bool { return strings.Contains(n.Text, "only a superuser") }); told != (len(projects) > 0) {
			t.Errorf("told that new tables are not closed at once: %v; %v", told, p.Notes)
		}
	}
}

// A server that is newer than any that cordon was tried on says so itself: its
// function that tells the version is another, in this database alone.
func TestNewerServer(t *testing.T) {
	w := newWorld(t, "newer", `CREATE ROLE newer_deployer LOGIN CREATEROLE; DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO newer_deployer', current_database()); END $$;
ALTER FUNCTION pg_catalog.current_setting(text) RENAME TO real_setting; CREATE FUNCTION pg_catalog.current_setting(text) RETURNS text STABLE STRICT LANGUAGE sql AS
$$ SELECT CASE $1 WHEN 'server_version_num' THEN '190002' WHEN 'server_version' THEN '19.2' ELSE pg_catalog.current_setting($1, false) END $$`)
	t.Cleanup(func() {
		w.exec(`DROP FUNCTION pg_catalog.current_setting(text); ALTER FUNCTION pg_catalog.real_setting RENAME TO current_setting; DROP OWNED BY newer_deployer; DROP ROLE newer_deployer`)
	})
	for role, can := range map[string]string{pgtest.Superuser: "connected as a superuser", "newer_deployer": "has what it needs"} {
		e := w.enforcerAs(t, pgtest.As(t, w.url, role, ""), nil)
		for _, text := range []string{"PostgreSQL 19.2, ", can, "; the newest version that cordon was tested with is 18"} {
			finding(t, e, reconciler.Warn, text)
		}
		if f := e.Examine(t.Context()); !strings.HasPrefix(f[0].Remedy, "look for a newer cordon") {
			t.Errorf("%s: %+v", role, f)
		}
	}
}

func finding(t *testing.T, e *Enforcer, status reconciler.Status, text string) {
	t.Helper()
	f := e.Examine(t.Context())
	if len(f) != 1 || f[0].Status != status || !strings.Contains(f[0].Text, text) || (status != reconciler.OK) != (f[0].Remedy != "") {
		t.Errorf("finding %+v; want %s, %q", f, status, text)
	}
}

func TestErrorsKeepTheSecret(t *testing.T) {
	s := pgtest.Start(t)
	w := newWorld(t, "secrets", `CREATE ROLE pgtest_locked LOGIN PASSWORD 'right'`)
	t.Cleanup(func() { w.exec(`DROP ROLE pgtest_locked`) })
	const password = "hunter2-p%40ss"
	for _, url := range []string{
		"postgres://" + pgtest.Locked + ":" + password + "@/postgres?host=" + s.Dir,
		"postgres://x:" + password + "@127.0.0.1:1/postgres?connect_timeout=1",
		"postgres://x:" + password + "@127.0.0.1:port/postgres",
		"postgres://x:" + password + "@127.0.0.1/postgres?sslmode=wrong",
		"postgres://x:" + password + "@" + s.Dir,
		"host=/nowhere password=" + password + " user=x dbname=y",
		password,
		"postgres://postgres@/" + password + "?host=" + s.Dir + "&password=" + password,
	} {
		e := w.enforcerAs(t, url, nil)
		_, err := e.Read(t.Context())
		wantErr(t, err, "database.secrets: ")
		for _, hidden := range []string{"hunter2-p%40ss", "hunter2-p@ss", url} {
			if strings.Contains(err.Error(), hidden) {
				t.Errorf("the error shows the secret: %v", err)
			}
		}
		if f := e.Examine(t.Context()); f[0].Status != reconciler.Fail || strings.Contains(f[0].Text, "hunter2") {
			t.Errorf("finding %+v", f)
		}
	}
	_, err := w.enforcerAs(t, "postgres://"+pgtest.Locked+":wrong@/postgres?host="+s.Dir, nil).Read(t.Context())
	wantErr(t, err, "password authentication failed", pgtest.Locked, "28P01")
}

// A transaction of the application's that holds the table is not waited for
// without end, and nothing of the change stays when it fails.
func TestTableInUse(t *testing.T) {
	w := newWorld(t, "busy", `CREATE SCHEMA busy; CREATE TABLE busy.t (user_id text)`)
	tx, err := pgtest.Connect(t, w.url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT * FROM busy.t"); err != nil {
		t.Fatal(err)
	}
	e := w.enforcer(t)
	e.options.lockTimeout = 10 * time.Millisecond
	wantErr(t, applyErr(t, w, e, project("busy", "user_id")), "postgres.table.busy.busy.t", "could not obtain lock")
	var acl *string
	if err := tx.QueryRow(t.Context(), "SELECT relacl::text FROM pg_class WHERE oid = 'busy.t'::regclass").Scan(&acl); err != nil || acl != nil {
		t.Errorf("a failed change left grants: %v, %v", acl, err)
	}
	tries := 0
	e.options.Log = slog.New(onRecord{slog.DiscardHandler, func() { // the application ends after the first try
		if tries++; tries == 1 {
			_ = tx.Rollback(context.Background())
		}
	}})
	e.options.lockTimeout = 500 * time.Millisecond
	if err := applyErr(t, w, e, project("busy", "user_id")); err != nil || tries == 0 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// onRecord is a log that calls.
type onRecord struct {
	slog.Handler
	call func()
}

func (o onRecord) Enabled(context.Context, slog.Level) bool  { return true }
func (o onRecord) Handle(context.Context, slog.Record) error { o.call(); return nil }
func (o onRecord) WithAttrs([]slog.Attr) slog.Handler        { return o }
func (o onRecord) WithGroup(string) slog.Handler             { return o }

// A grant by hand that is not committed yet makes the change fail as soon as
// it is ("tuple concurrently updated"), and then succeed.
func TestCatalogRowInUse(t *testing.T) {
	w := newWorld(t, "row", `CREATE SCHEMA row; CREATE TABLE row.t (user_id text)`)
	tx, err := pgtest.Connect(t, w.url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "GRANT SELECT ON row.t TO bob"); err != nil {
		t.Fatal(err)
	}
	e, tries := w.enforcer(t), make(chan struct{}, 1000)
	e.options.lockTimeout = 20 * time.Second
	e.options.Log = slog.New(onRecord{slog.DiscardHandler, func() { tries <- struct{}{} }})
	result := make(chan error, 1)
	set := w.set(project("row", "user_id"))
	go func() {
		r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
		p, err := r.Plan(context.Background(), set)
		if err == nil {
			err = r.Apply(context.Background(), p, nil).Err()
		}
		result <- err
	}()
	if w.major() >= 18 { // GRANT locks the table itself, which cordon does not wait for
		<-tries
	} else {
		waitFor(t, w, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'cordon' AND datname = current_database() AND wait_event_type = 'Lock')`)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Errorf("%v after %d more failed transactions", err, len(tries))
	}
	w.apply(project("row", "user_id"))
}

func waitFor(t *testing.T, w *world, condition string) {
	t.Helper()
	conn := pgtest.Connect(t, w.url)
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var ok bool
		if err := conn.QueryRow(t.Context(), condition).Scan(&ok); err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", condition)
		}
	}
}

// A policy of another's that is for roles of both keeps those that are not
// cordon's.
func TestPolicyOfAnotherIsNarrowed(t *testing.T) {
	w := newWorld(t, "narrow", `CREATE SCHEMA narrow; CREATE TABLE narrow.t (user_id text)`)
	w.apply(project("narrow", "user_id"))
	w.exec(`CREATE POLICY wide ON narrow.t TO narrow_user, bob, narrow_anon, carol USING (true)`)
	w.apply(project("narrow", "user_id"))
	var roles string
	err := pgtest.Connect(t, w.url).QueryRow(t.Context(), `SELECT (SELECT string_agg(r::regrole::text, ',' ORDER BY r::regrole::text) FROM unnest(polroles) r) FROM pg_policy WHERE polname = 'wide'`).Scan(&roles)
	if err != nil || roles != "bob,carol" {
		t.Errorf("the policy is for %q, %v; want bob,carol", roles, err)
	}
}

// Several appliers and someone who grants by hand, on one table.
func TestTogether(t *testing.T) {
	w := newWorld(t, "crowd", `CREATE SCHEMA crowd; CREATE TABLE crowd.t (user_id text); CREATE TABLE crowd.u (user_id text)`)
	sets := []specs.Set{
		w.set(project("crowd", "user_id")),
		w.set(project("crowd", "user_id", specs.TableAccess{Name: "t", Anonymous: []string{"select"}})),
	}
	w.apply(project("crowd", "user_id"))
	var wg sync.WaitGroup
	for n := range 4 {
		e := w.enforcer(t)
		wg.Go(func() {
			r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
			for i := range 12 {
				p, err := r.Plan(t.Context(), sets[(n+i)%2])
				if err != nil || len(p.Failures) > 0 {
					t.Errorf("plan: %v %v", err, p)
					return
				}
				if err := r.Apply(t.Context(), p, nil).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	hand := pgtest.Connect(t, w.url)
	wg.Go(func() {
		for range 150 {
			_, _ = hand.Exec(t.Context(), "GRANT SELECT ON crowd.t TO bob") // may lose: it takes no advisory lock
			_, _ = hand.Exec(t.Context(), "REVOKE SELECT ON crowd.t FROM bob")
		}
	})
	wg.Wait()
	w.apply(project("crowd", "user_id"))
}

// While access changes from one column to another, there is no moment in
// which both hold, or none.
func TestNeverMoreOpen(t *testing.T) {
	w := newWorld(t, "moment", `CREATE SCHEMA moment; CREATE TABLE moment.t (a text, b text, c int);
INSERT INTO moment.t VALUES ('alice', 'x', 1), ('x', 'alice', 2), ('x', 'x', 3)`)
	w.apply(project("moment", "a"))
	conn := pgtest.Connect(t, w.url)
	done := make(chan struct{})
	var wg sync.WaitGroup
	seen := map[string]int{}
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			results, err := conn.PgConn().Exec(context.Background(), `BEGIN; SET LOCAL ROLE moment_user; SET LOCAL request.jwt.claims = '{"sub":"alice"}';
SELECT string_agg(c::text, ',' ORDER BY c) FROM moment.t; COMMIT`).ReadAll()
			if err != nil {
				t.Error(err)
				return
			}
			seen[string(results[3].Rows[0][0])]++
		}
	})
	sets := []specs.Set{w.set(project("moment", "b")), w.set(project("moment", "a"))}
	for i := range 30 {
		r, p := w.plan(sets[i%2])
		if err := r.Apply(t.Context(), p, nil).Err(); err != nil {
			t.Fatal(err)
		}
		_ = r.Enforcers[0].Enforcer.(*Enforcer).Close(t.Context())
	}
	close(done)
	wg.Wait()
	if len(seen) != 2 || seen["1"] == 0 || seen["2"] == 0 {
		t.Errorf("alice saw %v; want 1 and 2, each alone", seen)
	}
}

// counter counts round trips and queries.
type counter struct{ queries int }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.queries++
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) { c.queries++ }
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestNumberOfQueriesIsConstant(t *testing.T) {
	counts := map[int]int{}
	for _, n := range []int{1, 12} {
		var setup strings.Builder
		var projects []specs.Project
		for i := range n {
			name := fmt.Sprintf("q%d_%d", n, i)
			fmt.Fprintf(&setup, "CREATE SCHEMA %s; CREATE TABLE %s.t (id serial, user_id text);", name, name)
			projects = append(projects, project(name, "user_id"))
		}
		w := newWorld(t, fmt.Sprint("count", n), setup.String())
		w.apply(projects...)
		c := new(counter)
		r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: w.enforcerAs(t, w.url, c)}}}
		p, err := r.Plan(t.Context(), w.declared(projects...))
		if err != nil || !p.Empty() || len(p.Live) != 6*n+2 {
			t.Fatalf("%v, %d live, %s", err, len(p.Live), describe(p))
		}
		counts[n] = c.queries
	}
	if counts[1] != counts[12] || counts[1] < 5 {
		t.Errorf("queries by number of projects: %v; want the same", counts)
	}
}
