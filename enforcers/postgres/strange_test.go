package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// sink has carol, who may make things elsewhere and triggers on leak.orders
// but read nothing, keep what her function is given where all can read it.
const sink = `GRANT CREATE ON SCHEMA elsewhere TO carol; GRANT USAGE ON SCHEMA leak TO carol; GRANT TRIGGER ON leak.orders TO carol; SET ROLE carol;
CREATE TABLE elsewhere.sink (x text); GRANT ALL ON elsewhere.sink TO PUBLIC;
CREATE FUNCTION elsewhere.t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO elsewhere.sink VALUES (NEW.user_id); RETURN NEW; END';
CREATE FUNCTION elsewhere.f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE FUNCTION elsewhere.yes(int, int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END'; RESET ROLE;
`

// mood is a type of carol's, which casts of hers can be made from and to.
const mood = `SET ROLE carol; CREATE TYPE elsewhere.mood AS ENUM ('good', 'bad');
CREATE FUNCTION elsewhere.said(elsewhere.mood) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN ''said''; END';
CREATE FUNCTION elsewhere.guess(text) RETURNS elsewhere.mood IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN ''bad''::elsewhere.mood; END'; RESET ROLE; `

// compares has carol compare numbers, and ints those of indexes that say so.
const compares = `SET ROLE carol; CREATE FUNCTION elsewhere.compare(int, int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN btint4cmp($1, $2); END'; RESET ROLE; `

const ints = `CREATE OPERATOR CLASS elsewhere.ints FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 elsewhere.compare(int, int); `

const sinkUndo = `DROP SCHEMA elsewhere CASCADE; DROP OWNED BY carol`

