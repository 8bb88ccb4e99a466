package postgres

import (
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// loginSet is a set whose block has an authenticator.
func loginSet(w *world, name string, projects ...specs.Project) specs.Set {
	w.authenticator = name
	set := w.set(projects...)
	set.Databases[0].Settings = map[string]string{"statement_timeout": "10s", "search_path": "pg_catalog, Odd Name"}
	return set
}

func converged(t *testing.T, w *world, set specs.Set) {
	t.Helper()
	r, p := w.plan(set)
	if err := r.Apply(t.Context(), p, nil).Err(); err != nil {
		t.Fatal(err)
	}
	if _, p := w.plan(set); !p.Empty() {
		t.Fatalf("the plan is not empty after apply:\n%s", describe(p))
	}
}

// The authenticator becomes the roles and has none of their rights itself;
// what is changed by hand comes back.
func TestAuthenticator(t *testing.T) {
	w := newWorld(t, "logins", `CREATE SCHEMA logins; CREATE TABLE logins.t (user_id text); INSERT INTO logins.t VALUES ('alice');
CREATE TABLE logins.more (user_id text); CREATE VIEW logins.v AS SELECT * FROM logins.t;
CREATE FUNCTION logins.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE SCHEMA others; CREATE TABLE others.t (x int); GRANT USAGE ON SCHEMA others TO PUBLIC;
CREATE ROLE logins_old LOGIN SUPERUSER PASSWORD 'x'; COMMENT ON ROLE logins_old IS 'the api''s';
CREATE ROLE logins_stranger; CREATE ROLE logins_in; CREATE ROLE logins_power REPLICATION; GRANT logins_power TO logins_in;
GRANT SELECT ON logins.v, others.t TO logins_old; GRANT pg_monitor, logins_in, logins_stranger TO logins_old; GRANT logins_old TO bob; ALTER TABLE logins.more OWNER TO logins_old;
CREATE VIEW others.v AS SELECT * FROM logins.t; GRANT SELECT ON others.v TO logins_old`)
	t.Cleanup(func() {
		w.exec("DROP OWNED BY logins_old, carol; DROP ROLE logins_old; DROP ROLE logins_stranger; DROP ROLE logins_in; DROP ROLE logins_power")
	})
	for _, name := range []string{"logins_new", "logins_old"} {
		set := loginSet(w, name, project("logins", "user_id"))
		converged(t, w, set)
		conn := pgtest.Connect(t, pgtest.As(t, w.url, name, ""))
		if _, err := conn.Exec(t.Context(), "SELECT * FROM logins.t"); !refused(err) {
			t.Errorf("%s reads without SET ROLE: %v", name, err)
		}
		var timeout, path string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting('statement_timeout'), current_setting('search_path')").Scan(&timeout, &path); err != nil || timeout != "10s" || path != `pg_catalog, "Odd Name"` {
			t.Errorf("%s has %s, %s; %v", name, timeout, path, err)
		}
		if _, err := conn.PgConn().Exec(t.Context(), "SET ROLE logins_user; SELECT * FROM logins.t").ReadAll(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, damage := range []string{
			"GRANT pg_read_all_data TO " + name, "GRANT logins_in TO " + name + " WITH ADMIN OPTION", "GRANT postgres TO " + name, "GRANT " + name + " TO bob",
			"GRANT USAGE, CREATE ON SCHEMA logins TO " + name, "GRANT SELECT ON logins.v TO " + name, "GRANT DELETE, UPDATE (user_id) ON logins.t TO " + name + " WITH GRANT OPTION",
			"GRANT EXECUTE ON FUNCTION logins.f TO " + name, "CREATE POLICY p ON logins.t TO " + name + ", bob USING (true)",
			"ALTER TABLE logins.t OWNER TO " + name, "ALTER VIEW logins.v OWNER TO " + name, "ALTER FUNCTION logins.f OWNER TO " + name, "ALTER SCHEMA logins OWNER TO " + name,
			"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO " + name + "; GRANT CREATE ON DATABASE %1$I TO carol', current_database()); END $$",
			"DO $$ BEGIN EXECUTE format('GRANT CREATE, CONNECT ON DATABASE %I TO " + name + "', current_database()); END $$",
			"ALTER DEFAULT PRIVILEGES IN SCHEMA logins GRANT SELECT ON TABLES TO " + name, "ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO " + name,
			"GRANT SET ON PARAMETER session_replication_role TO " + name, "GRANT SELECT (rolpassword) ON pg_authid TO " + name, "GRANT SELECT ON pg_statistic TO " + name,
			"GRANT EXECUTE ON FUNCTION pg_read_file(text) TO " + name, "GRANT SELECT ON others.v TO " + name,
			"ALTER ROLE " + name + " SUPERUSER BYPASSRLS", "ALTER ROLE " + name + " INHERIT", "ALTER ROLE " + name + " NOLOGIN",
			"ALTER ROLE " + name + " SET row_security = off", "REVOKE logins_user FROM " + name, "GRANT logins_admin TO " + name + " WITH ADMIN OPTION",
			"GRANT logins_admin TO bob",
			"GRANT logins_admin TO " + name + " WITH INHERIT TRUE", "GRANT logins_user TO " + name + " WITH SET FALSE",
		} {
			if name == "logins_old" && !strings.HasPrefix(damage, "ALTER ROLE") {
				continue // it is all the same for one that was there
			}
			if w.major() < 15 && strings.Contains(damage, "ON PARAMETER") || w.major() < 16 && strings.Contains(damage, "WITH INHERIT TRUE") || w.major() < 16 && strings.Contains(damage, "WITH SET FALSE") {
				continue // nothing of an older server's
			}
			w.exec(damage)
			r, p := w.plan(set)
			if p.Empty() {
				t.Errorf("not seen: %s", damage)
			}
			if err := r.Apply(t.Context(), p, nil).Err(); err != nil {
				t.Fatalf("%s: %v", damage, err)
			}
			if p, err := r.Plan(t.Context(), set); err != nil || !p.Empty() {
				t.Fatalf("the plan is not empty after %s: %v\n%s", damage, err, describe(p))
			}
			_ = r.Enforcers[0].Enforcer.(*Enforcer).Close(t.Context())
		}
		if name == "logins_old" { // what reaches no rows of projects stays
			if _, err := conn.PgConn().Exec(t.Context(), "RESET ROLE; SELECT * FROM others.t; SET ROLE logins_stranger").ReadAll(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	w.apply()
	var comment string
	var left int
	err := pgtest.Connect(t, w.url).QueryRow(t.Context(), `SELECT shobj_description('logins_old'::regrole, 'pg_authid'), (SELECT count(*) FROM pg_roles WHERE rolname = 'logins_new')`).Scan(&comment, &left)
	if err != nil || comment != "the api's" || left != 0 {
		t.Errorf("comment %q, %d roles left; %v", comment, left, err)
	}
}

// What the database gives to all is taken and comes back.
func TestDatabaseAtTheEnd(t *testing.T) {
	w := newWorld(t, "dbend", `GRANT CREATE ON SCHEMA public TO PUBLIC`)
	w.exec(`DO $$ BEGIN EXECUTE format('COMMENT ON DATABASE %I IS %L', current_database(), 'ours'); END $$`)
	public := func() (out string) {
		err := pgtest.Connect(t, w.url).QueryRow(t.Context(), `SELECT concat_ws(' ', has_database_privilege('bob', current_database(), 'TEMPORARY'), has_database_privilege('bob', current_database(), 'CONNECT'),
has_schema_privilege('bob', 'public', 'CREATE'), has_schema_privilege('bob', 'public', 'USAGE'), (SELECT regexp_replace(shobj_description(oid, 'pg_database'), '^.*\n', '') FROM pg_database WHERE datname = current_database()))`).Scan(&out)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	w.apply(project("dbend", ""))
	if got := public(); got != "f t f t ours" {
		t.Errorf("with cordon: %s", got)
	}
	w.apply()
	if got := public(); got != "t t t t ours" {
		t.Errorf("at the end: %s", got)
	}
}

// The statements for memberships by version: their options and grantors came
// with 16.
func TestMembershipsByVersion(t *testing.T) {
	no, yes := false, true
	const with = `GRANT "r" TO "web" WITH ADMIN FALSE, INHERIT FALSE, SET TRUE`
	for _, tt := range []struct {
		version    int
		m          membership
		join, quit string
		becomes    bool
	}{
		{130000, membership{with: "web"}, `GRANT "r" TO "web"`, `REVOKE "r" FROM "web" CASCADE`, true},
		{150004, membership{with: "web", admin: true}, `GRANT "r" TO "web"`, `REVOKE "r" FROM "web" CASCADE`, false},
		{160000, membership{with: "web", grantor: "g", inherit: &no, set: &yes}, with, `REVOKE "r" FROM "web" GRANTED BY "g" CASCADE`, true},
		{170000, membership{with: "web", grantor: "g", inherit: &yes, set: &yes}, with, `REVOKE "r" FROM "web" GRANTED BY "g" CASCADE`, false},
		{170000, membership{with: "web", grantor: "g", inherit: &no, set: &no}, with, `REVOKE "r" FROM "web" GRANTED BY "g" CASCADE`, false},
	} {
		s := &state{block: "b", database: "d", version: tt.version, logins: map[string]*liveRole{}}
		s.logins["web"] = &liveRole{name: "web", mark: s.loginMark("web")}
		if got := s.join("r", "web").sql; got != tt.join {
			t.Errorf("%d: %s, want %s", tt.version, got, tt.join)
		}
		if got := s.leave("r", "web", tt.m).sql; got != tt.quit {
			t.Errorf("%d: %s, want %s", tt.version, got, tt.quit)
		}
		if got := s.becomes(tt.m); got != tt.becomes {
			t.Errorf("%d: %+v is a membership as declared: %v, want %v", tt.version, tt.m, got, tt.becomes)
		}
	}
	if needs := (Role{Members: []string{"w"}, Database: "b"}).Needs(); len(needs) != 1 || needs[0] != reconciler.Addr("postgres.login.b.w") {
		t.Errorf("a role needs %v, want its member", needs)
	}
}
