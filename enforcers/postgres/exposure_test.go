package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// leak is a way by hand to rows of a project past its declaration.
type leak struct {
	name string
	do   string
	try  string // by which a role of the project reads, or writes, what it should not
	as   string // the role; "" is leak_anon; what can log in does
	addr string // of the change that repairs it
	says string // in a note of the plan, or of the plan's form
	undo string // "" drops the schema elsewhere
	from int    // the version that it came with; 0 is any
}

// leaksSQL has two projects' tables, made by app; carol is a stranger.
const leaksSQL = `
CREATE SCHEMA leak AUTHORIZATION app; CREATE SCHEMA leaktwo AUTHORIZATION app;
SET ROLE app;
CREATE TABLE leak.orders (id int PRIMARY KEY, user_id text, v int DEFAULT 0); INSERT INTO leak.orders VALUES (1, 'alice'), (2, 'mallory');
CREATE TABLE leak.notes (user_id text, v int DEFAULT 0); INSERT INTO leak.notes VALUES ('alice'), ('mallory');
CREATE TABLE leak.events (user_id text, v int) PARTITION BY RANGE (v); CREATE TABLE leak.events_one PARTITION OF leak.events FOR VALUES FROM (0) TO (10);
INSERT INTO leak.events VALUES ('alice', 1);
CREATE TABLE leaktwo.things (id int PRIMARY KEY, user_id text, v int DEFAULT 0); INSERT INTO leaktwo.things VALUES (1, 'bob');
RESET ROLE;
`

const definer = ` LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN (SELECT count(*) FROM leak.orders); END'; `