// What a stranger could replace runs with the rights of whoever works with the
// table; and ways that are told of by no privilege on a relation.
var strangeLeaks = []leak{
	{
		name: "trigger of a stranger", do: sink + `SET ROLE carol; CREATE TRIGGER t AFTER INSERT ON leak.orders FOR EACH ROW EXECUTE FUNCTION elsewhere.t()`, undo: sinkUndo, as: "leak_service",
		try: `INSERT INTO leak.orders VALUES (9, 'zoe'); SELECT count(*) FROM elsewhere.sink`, addr: "postgres.table.leaks.leak.orders", says: "no insert for anybody: it would reach elsewhere.t(), a function that",
	},
	{
		name: "a stranger's trigger of a part", do: sink + `CREATE TRIGGER t AFTER INSERT ON leak.events_one FOR EACH ROW EXECUTE FUNCTION elsewhere.t()`, undo: sinkUndo, as: "leak_service",
		try: `INSERT INTO leak.events VALUES ('zoe', 2); SELECT count(*) FROM elsewhere.sink`, addr: `postgres.table.leaks.leak.events`, says: "it would reach elsewhere.t()",
	},
	{
		name: "default of a stranger", do: sink + `ALTER TABLE leak.orders ALTER v SET DEFAULT elsewhere.f(1)`, undo: `ALTER TABLE leak.orders ALTER v SET DEFAULT 0; ` + sinkUndo, as: "leak_service",
		try: `INSERT INTO leak.orders VALUES (9, 'zoe')`, addr: "postgres.table.leaks.leak.orders", says: "no insert, update for anybody: it would reach elsewhere.f(integer)",
	},
	{
		name: "generated column of a stranger", do: sink + `ALTER TABLE leak.notes ADD g int GENERATED ALWAYS AS (elsewhere.f(v)) STORED`, undo: sinkUndo, as: "leak_service",
		try: `UPDATE leak.notes SET v = 3`, addr: "postgres.table.leaks.leak.notes", says: "it would reach elsewhere.f(integer)",
	},
	{
		name: "constraint of a stranger, by an operator", do: sink + `CREATE OPERATOR elsewhere.=== (FUNCTION = elsewhere.yes, LEFTARG = int, RIGHTARG = int); ALTER TABLE leak.notes ADD CONSTRAINT c CHECK (v OPERATOR(elsewhere.===) 1)`,
		undo: sinkUndo, as: "leak_service", try: `UPDATE leak.notes SET v = 3`, addr: "postgres.table.leaks.leak.notes", says: "it would reach elsewhere.yes(integer, integer)",
	},
	{
		name: "domain of a stranger", do: sink + `CREATE DOMAIN elsewhere.one AS int CHECK (elsewhere.yes(VALUE, 1)); CREATE DOMAIN elsewhere.two AS elsewhere.one; ALTER TABLE leak.notes ADD d elsewhere.two`, undo: sinkUndo, as: "leak_service",
		try: `UPDATE leak.notes SET d = 3`, addr: "postgres.table.leaks.leak.notes", says: "no insert, update for anybody: it would reach elsewhere.yes(integer, integer)",
	},
	{
		name: "index of a stranger", do: sink + `CREATE INDEX ON leak.notes (elsewhere.f(v))`, undo: sinkUndo, as: "leak_service",
		try: `UPDATE leak.notes SET v = 3`, addr: "postgres.table.leaks.leak.notes", says: "it would reach elsewhere.f(integer)",
	},
	{
		name: "restrictive policy of a stranger", do: sink + `CREATE POLICY r ON leak.notes AS RESTRICTIVE USING (elsewhere.yes(v, 1))`, undo: sinkUndo, as: "leak_service",
		try: `SELECT count(*) FROM leak.notes`, addr: "postgres.table.leaks.leak.notes", says: "no delete, insert, select, update for anybody: it would reach elsewhere.yes(integer, integer)",
	},
	{
		name: "domain of a stranger in a type", do: sink + `CREATE DOMAIN elsewhere.one AS int CHECK (elsewhere.yes(VALUE, 1)); CREATE TYPE elsewhere.pair AS (a elsewhere.one); ALTER TABLE leak.notes ADD p elsewhere.pair[]`, undo: sinkUndo, as: "leak_service",
		try: `UPDATE leak.notes SET p = '{(3)}'`, addr: "postgres.table.leaks.leak.notes", says: "no insert, update for anybody: it would reach elsewhere.yes(integer, integer)",
	},
	{
		name: "cast of a stranger's type", do: sink + mood + `SET ROLE carol; CREATE CAST (elsewhere.mood AS text) WITH FUNCTION elsewhere.said; RESET ROLE; ALTER TABLE leak.notes ADD m elsewhere.mood[] DEFAULT '{good}'`, undo: sinkUndo, as: "leak_service",
		try: `SELECT count(*) FROM leak.notes WHERE m::text[] = '{said}'`, addr: "postgres.table.leaks.leak.notes", says: "no delete, insert, select, update for anybody: it would reach elsewhere.said(elsewhere.mood)",
	},
	{
		name: "cast to another's type by a stranger", do: sink + mood + `ALTER TYPE elsewhere.mood OWNER TO app; CREATE CAST (text AS elsewhere.mood) WITH FUNCTION elsewhere.guess AS ASSIGNMENT; ALTER TABLE leak.notes ADD m elsewhere.mood`, undo: sinkUndo, as: "leak_service",
		try: `UPDATE leak.notes SET m = user_id`, addr: "postgres.table.leaks.leak.notes", says: "no delete, insert, select, update for anybody: it would reach elsewhere.guess(text)",
	},
	{
		name: "cast of the server's types by a stranger", do: sink + `CREATE FUNCTION elsewhere.at(int) RETURNS point LANGUAGE plpgsql AS 'BEGIN RETURN ''(1,1)''; END'; ALTER FUNCTION elsewhere.at OWNER TO carol; CREATE CAST (int AS point) WITH FUNCTION elsewhere.at`, undo: sinkUndo, as: "leak_service",
		try: `SELECT count(*) FROM leak.notes WHERE v::point ~= '(1,1)'`, addr: "postgres.table.leaks.leak.notes", says: "no delete, insert, select, update for anybody: it would reach elsewhere.at(integer)",
	},
	{
		name: "order of the server's types by a stranger", do: sink + `CREATE FUNCTION elsewhere.near(text, text, text, bool, bool) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END'; ALTER FUNCTION elsewhere.near OWNER TO carol; ALTER OPERATOR FAMILY text_ops USING btree ADD FUNCTION 3 (text, text) elsewhere.near(text, text, text, bool, bool)`,
		undo: `ALTER OPERATOR FAMILY text_ops USING btree DROP FUNCTION 3 (text, text); ` + sinkUndo, as: "leak_service", try: `SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY user_id RANGE BETWEEN 'a' PRECEDING AND CURRENT ROW) n FROM leak.notes) x`,
		addr: "postgres.table.leaks.leak.notes", says: "no delete, insert, select, update for anybody: it would reach elsewhere.near(text, text, text, boolean, boolean)",
	},
	{
		name: "range of a stranger", do: sink + `SET ROLE carol; CREATE FUNCTION elsewhere.far(text, text) RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'; CREATE TYPE elsewhere.span AS RANGE (SUBTYPE = text, SUBTYPE_DIFF = elsewhere.far); RESET ROLE; ALTER TABLE leak.notes ADD s elsewhere.span; CREATE INDEX ON leak.notes USING gist (s)`,
		undo: sinkUndo, as: "leak_service", try: `UPDATE leak.notes SET s = '[a,b]'`, addr: "postgres.table.leaks.leak.notes", says: "no delete, insert, select, update for anybody: it would reach elsewhere.far(text, text)",
	},
	{
		name: "operator class of a stranger's function", do: sink + compares + ints + `CREATE UNIQUE INDEX ON leak.orders (id elsewhere.ints); CREATE INDEX ON leak.notes (v elsewhere.ints)`, undo: sinkUndo, as: "leak_service",
		try: `SELECT 1 FROM (SELECT set_config('enable_seqscan', 'off', true)) s, (SELECT count(*) FROM leak.notes WHERE v = 0) n`, addr: "postgres.table.leaks.leak.notes", says: "no delete, insert, select, update for anybody: it would reach elsewhere.compare(integer, integer)",
	},
	{
		name: "key that an operator class of a stranger's decides", do: sink + compares + ints + `INSERT INTO leak.orders VALUES (3, 'x', 3); UPDATE leak.orders SET v = id; CREATE UNIQUE INDEX one ON leak.orders (v elsewhere.ints); ALTER TABLE leak.notes ADD k int REFERENCES leak.orders (v)`, undo: `ALTER TABLE leak.notes DROP k; DELETE FROM leak.orders WHERE id = 3; ` + sinkUndo, as: "leak_service",
		try: `UPDATE leak.notes SET k = 1`, addr: "postgres.table.leaks.leak.notes", says: "leak.notes: no insert, update for anybody: it would reach elsewhere.compare(integer, integer)",
	},
	{
		name: "key whose own index a stranger's function decides", do: sink + compares + ints + `ALTER TABLE leak.notes ADD k int REFERENCES leak.orders; CREATE INDEX ON leak.notes (k elsewhere.ints)`, undo: `ALTER TABLE leak.notes DROP k; ` + sinkUndo, as: "leak_service",
		try: `DELETE FROM leak.orders WHERE id = 2`, addr: "postgres.table.leaks.leak.orders", says: "leak.orders: no delete, update for anybody: it would reach elsewhere.compare(integer, integer)",
	},
	{
		name: "operator of the server's types by a stranger", do: sink + `CREATE FUNCTION elsewhere.alike(text, int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END'; ALTER FUNCTION elsewhere.alike OWNER TO carol; CREATE OPERATOR elsewhere.= (FUNCTION = elsewhere.alike, LEFTARG = text, RIGHTARG = int); ALTER OPERATOR FAMILY text_ops USING btree ADD OPERATOR 3 elsewhere.= (text, int)`,
		undo: `ALTER OPERATOR FAMILY text_ops USING btree DROP OPERATOR 3 (text, int); ` + sinkUndo, as: "leak_service", try: `SELECT count(*) FROM leak.notes WHERE user_id OPERATOR(elsewhere.=) 2`,
		addr: "postgres.table.leaks.leak.notes", says: "no delete, insert, select, update for anybody: it would reach elsewhere.alike(text, integer)",
	},
	{
		name: "order that a stranger's operator tells", do: sink + mood + `SET ROLE carol; CREATE FUNCTION elsewhere.less(elsewhere.mood, elsewhere.mood) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN false; END'; CREATE OPERATOR elsewhere.<< (FUNCTION = elsewhere.less, LEFTARG = elsewhere.mood, RIGHTARG = elsewhere.mood); RESET ROLE;
ALTER TYPE elsewhere.mood OWNER TO app; CREATE FUNCTION elsewhere.alike(elsewhere.mood, elsewhere.mood) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1::text = $2::text; END'; CREATE OPERATOR elsewhere.= (FUNCTION = elsewhere.alike, LEFTARG = elsewhere.mood, RIGHTARG = elsewhere.mood); CREATE OPERATOR CLASS elsewhere.moods DEFAULT FOR TYPE elsewhere.mood USING btree AS OPERATOR 1 elsewhere.<<, OPERATOR 3 elsewhere.=, FUNCTION 1 (elsewhere.mood, elsewhere.mood) enum_cmp(anyenum, anyenum); ALTER TABLE leak.notes ADD m elsewhere.mood`,
		undo: sinkUndo, as: "leak_service", try: `SELECT count(*) FROM (SELECT m FROM leak.notes ORDER BY m OFFSET 0) o`, addr: "postgres.table.leaks.leak.notes", says: "no delete, insert, select, update for anybody: it would reach elsewhere.less(elsewhere.mood, elsewhere.mood)",
	},
	{
		name: "view of a stranger's below", from: invokers, do: sink + `SET ROLE carol; CREATE VIEW elsewhere.w AS SELECT 1 AS x; GRANT SELECT ON elsewhere.w TO PUBLIC; RESET ROLE;
CREATE VIEW leak.v WITH (security_invoker = on) AS SELECT x FROM elsewhere.w; ALTER VIEW leak.v OWNER TO app; GRANT SELECT ON leak.v TO leak_service; SET ROLE carol; CREATE FUNCTION elsewhere.g() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM leak.notes); END'; CREATE OR REPLACE VIEW elsewhere.w AS SELECT elsewhere.g() AS x; RESET ROLE`,
		undo: `DROP VIEW leak.v; ` + sinkUndo, as: "leak_service", try: `SELECT x FROM leak.v`, addr: "postgres.table.leaks.leak.v", says: "leak.v: no delete, insert, select, update for anybody: it would reach the view elsewhere.w, which a stranger to it could have call what he likes",
	},
	{
		name: "function of a stranger's in a view below", from: invokers, do: sink + `CREATE VIEW elsewhere.w AS SELECT elsewhere.f(1) AS x; GRANT SELECT ON elsewhere.w TO PUBLIC; CREATE VIEW leak.v WITH (security_invoker = on) AS SELECT x FROM elsewhere.w; GRANT SELECT ON leak.v TO leak_service`,
		undo: `DROP VIEW leak.v; ` + sinkUndo, as: "leak_service", try: `SELECT x FROM leak.v`, addr: "postgres.table.leaks.leak.v", says: "leak.v: no delete, insert, select, update for anybody: it would reach elsewhere.f(integer)",
	},
	{
		name: "key to a project's table", do: `CREATE TABLE elsewhere.child (x int REFERENCES leak.orders); GRANT INSERT ON elsewhere.child TO PUBLIC`,
		try: `INSERT INTO elsewhere.child VALUES (2)`, addr: "elsewhere.child", says: "may INSERT: the table reaches leak.orders",
	},
	{
		name: "key of a project's table", do: `CREATE TABLE elsewhere.people (id text PRIMARY KEY); INSERT INTO elsewhere.people VALUES ('alice'), ('mallory'), ('zoe'); ALTER TABLE leak.notes ADD CONSTRAINT fk FOREIGN KEY (user_id) REFERENCES elsewhere.people; GRANT SELECT, DELETE ON elsewhere.people TO PUBLIC`,
		try: `DELETE FROM elsewhere.people WHERE id = 'zoe'`, addr: "elsewhere.people", says: "may DELETE: the table reaches leak.notes",
	},
	{
		name: "function hidden in an extension", do: `GRANT USAGE ON SCHEMA leak TO carol; GRANT SELECT ON leak.orders TO carol; CREATE POLICY carols ON leak.orders TO carol USING (true); CREATE FUNCTION elsewhere.f() RETURNS int` + definer + `ALTER FUNCTION elsewhere.f OWNER TO carol; ALTER EXTENSION plpgsql ADD FUNCTION elsewhere.f()`,
		try: `SELECT elsewhere.f()`, addr: "elsewhere.f()", says: "with the rights of carol", undo: `ALTER EXTENSION plpgsql DROP FUNCTION elsewhere.f(); DROP SCHEMA elsewhere CASCADE; DROP OWNED BY carol`,
	},
	{
		name: "function of the schema hidden in an extension", do: `CREATE ROLE leak_strong BYPASSRLS; GRANT USAGE ON SCHEMA leak TO leak_strong; GRANT SELECT ON leak.orders TO leak_strong; CREATE FUNCTION leak.f() RETURNS int` + definer + `ALTER FUNCTION leak.f OWNER TO leak_strong; ALTER EXTENSION plpgsql ADD FUNCTION leak.f(); GRANT EXECUTE ON FUNCTION leak.f TO PUBLIC`,
		try: `SELECT leak.f()`, addr: `postgres.function.leaks.leak."f()"`, undo: `ALTER EXTENSION plpgsql DROP FUNCTION leak.f(); DROP OWNED BY leak_strong; DROP ROLE leak_strong`,
	},
	{
		name: "language that only looks trusted", do: `GRANT CREATE ON SCHEMA elsewhere TO PUBLIC; UPDATE pg_language SET lanpltrusted = true WHERE lanname = 'internal'`, undo: `UPDATE pg_language SET lanpltrusted = false, lanacl = NULL WHERE lanname = 'internal'`,
		try: `CREATE FUNCTION elsewhere.f(text) RETURNS text LANGUAGE internal AS 'pg_read_file_all'`, addr: "language internal", says: "everybody (PUBLIC) may USAGE: the language reaches what nobody can tell from outside, with the rights of the user that the server runs as",
	},
	{
		name: "the authenticator on a foreign server", do: `CREATE FOREIGN DATA WRAPPER loop; CREATE SERVER loop FOREIGN DATA WRAPPER loop; CREATE USER MAPPING FOR leak_login SERVER loop; GRANT USAGE ON FOREIGN SERVER loop TO PUBLIC`,
		addr: "server loop", undo: `DROP FOREIGN DATA WRAPPER loop CASCADE`,
	},
}

// What no privilege closes is said, and apply fails until it is put right or
// trusted.
func TestChangedByHand(t *testing.T) {
	w := newWorld(t, "byhand", `CREATE SCHEMA byhand; CREATE TABLE byhand.t (user_id text)`)
	w.apply(project("byhand", "user_id"))
	for _, tt := range []struct{ name, do, undo, object, says string }{
		{
			"leakproof", `ALTER FUNCTION int4div(int, int) LEAKPROOF`, `ALTER FUNCTION int4div(int, int) NOT LEAKPROOF`,
			"pg_catalog.int4div(integer, integer)", "ALTER FUNCTION pg_catalog.int4div(integer, integer) NOT LEAKPROOF",
		},
		{
			"replaced", `CREATE OR REPLACE FUNCTION pg_catalog.texteq(text, text) RETURNS bool STRICT IMMUTABLE LEAKPROOF PARALLEL SAFE LANGUAGE plpgsql AS 'BEGIN RETURN byteaeq($1::bytea, $2::bytea); END'`,
			`CREATE OR REPLACE FUNCTION pg_catalog.texteq(text, text) RETURNS bool STRICT IMMUTABLE NOT LEAKPROOF PARALLEL SAFE LANGUAGE internal AS 'texteq'`,
			"pg_catalog.texteq(text, text)", "or replaced it; apply can't change it",
		},
		{
			"event trigger", `CREATE SCHEMA odd AUTHORIZATION carol; SET ROLE carol; CREATE FUNCTION odd.f() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; RESET ROLE; CREATE EVENT TRIGGER byhand_e ON ddl_command_end EXECUTE FUNCTION odd.f()`,
			`DROP EVENT TRIGGER byhand_e; DROP SCHEMA odd CASCADE`, "event trigger byhand_e", "ALTER EVENT TRIGGER byhand_e DISABLE",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			w.exec(tt.do)
			undone := false
			defer func() {
				if !undone {
					w.exec(tt.undo)
				}
			}()
			set := w.declared(project("byhand", "user_id"))
			r, p := w.plan(set)
			err := r.Apply(t.Context(), p, nil).Err()
			wantErr(t, err, "postgres.exposure.byhand", tt.object, tt.says)
			if _, again := w.plan(set); len(again.Changes) != 1 {
				t.Errorf("after apply the plan says %s", describe(again))
			}
			w.trusted = []string{tt.object}
			w.apply(project("byhand", "user_id"))
			w.trusted = nil
			w.exec(tt.undo)
			undone = true
			w.apply(project("byhand", "user_id"))
		})
	}
}