var leaks = []leak{
	{
		name: "the authenticator's membership", do: `GRANT pg_read_all_data TO leak_login; CREATE ROLE leak_strong BYPASSRLS; GRANT SELECT ON leak.orders TO leak_strong; GRANT USAGE ON SCHEMA leak TO leak_strong; GRANT leak_strong TO leak_login`,
		as: "leak_login", try: `SET ROLE leak_strong; SELECT count(*) FROM leak.orders`, addr: "postgres.login.leaks.leak_login", says: `member of \"pg_read_all_data\"`, undo: `DROP OWNED BY leak_strong; DROP ROLE leak_strong`,
	},
	{
		name: "the authenticator's grant", do: `GRANT USAGE ON SCHEMA leak TO leak_login; GRANT SELECT ON leak.orders TO leak_login; CREATE POLICY p ON leak.orders TO leak_login USING (true)`,
		as: "leak_login", try: `SELECT count(*) FROM leak.orders`, addr: "postgres.table.leaks.leak.orders", says: "leak_login",
	},
	{
		name: "the authenticator's view", do: `CREATE VIEW elsewhere.v AS SELECT * FROM leak.orders; GRANT SELECT ON elsewhere.v TO leak_login`,
		as: "leak_login", try: `SELECT count(*) FROM elsewhere.v`, addr: "elsewhere.v", says: "leak_login may SELECT",
	},
	{
		name: "somebody becomes the authenticator", do: `GRANT leak_login TO carol`, as: "carol", try: `SET ROLE leak_admin; SELECT count(*) FROM leak.orders`,
		addr: "postgres.login.leaks.leak_login", says: `has the member \"carol\"`,
	},
	{
		name: "view", do: `CREATE VIEW elsewhere.v AS SELECT * FROM leak.orders; GRANT SELECT ON elsewhere.v TO PUBLIC`,
		try: `SELECT count(*) FROM elsewhere.v`, addr: "postgres.exposure.leaks.\"elsewhere.v\"",
		says: "everybody (PUBLIC) may SELECT: the view reaches leak.orders with the rights of postgres; apply takes these privileges and nothing else",
	},
	{
		name: "view for a role", do: `CREATE VIEW elsewhere.v AS SELECT * FROM leak.orders; GRANT SELECT (v), UPDATE ON elsewhere.v TO leak_user`,
		try: `SELECT count(v) FROM elsewhere.v`, as: "leak_user", addr: "elsewhere.v", says: "leak_user may SELECT (v), UPDATE: the view",
	},
	{
		name: "view of a view", do: `CREATE SCHEMA hidden; CREATE VIEW hidden.v AS SELECT * FROM leak.orders; CREATE VIEW elsewhere.v AS SELECT * FROM hidden.v; GRANT DELETE, SELECT ON elsewhere.v TO PUBLIC`,
		try: `WITH d AS (DELETE FROM elsewhere.v RETURNING 1) SELECT count(*) FROM d`, addr: "elsewhere.v", says: "DELETE, SELECT", undo: `DROP SCHEMA hidden CASCADE`,
	},
	{
		name: "materialized view", do: `CREATE MATERIALIZED VIEW elsewhere.m AS SELECT * FROM leak.orders; GRANT SELECT ON elsewhere.m TO PUBLIC`,
		try: `SELECT count(*) FROM elsewhere.m`, addr: "elsewhere.m", says: "materialized view",
	},
	{
		name: "view of the standard's", do: `CREATE OR REPLACE VIEW information_schema.information_schema_catalog_name AS SELECT (SELECT string_agg(user_id, ',') FROM leak.orders)::information_schema.sql_identifier AS catalog_name; GRANT SELECT ON information_schema.information_schema_catalog_name TO PUBLIC`,
		try: `SELECT 1 FROM information_schema.information_schema_catalog_name WHERE catalog_name LIKE '%mallory%'`, addr: "information_schema_catalog_name",
		undo: `CREATE OR REPLACE VIEW information_schema.information_schema_catalog_name AS SELECT current_database()::information_schema.sql_identifier AS catalog_name; GRANT SELECT ON information_schema.information_schema_catalog_name TO PUBLIC`,
	},
	{
		name: "rule of a foreign table", do: `CREATE TABLE elsewhere.hole (x int); CREATE RULE r AS ON INSERT TO elsewhere.hole DO INSTEAD DELETE FROM leak.orders; GRANT INSERT ON elsewhere.hole TO PUBLIC`,
		try: `INSERT INTO elsewhere.hole VALUES (1)`, addr: "elsewhere.hole", says: "may INSERT: the table",
	},
	{
		name: "trigger of a foreign table", do: `CREATE TABLE elsewhere.hole (x int); CREATE FUNCTION elsewhere.t() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN DELETE FROM leak.orders; RETURN NEW; END';
REVOKE EXECUTE ON FUNCTION elsewhere.t FROM PUBLIC; CREATE TRIGGER t BEFORE INSERT ON elsewhere.hole FOR EACH ROW EXECUTE FUNCTION elsewhere.t(); GRANT INSERT ON elsewhere.hole TO PUBLIC`,
		try: `INSERT INTO elsewhere.hole VALUES (1)`, addr: "elsewhere.hole", says: "elsewhere.t()",
	},
	{
		name: "parent of a table", do: `CREATE TABLE elsewhere.parent (user_id text); ALTER TABLE leak.orders INHERIT elsewhere.parent; GRANT SELECT ON elsewhere.parent TO PUBLIC`,
		try: `SELECT count(*) FROM elsewhere.parent`, addr: "elsewhere.parent", undo: `ALTER TABLE leak.orders NO INHERIT elsewhere.parent; DROP SCHEMA elsewhere CASCADE`,
	},
	{
		name: "partitioned table around it", do: `CREATE TABLE elsewhere.parent (user_id text, v int) PARTITION BY RANGE (v); ALTER TABLE elsewhere.parent ATTACH PARTITION leak.notes DEFAULT; GRANT SELECT, TRUNCATE ON elsewhere.parent TO PUBLIC`,
		try: `SELECT count(*) FROM elsewhere.parent`, addr: "elsewhere.parent", says: "SELECT, TRUNCATE", undo: `ALTER TABLE elsewhere.parent DETACH PARTITION leak.notes; DROP SCHEMA elsewhere CASCADE`,
	},
	{
		name: "partition elsewhere", do: `CREATE TABLE elsewhere.part PARTITION OF leak.events DEFAULT; INSERT INTO leak.events VALUES ('mallory', 11); GRANT SELECT ON elsewhere.part TO PUBLIC`,
		try: `SELECT count(*) FROM elsewhere.part`, addr: "elsewhere.part",
	},
	{
		name: "foreign key that deletes", do: `CREATE TABLE elsewhere.people (id text PRIMARY KEY); INSERT INTO elsewhere.people VALUES ('alice'), ('mallory'); ALTER TABLE leak.notes ADD CONSTRAINT fk FOREIGN KEY (user_id) REFERENCES elsewhere.people ON DELETE CASCADE; GRANT SELECT, DELETE ON elsewhere.people TO PUBLIC`,
		try: `DELETE FROM elsewhere.people`, addr: "elsewhere.people", says: "may DELETE: the table",
	},
	{
		name: "foreign table", do: `CREATE FOREIGN DATA WRAPPER loop; CREATE SERVER loop FOREIGN DATA WRAPPER loop; CREATE FOREIGN TABLE elsewhere.far (x int) SERVER loop; GRANT SELECT ON elsewhere.far TO PUBLIC`,
		addr: "elsewhere.far", undo: `DROP FOREIGN DATA WRAPPER loop CASCADE`,
	},
	{
		name: "foreign server", do: `CREATE FOREIGN DATA WRAPPER loop; CREATE SERVER loop FOREIGN DATA WRAPPER loop; CREATE USER MAPPING FOR PUBLIC SERVER loop; GRANT USAGE ON FOREIGN SERVER loop TO PUBLIC`,
		addr: "server loop", undo: `DROP FOREIGN DATA WRAPPER loop CASCADE`,
	},
	{
		name: "somebody on a foreign server", do: `CREATE FOREIGN DATA WRAPPER loop; CREATE SERVER loop FOREIGN DATA WRAPPER loop; CREATE USER MAPPING FOR leak_user SERVER loop`,
		addr: "postgres.role.leaks.leak_user", says: "user mapping", undo: `DROP FOREIGN DATA WRAPPER loop CASCADE`,
	},
	{
		name: "function", do: `CREATE FUNCTION elsewhere.f(int) RETURNS int` + definer,
		try: `SELECT elsewhere.f(1)`, addr: "elsewhere.f(integer)", says: "may EXECUTE: the function reaches what nobody can tell from outside, with the rights of postgres",
	},
	{
		name: "function of a member of the owner", do: `GRANT app TO carol; CREATE FUNCTION elsewhere.f() RETURNS int` + definer + `ALTER FUNCTION elsewhere.f OWNER TO carol`,
		addr: "elsewhere.f()", undo: `DROP SCHEMA elsewhere CASCADE; REVOKE app FROM carol`,
	},
	{
		name: "function of somebody with a policy", do: `GRANT USAGE ON SCHEMA leak TO carol; GRANT SELECT ON leak.orders TO carol; CREATE POLICY carols ON leak.orders TO carol USING (true); CREATE FUNCTION elsewhere.f() RETURNS int` + definer + `ALTER FUNCTION elsewhere.f OWNER TO carol`,
		try: `SELECT elsewhere.f()`, addr: "elsewhere.f()", says: "with the rights of carol", undo: `DROP SCHEMA elsewhere CASCADE; DROP OWNED BY carol`,
	},
	{
		name: "procedure", do: `CREATE PROCEDURE elsewhere.p() LANGUAGE sql SECURITY DEFINER BEGIN ATOMIC DELETE FROM leak.orders; END`,
		try: `CALL elsewhere.p()`, addr: "elsewhere.p()",
	},
	{
		name: "function in an aggregate", do: `CREATE SCHEMA hidden; CREATE FUNCTION hidden.f(int, int) RETURNS int` + definer + `REVOKE EXECUTE ON FUNCTION hidden.f FROM PUBLIC; CREATE AGGREGATE elsewhere.a(int) (sfunc = hidden.f, stype = int)`,
		try: `SELECT elsewhere.a(1)`, addr: "elsewhere.a(integer)", says: "a function inside", undo: `DROP SCHEMA elsewhere CASCADE; DROP SCHEMA hidden CASCADE`,
	},
	{
		name: "function by a cast", do: `CREATE TYPE elsewhere.e AS ENUM ('x'); CREATE SCHEMA hidden; CREATE FUNCTION hidden.f(elsewhere.e) RETURNS int` + definer + `CREATE CAST (elsewhere.e AS int) WITH FUNCTION hidden.f`,
		try: `SELECT 'x'::elsewhere.e::int`, addr: "hidden.f(elsewhere.e)", undo: `DROP SCHEMA elsewhere CASCADE; DROP SCHEMA hidden CASCADE`,
	},
	{
		name: "function of the catalog's schema", do: `CREATE FUNCTION pg_catalog.f() RETURNS int` + definer,
		try: `SELECT f()`, addr: "pg_catalog.f()", undo: `DROP FUNCTION pg_catalog.f()`,
	},
	{
		name: "leakproof function", do: `CREATE FUNCTION elsewhere.peek(text) RETURNS bool LEAKPROOF COST 0.0001 LANGUAGE plpgsql AS 'BEGIN IF $1 = ''mallory'' THEN RAISE EXCEPTION ''%'', $1; END IF; RETURN true; END'`,
		addr: "elsewhere.peek(text)", says: "a leakproof function",
	},
	{
		name: "function that the server keeps", do: `GRANT EXECUTE ON FUNCTION pg_read_file(text) TO PUBLIC`,
		try: `SELECT length(pg_read_file('PG_VERSION'))`, addr: "pg_catalog.pg_read_file(text)", undo: `REVOKE EXECUTE ON FUNCTION pg_read_file(text) FROM PUBLIC`,
	},
	{
		name: "catalog that the server keeps", do: `GRANT SELECT ON pg_statistic TO PUBLIC; GRANT SELECT (rolpassword) ON pg_authid TO PUBLIC`,
		try: `SELECT count(*) FROM pg_statistic`, addr: "pg_catalog.pg_authid", undo: `REVOKE SELECT ON pg_statistic FROM PUBLIC`,
	},
	{
		name: "claims for everybody", do: `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET request.jwt.claims = %L', current_database(), '{"sub":"mallory"}'); END $$`,
		try: `SELECT count(*) FROM leak.notes`, as: "leak_user", addr: "setting request.jwt.claims",
	},
	{
		name: "claims in the cluster", do: `ALTER ROLE ALL SET "Request.jwt.claims" = '{"sub":"mallory"}'; ALTER ROLE ALL SET role = 'leak_admin'`,
		try: `SELECT count(*) FROM leak.notes`, as: "leak_user", addr: "setting Request.jwt.claims", undo: `ALTER ROLE ALL RESET ALL`,
	},
	{name: "event triggers off in the cluster", from: 17, do: `ALTER ROLE ALL SET event_triggers = off`, addr: "setting event_triggers", undo: `ALTER ROLE ALL RESET ALL`},
	{name: "role for everybody", do: `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET role = leak_admin', current_database()); END $$`, addr: "setting role"},
	{
		name: "default for PUBLIC", do: `ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO PUBLIC; SET ROLE app; CREATE VIEW leak.fresh AS SELECT 1; RESET ROLE`,
		try: `SELECT count(*) FROM pg_default_acl, aclexplode(defaclacl) WHERE grantee = 0 AND defaclobjtype = 'r'`, addr: "postgres.defaults.leaks.app", says: "SELECT on TABLES", undo: `DROP VIEW leak.fresh`,
	},
	{
		name: "default for a role", do: `ALTER DEFAULT PRIVILEGES IN SCHEMA elsewhere GRANT SELECT ON TABLES TO leak_anon`, addr: "postgres.defaults.leaks.postgres",
	},
	{
		name: "parameter", from: 15, do: `GRANT SET ON PARAMETER session_replication_role TO leak_user; GRANT ALTER SYSTEM ON PARAMETER archive_command TO leak_user`, as: "leak_user",
		try: `SET LOCAL session_replication_role = replica`, addr: "postgres.role.leaks.leak_user", says: "ALTER SYSTEM on PARAMETER archive_command",
	},
	{
		name: "parameter for PUBLIC", from: 15, do: `GRANT SET ON PARAMETER session_replication_role TO PUBLIC`,
		try: `SET LOCAL session_replication_role = replica`, addr: "parameter session_replication_role",
	},
	{
		name: "rule of a table", do: `CREATE RULE r AS ON UPDATE TO leak.orders DO ALSO DELETE FROM leaktwo.things`, as: "leak_user",
		try: `WITH u AS (SELECT set_config('request.jwt.claims', '{"sub":"alice"}', true)) SELECT 1 FROM u; UPDATE leak.orders SET v = 3`, addr: "postgres.table.leaks.leak.orders",
		says: "no update for anybody: it would reach leaktwo.things, past its policies", undo: `DROP RULE r ON leak.orders`,
	},
	{
		name: "trigger of a table", do: `CREATE FUNCTION elsewhere.t() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN DELETE FROM leaktwo.things; RETURN NEW; END'; REVOKE EXECUTE ON FUNCTION elsewhere.t FROM PUBLIC; CREATE TRIGGER t AFTER UPDATE ON leak.orders EXECUTE FUNCTION elsewhere.t()`,
		try: `UPDATE leak.orders SET v = 3`, as: "leak_user", addr: "postgres.table.leaks.leak.orders", says: "it would reach elsewhere.t(), a function",
	},
	{
		name: "trigger of a partitioned table, by its part", do: `CREATE FUNCTION elsewhere.t() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN DELETE FROM leaktwo.things; RETURN OLD; END'; REVOKE EXECUTE ON FUNCTION elsewhere.t FROM PUBLIC; CREATE TRIGGER t AFTER DELETE ON leak.events FOR EACH ROW EXECUTE FUNCTION elsewhere.t()`,
		try: `DELETE FROM leak.events_one`, as: "leak_admin", addr: "postgres.table.leaks.leak.events_one", says: "it would reach elsewhere.t()",
	},
	{
		name: "trigger of the schema's own function", do: `CREATE FUNCTION leak.t() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN DELETE FROM leaktwo.things; RETURN NEW; END'; CREATE TRIGGER t AFTER INSERT ON leak.events_one FOR EACH ROW EXECUTE FUNCTION leak.t()`,
		try: `INSERT INTO leak.events VALUES ('alice', 2)`, as: "leak_admin", addr: "postgres.table.leaks.leak.events", says: "it would reach leak.t(), a function", undo: `DROP FUNCTION leak.t CASCADE`,
	},
	{
		name: "part of another project", do: `CREATE TABLE leaktwo.sub () INHERITS (leak.orders); INSERT INTO leaktwo.sub VALUES (7, 'alice')`, as: "leak_service",
		try: `SELECT 1 FROM leak.orders WHERE id = 7`, addr: "postgres.table.leaks.leak.orders", says: "it would reach leaktwo.sub", undo: `DROP TABLE leaktwo.sub`,
	},
	{
		name: "copy of another project", do: `CREATE MATERIALIZED VIEW leak.copy AS SELECT * FROM leaktwo.things; GRANT SELECT ON leak.copy TO leak_service`, as: "leak_service",
		try: `SELECT count(*) FROM leak.copy`, addr: "postgres.table.leaks.leak.copy", undo: `DROP MATERIALIZED VIEW leak.copy`,
	},
	{
		name: "foreign key from another project", do: `ALTER TABLE leaktwo.things ADD CONSTRAINT fk FOREIGN KEY (id) REFERENCES leak.orders ON DELETE CASCADE`, as: "leak_user",
		try: `DELETE FROM leak.orders`, addr: "postgres.table.leaks.leak.orders", says: "no delete for anybody: it would reach leaktwo.things", undo: `ALTER TABLE leaktwo.things DROP CONSTRAINT fk`,
	},
	{
		name: "function in the schema", do: `CREATE FUNCTION leak.f() RETURNS int` + definer + `GRANT EXECUTE ON FUNCTION leak.f TO leak_admin`, as: "leak_admin",
		try: `SELECT leak.f()`, addr: `postgres.function.leaks.leak."f()"`, says: "nobody may execute it: it runs with the rights of postgres", undo: `DROP FUNCTION leak.f`,
	},
}