// Code of a stranger's that is declared or trusted may run; the owner's own,
// a superuser's and that of a member need not be.
func TestTrustedStrangers(t *testing.T) {
	trigger := func(schema, name, owner string) string {
		return "CREATE FUNCTION " + schema + "." + name + `() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; ALTER FUNCTION ` + schema + "." + name + " OWNER TO " + owner +
			"; CREATE TRIGGER " + name + " AFTER INSERT ON strangers.t FOR EACH ROW EXECUTE FUNCTION " + schema + "." + name + "();"
	}
	w := newWorld(t, "strangers", `CREATE SCHEMA strangers; CREATE TABLE strangers.t (user_id text); ALTER TABLE strangers.t OWNER TO app; CREATE SCHEMA els; DROP ROLE IF EXISTS apps_too; CREATE ROLE apps_too IN ROLE app;`+
		`CREATE TYPE strangers.state AS ENUM ('on'); ALTER TYPE strangers.state OWNER TO app; ALTER TABLE strangers.t ADD s strangers.state; GRANT CREATE, USAGE ON SCHEMA els TO carol; GRANT USAGE ON SCHEMA strangers TO carol; SET ROLE carol; CREATE TYPE els.hers AS ENUM ('on');
CREATE FUNCTION els.cast(strangers.state) RETURNS els.hers LANGUAGE plpgsql AS 'BEGIN RETURN ''on''::els.hers; END'; CREATE CAST (strangers.state AS els.hers) WITH FUNCTION els.cast AS IMPLICIT; RESET ROLE;`+
		trigger("els", "trusted", "carol")+trigger("strangers", "declared", "carol")+trigger("els", "own", "app")+trigger("els", "root", "postgres")+trigger("els", "too", "apps_too"))
	t.Cleanup(func() { w.exec("DROP OWNED BY apps_too CASCADE; DROP ROLE apps_too") })
	w.trusted = []string{"els.trusted()"}
	p := withFunctions(project("strangers", "user_id"), specs.FunctionAccess{Name: "declared"})
	w.apply(p)
	if _, plan := w.plan(w.declared(p)); len(plan.Notes) > 0 {
		t.Errorf("notes: %v", plan.Notes)
	}
	insert := leak{try: `INSERT INTO strangers.t VALUES ('x')`, as: "strangers_service"}
	if !w.leaks(insert) {
		t.Error("what is trusted and declared is refused")
	}
	w.trusted = nil
	w.apply(p)
	_, plan := w.plan(w.declared(p))
	if len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0].Text, "els.trusted()") || w.leaks(insert) {
		t.Errorf("untrusted: %v", plan.Notes)
	}
}

// Publications and slots give nobody rows: reading them takes REPLICATION,
// which no role of a project may have.
func TestNoReplicationForProjects(t *testing.T) {
	w := newWorld(t, "published", `CREATE SCHEMA published; CREATE TABLE published.t (user_id text); CREATE PUBLICATION everything FOR ALL TABLES`)
	w.apply(project("published", "user_id"))
	for _, role := range []string{"published_anon", "published_user", "published_admin", "published_service"} {
		for _, try := range []string{
			`SELECT count(*) FROM pg_create_logical_replication_slot('mine', 'test_decoding')`,
			`SELECT count(*) FROM pg_logical_slot_peek_changes('any', NULL, NULL)`,
			`CREATE PUBLICATION mine`,
			`ALTER PUBLICATION everything OWNER TO CURRENT_USER`,
		} {
			if w.leaks(leak{try: try, as: role}) {
				t.Errorf("%s may %s", role, try)
			}
		}
	}
	w.exec(`ALTER ROLE published_user REPLICATION`)
	if _, p := w.plan(w.declared(project("published", "user_id"))); len(p.Changes) != 1 || p.Changes[0].Action() != reconciler.Update {
		t.Errorf("REPLICATION is not seen:\n%s", describe(p))
	}
	w.apply(project("published", "user_id"))
}