// Each way is seen and named, repaired by one apply, and closed, while what
// strangers made is still there.
func TestLeaks(t *testing.T) {
	w := newWorld(t, "leaks", leaksSQL)
	w.authenticator = "leak_login"
	projects := func() []specs.Project {
		return []specs.Project{
			project("leak", "user_id", specs.TableAccess{Name: "copy", Anonymous: []string{"select"}}),
			project("leaktwo", "user_id"),
		}
	}
	w.apply(projects()...)
	for _, l := range slices.Concat(leaks, strangeLeaks) {
		if w.major() < l.from {
			continue
		}
		l.says = older(w.major(), l.says)
		ran := false // -run may ask for others
		t.Run(l.name, func(t *testing.T) {
			ran = true
			w := *w
			w.t = t
			w.exec(`CREATE SCHEMA IF NOT EXISTS elsewhere; GRANT USAGE ON SCHEMA elsewhere TO PUBLIC`)
			defer w.exec(`DROP SCHEMA IF EXISTS elsewhere CASCADE`)
			w.exec(l.do)
			if l.undo != "" {
				defer w.exec(l.undo)
			}
			if l.try != "" && !w.leaks(l) {
				t.Error("it does not leak: the test shows nothing")
			}
			set := w.declared(projects()...)
			_, p := w.plan(set)
			said := describe(p)
			for _, n := range p.Notes {
				said += "\n" + string(n.Addr) + ": " + n.Text
			}
			named := slices.ContainsFunc(p.Changes, func(c reconciler.Change) bool { return strings.Contains(string(c.Addr()), l.addr) })
			if !named || !strings.Contains(said, l.says) {
				t.Errorf("the plan does not name %s and say %q:\n%s", l.addr, l.says, said)
			}
			w.apply(projects()...)
			if l.try != "" && w.leaks(l) {
				t.Error("it leaks after apply")
			}
		})
		if ran && strings.HasPrefix(l.addr, "postgres.table") { // what was withheld comes back
			w.apply(projects()...)
		}
	}
	w.apply(projects()...)
}

// leaks tells whether the role gets a number above 0, or what it tries done.
func (w *world) leaks(l leak) bool {
	w.t.Helper()
	ctx := context.Background()
	url, become := w.url, "SET LOCAL ROLE "+cmp.Or(l.as, "leak_anon")+";"
	if l.as == "leak_login" || l.as == "carol" {
		url, become = pgtest.As(w.t, w.url, l.as, ""), ""
	}
	conn := pgtest.Connect(w.t, url)
	defer conn.Close(ctx)
	var got string
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		results, err := tx.Conn().PgConn().Exec(ctx, become+l.try).ReadAll()
		if err != nil {
			return err
		}
		got = "1"
		if last := results[len(results)-1]; strings.HasPrefix(last.CommandTag.String(), "SELECT") {
			got = "0"
			if len(last.Rows) > 0 {
				got = string(last.Rows[0][0])
			}
		}
		return errRollback
	})
	switch {
	case refused(err):
		return false
	case err != errRollback:
		w.t.Fatal(err)
	}
	return got != "0"
}

// What is trusted stays as it is, and works; so does what is declared.
func TestTrusted(t *testing.T) {
	w := newWorld(t, "trusts", `CREATE SCHEMA trusts; CREATE TABLE trusts.t (user_id text, v int); INSERT INTO trusts.t VALUES ('alice', 1); CREATE SCHEMA "Else where"; GRANT USAGE ON SCHEMA "Else where" TO PUBLIC;
CREATE VIEW "Else where"."all" AS SELECT * FROM trusts.t; GRANT SELECT ON "Else where"."all" TO PUBLIC;
CREATE FUNCTION "Else where".f(int, "Else where"."all") RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM trusts.t';
CREATE FUNCTION "Else where".audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER a AFTER INSERT ON trusts.t FOR EACH ROW EXECUTE FUNCTION "Else where".audit();
CREATE FUNCTION trusts."ow n"() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER b AFTER INSERT ON trusts.t FOR EACH ROW EXECUTE FUNCTION trusts."ow n"();
CREATE TABLE "Else where".log (x int); CREATE TRIGGER c AFTER INSERT ON "Else where".log FOR EACH ROW EXECUTE FUNCTION "Else where".audit(); GRANT INSERT ON "Else where".log TO PUBLIC;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET row_security = on', current_database()); END $$`)
	w.trusted = []string{`"Else where"."all"`, `"Else where".audit()`, `"Else where".f(integer, "Else where"."all")`, "setting row_security"}
	p := withFunctions(project("trusts", "user_id"), specs.FunctionAccess{Name: "ow n"})
	w.apply(p)
	if _, plan := w.plan(w.declared(p)); len(plan.Notes) > 0 {
		t.Errorf("notes: %v", plan.Notes)
	}
	for try, as := range map[string]string{
		`SELECT count(*) FROM "Else where"."all"`:               "trusts_anon",
		`SELECT "Else where".f(1, NULL)`:                        "trusts_anon",
		`INSERT INTO trusts.t VALUES ('x', 1)`:                  "trusts_service",
		`INSERT INTO "Else where".log VALUES (1)`:               "trusts_user",
		`SELECT 1 WHERE current_setting('row_security') = 'on'`: "trusts_user",
	} {
		if !w.leaks(leak{try: try, as: as}) {
			t.Errorf("%s refuses %s", try, as)
		}
	}
	w.trusted = nil
	_, plan := w.plan(w.declared(p))
	if got := len(plan.Changes); got != 6 { // five exposures, and the table's insert
		t.Errorf("%d changes when nothing is trusted:\n%s", got, describe(plan))
	}
	w.apply(p)
}

// Before 15 parameters have no privileges, and no catalog of them.
func TestExposureByVersion(t *testing.T) {
	for version, want := range map[int]bool{130000: false, 140000: false, 150000: true, 170000: true} {
		for _, sql := range []string{exposedOthersSQL(version), straysSQL(version)} {
			if got := strings.Contains(sql, "pg_parameter_acl"); got != want {
				t.Errorf("%d: asks for parameters: %v", version, got)
			}
		}
	}
}