// A table of others that hangs on two projects' ties neither to the other.
func TestKeysToTwoProjects(t *testing.T) {
	w := newWorld(t, "keys", `CREATE SCHEMA keyone; CREATE SCHEMA keytwo; CREATE SCHEMA keyhole;
CREATE TABLE keyone.t (id int PRIMARY KEY, user_id text); CREATE TABLE keytwo.t (id int PRIMARY KEY, user_id text); INSERT INTO keyone.t VALUES (1, 'alice');
CREATE TABLE keyhole.both (a int REFERENCES keyone.t ON DELETE CASCADE ON UPDATE CASCADE, b int REFERENCES keytwo.t ON DELETE CASCADE);
CREATE VIEW keyhole.v AS SELECT * FROM keyhole.both; GRANT USAGE ON SCHEMA keyhole TO PUBLIC; GRANT ALL ON keyhole.both, keyhole.v TO PUBLIC`)
	insert := leak{try: `INSERT INTO keyhole.v VALUES (1, NULL)`, as: "keytwo_anon"}
	w.apply(project("keyone", "user_id"), project("keytwo", "user_id"))
	if w.leaks(insert) {
		t.Error("the view of a table tells of a project's keys")
	}
	_, p := w.plan(w.declared(project("keyone", "user_id"), project("keytwo", "user_id")))
	if len(p.Notes) > 0 || !w.leaks(leak{try: `DELETE FROM keyone.t`, as: "keyone_service"}) || !w.leaks(leak{try: `SELECT 1 FROM (SELECT count(*) FROM keyhole.both) x`, as: "keytwo_anon"}) {
		t.Errorf("more is taken than leads somewhere: %v", p.Notes)
	}
}

// What leads past policies is known before a schema bears a mark: nothing is
// given that the next plan would take away.
func TestFirstApplyKnowsTheWays(t *testing.T) {
	w := newWorld(t, "firsts", `CREATE SCHEMA firsts AUTHORIZATION app; CREATE TABLE firsts.t (user_id text); ALTER TABLE firsts.t OWNER TO app; INSERT INTO firsts.t VALUES ('alice');
CREATE SCHEMA "odd {""} \"; GRANT USAGE ON SCHEMA "odd {""} \" TO PUBLIC; CREATE VIEW "odd {""} \".v AS SELECT * FROM firsts.t; GRANT SELECT ON "odd {""} \".v TO PUBLIC;
CREATE FUNCTION "odd {""} \".t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; ALTER FUNCTION "odd {""} \".t OWNER TO carol; CREATE TRIGGER t AFTER INSERT ON firsts.t FOR EACH ROW EXECUTE FUNCTION "odd {""} \".t()`)
	w.apply(project("firsts", "user_id"))
	for _, l := range []leak{
		{try: `SELECT count(*) FROM "odd {""} \".v`, as: "firsts_anon"},
		{try: `INSERT INTO firsts.t VALUES ('zoe')`, as: "firsts_service"},
	} {
		if w.leaks(l) {
			t.Errorf("%s may %s after the first apply", l.as, l.try)
		}
	}
}

// A schema's name is no more than a name to what tells which are declared.
func TestDeclaredSchemas(t *testing.T) {
	w := newWorld(t, "names", `CREATE SCHEMA plain; CREATE SCHEMA "a ""b\,{}"; CREATE SCHEMA other_one`)
	e := w.enforcer(t)
	e.declared = map[string][]string{"names": {"plain", `a "b\,{}`}}
	var got []string
	err := e.reading(t.Context(), "names", func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), powerCTE+`SELECT nspname::text FROM pg_namespace WHERE oid IN (TABLE marked) ORDER BY 1`)
		if err == nil {
			got, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		return err
	})
	if err != nil || !slices.Equal(got, []string{`a "b\,{}`, "plain"}) {
		t.Errorf("%q, %v", got, err)
	}
}
