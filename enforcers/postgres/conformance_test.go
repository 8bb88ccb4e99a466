package postgres

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

func describe(p *reconciler.Plan) string { return enforcertest.Describe(p.Changes) }

// odd is a project, and a column, of a name that needs quoting everywhere.
const odd = `o'dd "ñame`

// applicationSQL is what migrations made, as the role app.
const applicationSQL = `
CREATE SCHEMA shop AUTHORIZATION app;
COMMENT ON SCHEMA shop IS 'the shop''s own words';
CREATE SCHEMA tenant AUTHORIZATION app;
CREATE SCHEMA "o'dd ""ñame" AUTHORIZATION app;
SET ROLE app;
CREATE TABLE shop.products (id serial PRIMARY KEY, title text);
CREATE TABLE shop.orders (id serial PRIMARY KEY, user_id uuid, total int);
COMMENT ON TABLE shop.orders IS 'cordon: not a mark, an application''s own words';
CREATE TABLE shop.audit_log (id int GENERATED ALWAYS AS IDENTITY, user_id text, what text);
CREATE TABLE shop.notes (id int, user_id varchar(40), body text);
CREATE TABLE shop.events (id int, user_id int, at date) PARTITION BY RANGE (at);
CREATE TABLE shop.events_old PARTITION OF shop.events FOR VALUES FROM ('2000-01-01') TO ('2020-01-01') PARTITION BY RANGE (at);
CREATE TABLE shop.events_older PARTITION OF shop.events_old FOR VALUES FROM ('2000-01-01') TO ('2010-01-01');
CREATE TABLE shop.events_new PARTITION OF shop.events DEFAULT;
CREATE VIEW shop.all_orders AS SELECT * FROM shop.orders;
CREATE VIEW shop.my_orders WITH (security_invoker = on) AS SELECT * FROM shop.orders;
CREATE MATERIALIZED VIEW shop.totals AS SELECT count(*) FROM shop.orders;
CREATE SEQUENCE shop.loose;
CREATE FUNCTION shop.search(int, text) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION shop.search() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
CREATE PROCEDURE shop."do ""it"(a "char", OUT b text, VARIADIC c shop.orders[]) LANGUAGE sql AS 'SELECT ''''::text';
CREATE AGGREGATE shop.most(int) (sfunc = int4larger, stype = int);
CREATE TABLE tenant.things (id bigserial, "Owner" text, user_id uuid);
CREATE TABLE "o'dd ""ñame"."or""der" ("o'dd ""ñame" uuid, "Sëq" serial);
RESET ROLE;
`

func conformanceSets(w *world) []specs.Set {
	all := []string{"delete", "insert", "select", "update"}
	return []specs.Set{
		w.set(
			project(odd, odd),
			withFunctions(project("shop", "user_id",
				specs.TableAccess{Name: "audit_log", Authenticated: []string{}},
				specs.TableAccess{Name: "events", Authenticated: []string{"insert", "select"}},
				specs.TableAccess{Name: "my_orders", Authenticated: []string{"select"}},
				specs.TableAccess{Name: "not_there_yet", Anonymous: all},
				specs.TableAccess{Name: "orders", Authenticated: []string{"insert", "select"}, Check: "total >= 0", Columns: map[string][]string{"select": {"id", "user_id"}}},
				specs.TableAccess{Name: "products", Anonymous: []string{"select"}}),
				specs.FunctionAccess{Name: "most", Authenticated: true}, specs.FunctionAccess{Name: "search", Anonymous: true}),
		),
		w.set(
			project(odd, odd),
			project("shop", "",
				specs.TableAccess{Name: "all_orders", Anonymous: all, Authenticated: all},
				specs.TableAccess{Name: "events_new", Anonymous: []string{"insert"}, Check: "at > now()"},
				specs.TableAccess{Name: "notes", Anonymous: all, Authenticated: []string{"select"}, OwnerColumn: "user_id"},
				specs.TableAccess{
					Name: "orders", Anonymous: all, OwnerColumn: "user_id",
					Columns: map[string][]string{"select": {"id", "total", "not there"}, "update": {"total"}}, Check: "total in (1, 2) or total > (select count(*) from notes n where n.user_id = orders.user_id::text)",
				},
				specs.TableAccess{Name: "products", Anonymous: all, Authenticated: []string{}},
				specs.TableAccess{Name: "totals", Anonymous: []string{"select"}}),
		),
		w.set(project("fresh", ""), project("tenant", "Owner",
			specs.TableAccess{
				Name: "things", OwnerColumns: map[string]string{"update": "user_id", "delete": "nothing"}, Check: "oh, no",
				Columns: map[string][]string{"select": {"Owner"}, "insert": {"Owner", "id"}, "update": {}},
			})),
	}
}

func withFunctions(p specs.Project, f ...specs.FunctionAccess) specs.Project {
	p.Schema.Functions = f
	return p
}

func TestConformance(t *testing.T) {
	w := newWorld(t, "conform", applicationSQL)
	var last *Enforcer
	h := enforcertest.Harness{
		Name: Name,
		New: func(t *testing.T) reconciler.Enforcer {
			if last != nil {
				_ = last.Close(context.Background()) // or the server runs out of connections
			}
			last = w.enforcer(t)
			return last
		},
		Sets: conformanceSets(w),
		Foreign: func(t *testing.T) func(*testing.T) {
			return foreign(t, w)
		},
		Steps: 15,
	}
	for name, sql := range w.damages() {
		h.Damage = append(h.Damage, enforcertest.Damage{Name: name, Do: func(t *testing.T) { pgtest.Exec(t, w.url, sql) }})
	}
	enforcertest.Run(t, h)
}

// damages are done to the first set by hand, as the superuser.
var damages = map[string]string{
	"row security off":                  `ALTER TABLE shop.orders DISABLE ROW LEVEL SECURITY`,
	"row security not forced":           `ALTER TABLE shop.orders NO FORCE ROW LEVEL SECURITY`,
	"row security off on a partition":   `ALTER TABLE shop.events_older DISABLE ROW LEVEL SECURITY`,
	"policy dropped":                    `DROP POLICY cordon_own ON shop.orders`,
	"policy widened":                    `ALTER POLICY cordon_own ON shop.orders USING (true)`,
	"policy's check widened":            `ALTER POLICY cordon_own ON shop.orders WITH CHECK (true)`,
	"policy on another column":          `ALTER POLICY cordon_own ON shop.orders USING (id::text = (nullif(current_setting('request.jwt.claims', true), '')::json ->> 'sub'))`,
	"policy for other roles":            `ALTER POLICY cordon_all ON shop.orders TO PUBLIC`,
	"policy for a foreign role":         `ALTER POLICY cordon_all ON shop.orders TO shop_admin, shop_service, bob`,
	"policy renamed":                    `ALTER POLICY cordon_own ON shop.orders RENAME TO mine`,
	"policy unmarked":                   `COMMENT ON POLICY cordon_own ON shop.orders IS NULL`,
	"policy marked as another's":        `COMMENT ON POLICY cordon_own ON shop.orders IS 'cordon:postgres.table.conform.shop.notes'`,
	"policy of another for PUBLIC":      `CREATE POLICY open ON shop.orders USING (true)`,
	"policy of another for a user":      `CREATE POLICY wide ON shop.orders FOR SELECT TO shop_user, bob USING (true)`,
	"policy by name":                    `CREATE POLICY cordon_more ON shop.orders AS RESTRICTIVE FOR SELECT TO bob USING (false)`,
	"policy restrictive":                `DROP POLICY cordon_own ON shop.orders; CREATE POLICY cordon_own ON shop.orders AS RESTRICTIVE TO shop_user USING (user_id IS NULL)`,
	"grant to PUBLIC":                   `GRANT SELECT ON shop.orders TO PUBLIC`,
	"grant to PUBLIC on a view":         `GRANT SELECT ON shop.all_orders TO PUBLIC`,
	"grant to PUBLIC on a sequence":     `GRANT USAGE ON shop.loose TO PUBLIC`,
	"grant of truncate":                 `GRANT TRUNCATE ON shop.orders TO shop_user`,
	"grant of all":                      `GRANT ALL ON shop.orders TO shop_anon`,
	"grant on a partition":              `GRANT DELETE ON shop.events_older TO shop_user`,
	"grant of a column":                 `GRANT SELECT (total), UPDATE (total) ON shop.orders TO shop_anon`,
	"grant of a column to PUBLIC":       `GRANT SELECT (title) ON shop.products TO PUBLIC`,
	"grant on an oddly named column":    `GRANT UPDATE ("Sëq", "o'dd ""ñame") ON "o'dd ""ñame"."or""der" TO "o'dd ""ñame_anon"`,
	"grant of the whole table":          `GRANT SELECT ON shop.orders TO shop_user`,
	"grant option on a column":          `GRANT SELECT (id) ON shop.orders TO shop_user WITH GRANT OPTION`,
	"check widened":                     `ALTER POLICY cordon_check_insert ON shop.orders WITH CHECK (total >= 0 OR true)`,
	"check permissive":                  `DROP POLICY cordon_check_insert ON shop.orders; CREATE POLICY cordon_check_insert ON shop.orders FOR INSERT TO shop_anon, shop_user WITH CHECK (total >= 0)`,
	"grant option":                      `GRANT SELECT ON shop.orders TO shop_user WITH GRANT OPTION`,
	"grant passed on":                   `GRANT SELECT ON shop.orders TO shop_user WITH GRANT OPTION; SET ROLE shop_user; GRANT SELECT ON shop.orders TO shop_anon`,
	"grant by another":                  `GRANT USAGE ON SCHEMA shop TO bob; GRANT ALL ON shop.orders TO bob WITH GRANT OPTION; SET ROLE bob; GRANT ALL ON shop.orders TO shop_anon`,
	"grant by one who lost his way in":  `GRANT USAGE ON SCHEMA shop TO bob; GRANT ALL ON shop.orders TO bob WITH GRANT OPTION; GRANT EXECUTE ON FUNCTION shop.most TO bob WITH GRANT OPTION; SET ROLE bob; GRANT ALL ON shop.orders TO shop_anon; GRANT EXECUTE ON FUNCTION shop.most TO shop_anon; RESET ROLE; REVOKE USAGE ON SCHEMA shop FROM bob`,
	"grant by another's other":          `GRANT USAGE ON SCHEMA shop TO bob, carol; GRANT ALL ON shop.notes TO bob WITH GRANT OPTION; SET ROLE bob; GRANT ALL ON shop.notes TO carol WITH GRANT OPTION; SET ROLE carol; GRANT ALL ON shop.notes TO shop_anon, PUBLIC`,
	"grant through all hands":           `GRANT USAGE ON SCHEMA shop TO bob; GRANT SELECT ON shop.notes TO shop_user WITH GRANT OPTION; SET ROLE shop_user; GRANT SELECT ON shop.notes TO bob WITH GRANT OPTION; SET ROLE bob; GRANT SELECT ON shop.notes TO shop_anon WITH GRANT OPTION; SET ROLE shop_anon; GRANT SELECT ON shop.notes TO PUBLIC`,
	"grant of a column by another":      `GRANT USAGE ON SCHEMA shop TO bob; GRANT SELECT (total) ON shop.orders TO bob WITH GRANT OPTION; SET ROLE bob; GRANT SELECT (total) ON shop.orders TO shop_anon`,
	"grant to another project":          `GRANT SELECT ON shop.orders TO "o'dd ""ñame_user"; GRANT USAGE ON SCHEMA shop TO "o'dd ""ñame_user"`,
	"grant in a foreign schema":         `GRANT USAGE ON SCHEMA public TO shop_user; CREATE TABLE public.secrets (x int); GRANT SELECT ON public.secrets TO shop_user`,
	"grant in another declared schema":  `GRANT SELECT ON tenant.things TO shop_user`,
	"grant on a catalog":                `GRANT SELECT ON pg_authid TO shop_service`,
	"revoke":                            `REVOKE SELECT ON shop.orders FROM shop_user`,
	"revoke of all":                     `REVOKE ALL ON shop.orders FROM shop_user, shop_admin, shop_service`,
	"revoke on a sequence":              `REVOKE USAGE ON shop.orders_id_seq FROM shop_user`,
	"grant on a sequence":               `GRANT UPDATE ON shop.orders_id_seq TO shop_anon`,
	"schema open to PUBLIC":             `GRANT USAGE, CREATE ON SCHEMA shop TO PUBLIC`,
	"create in the schema":              `GRANT CREATE ON SCHEMA shop TO shop_user WITH GRANT OPTION`,
	"schema closed":                     `REVOKE USAGE ON SCHEMA shop FROM shop_user`,
	"schema unmarked":                   `COMMENT ON SCHEMA shop IS NULL`,
	"schema unmarked, a view too much":  `COMMENT ON SCHEMA shop IS NULL; ALTER VIEW shop.all_orders OWNER TO shop_user; CREATE POLICY open ON shop.notes USING (true)`,
	"schema unmarked and given away":    `COMMENT ON SCHEMA shop IS NULL; ALTER SCHEMA shop OWNER TO shop_user`,
	"schema given away":                 `ALTER SCHEMA shop OWNER TO shop_user`,
	"table given away":                  `ALTER TABLE shop.orders OWNER TO shop_user`,
	"view given away":                   `ALTER VIEW shop.my_orders OWNER TO shop_admin`,
	"function for PUBLIC":               `GRANT EXECUTE ON FUNCTION shop.most TO PUBLIC`,
	"function for another role":         `GRANT EXECUTE ON ROUTINE shop."do ""it" TO shop_anon WITH GRANT OPTION`,
	"function by another's hand":        `GRANT USAGE ON SCHEMA shop TO bob; GRANT EXECUTE ON FUNCTION shop.most TO bob WITH GRANT OPTION; SET ROLE bob; GRANT EXECUTE ON FUNCTION shop.most TO shop_anon`,
	"function elsewhere":                `CREATE FUNCTION public.spy() RETURNS int LANGUAGE sql AS 'SELECT 1'; GRANT EXECUTE ON FUNCTION public.spy TO shop_anon`,
	"function taken":                    `REVOKE EXECUTE ON FUNCTION shop.search(int, text) FROM shop_user, shop_service`,
	"function given away":               `ALTER FUNCTION shop.search() OWNER TO shop_user`,
	"new function":                      `ALTER EVENT TRIGGER cordon_guard_conform DISABLE; CREATE FUNCTION shop.fresh() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
	"new functions for PUBLIC":          `ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT EXECUTE ON FUNCTIONS TO PUBLIC`,
	"new tables for PUBLIC":             `ALTER DEFAULT PRIVILEGES FOR ROLE bob IN SCHEMA shop GRANT SELECT ON TABLES TO PUBLIC`,
	"new things for a role":             `ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT ALL ON TABLES TO shop_anon WITH GRANT OPTION; ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT USAGE ON TYPES TO shop_anon; ALTER DEFAULT PRIVILEGES FOR ROLE app IN SCHEMA public GRANT USAGE ON SEQUENCES TO shop_user`,
	"guard off":                         `ALTER EVENT TRIGGER cordon_guard_conform DISABLE`,
	"guard dropped":                     `DROP EVENT TRIGGER cordon_guard_conform`,
	"guard's function":                  `CREATE OR REPLACE FUNCTION cordon_guard_conform.close() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'`,
	"telling off":                       `ALTER EVENT TRIGGER cordon_tell_conform DISABLE`,
	"telling dropped":                   `DROP EVENT TRIGGER cordon_drop_conform`,
	"telling nothing":                   `CREATE OR REPLACE FUNCTION cordon_guard_conform.tell() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'`,
	"guard's function for others":       `GRANT EXECUTE ON FUNCTION cordon_guard_conform.close TO bob`,
	"guard's schema given away":         `ALTER SCHEMA cordon_guard_conform OWNER TO bob`,
	"role set to something":             `ALTER ROLE shop_user SET row_security = off; DO $$ BEGIN EXECUTE format('ALTER ROLE shop_admin IN DATABASE %I SET search_path = public', current_database()); END $$`,
	"role on the database":              `DO $$ BEGIN EXECUTE format('GRANT CREATE, TEMPORARY ON DATABASE %I TO shop_user WITH GRANT OPTION', current_database()); END $$`,
	"role on a language and a type":     `GRANT USAGE ON LANGUAGE plpgsql TO shop_user; CREATE TYPE public.kind AS ENUM (); GRANT USAGE ON TYPE public.kind TO shop_anon`,
	"role on a large object":            `SELECT lo_create(4711); GRANT SELECT ON LARGE OBJECT 4711 TO shop_user`,
	"role on a foreign server":          `CREATE FOREIGN DATA WRAPPER fdw; CREATE SERVER there FOREIGN DATA WRAPPER fdw; GRANT USAGE ON FOREIGN SERVER there TO shop_user; GRANT USAGE ON FOREIGN DATA WRAPPER fdw TO shop_user`,
	"temporary tables for PUBLIC":       `DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO PUBLIC', current_database()); END $$`,
	"schema public open to PUBLIC":      `GRANT CREATE ON SCHEMA public TO PUBLIC`,
	"schema public closed":              `REVOKE USAGE ON SCHEMA public FROM PUBLIC`,
	"role superuser":                    `ALTER ROLE shop_user SUPERUSER`,
	"role bypasses":                     `ALTER ROLE shop_user BYPASSRLS CREATEROLE CREATEDB REPLICATION`,
	"role logs in":                      `ALTER ROLE shop_user LOGIN PASSWORD 'x'`,
	"role member of another":            `GRANT app TO shop_user`,
	"role member of another of ours":    `GRANT "o'dd ""ñame_service" TO shop_user`,
	"role has a member":                 `GRANT shop_admin TO bob WITH ADMIN OPTION`,
	"role dropped":                      `DROP OWNED BY shop_user; DROP ROLE shop_user`,
	"role renamed":                      `ALTER ROLE shop_user RENAME TO shop_former`,
	"role's mark is of another project": `DO $$ BEGIN EXECUTE format('COMMENT ON ROLE shop_user IS %L', 'cordon:postgres.role.conform.gone_user in database ' || current_database()); END $$`,
}

// damages are those that the server knows.
func (w *world) damages() map[string]string {
	out := maps.Clone(damages)
	for from, more := range damagesFrom {
		if w.major() >= from {
			maps.Copy(out, more)
		}
	}
	return out
}

// damagesFrom are those that only servers of a version and newer know.
var damagesFrom = map[int]map[string]string{
	16: {
		"role has a member who inherits":      `GRANT shop_admin TO bob WITH INHERIT TRUE, SET FALSE`,
		"role has a member twice":             `GRANT shop_admin TO bob WITH ADMIN OPTION; GRANT shop_admin TO carol; SET ROLE bob; GRANT shop_admin TO carol`,
		"role member of one that creates too": `GRANT pg_create_subscription TO shop_user WITH INHERIT FALSE`,
	},
	17: {
		"grant of maintenance":            `GRANT MAINTAIN ON shop.orders TO shop_user WITH GRANT OPTION; GRANT MAINTAIN ON shop.orders TO PUBLIC`,
		"grant of maintenance on a copy":  `GRANT MAINTAIN ON shop.totals TO shop_anon`,
		"maintenance of new tables":       `ALTER DEFAULT PRIVILEGES FOR ROLE app IN SCHEMA shop GRANT MAINTAIN ON TABLES TO PUBLIC`,
		"role member of who maintains":    `GRANT pg_maintain TO shop_user`,
		"event triggers off for everyone": `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET event_triggers = off', current_database()); END $$`,
	},
	18: {
		"new large objects for a role": `ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON LARGE OBJECTS TO shop_anon`,
	},
}

// foreign makes what is easily taken for cordon's.
func foreign(t *testing.T, w *world) func(*testing.T) {
	w.exec(`
CREATE ROLE shop_users; CREATE ROLE foreign_user; COMMENT ON ROLE foreign_user IS 'cordoned off';
COMMENT ON ROLE shop_users IS 'cordon:postgres.role.elsewhere.shop_users in database elsewhere';
CREATE SCHEMA foreign_schema; COMMENT ON SCHEMA foreign_schema IS 'cordonnier';
CREATE TABLE foreign_schema.orders (id int, user_id uuid);
ALTER TABLE foreign_schema.orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY cordon_own ON foreign_schema.orders USING (true);
GRANT ALL ON foreign_schema.orders TO PUBLIC, bob, foreign_user;
GRANT USAGE ON SCHEMA shop TO bob, carol;
GRANT SELECT, UPDATE (total) ON shop.orders TO bob WITH GRANT OPTION;
SET ROLE bob; GRANT SELECT ON shop.orders TO carol; RESET ROLE;
CREATE POLICY bobs ON shop.orders TO bob USING (total > 3);
CREATE POLICY limits ON shop.orders AS RESTRICTIVE USING (total > 0);
CREATE POLICY apps ON tenant.things TO CURRENT_USER, app USING (true);
GRANT app TO carol;
CREATE FUNCTION shop.f() RETURNS int LANGUAGE sql AS 'SELECT 1';
`)
	t.Cleanup(func() {
		w.exec(`DROP SCHEMA foreign_schema CASCADE; DROP POLICY bobs ON shop.orders; DROP POLICY limits ON shop.orders; DROP POLICY apps ON tenant.things;
DROP FUNCTION shop.f(); REVOKE app FROM carol; DROP ROLE shop_users; DROP ROLE foreign_user; DROP OWNED BY bob, carol`)
	})
	before := foreignState(t, w)
	if strings.Count(before, "\n") < 20 {
		t.Fatalf("too little is compared:\n%s", before)
	}
	return func(t *testing.T) {
		if diff := cmp.Diff(before, foreignState(t, w)); diff != "" {
			t.Errorf("foreign objects changed (-before +after):\n%s", diff)
		}
	}
}

// foreignState is all access that is not by a role ending in a project's kind
// of role, as text.
func foreignState(t *testing.T, w *world) string {
	t.Helper()
	var out string
	err := pgtest.Connect(t, w.url).QueryRow(context.Background(), `
WITH ours AS (SELECT oid FROM pg_roles WHERE rolname ~ '^(shop|tenant|fresh|o''dd "ñame)_(anon|user|admin|service)$'),
acls AS (
  SELECT c.oid::regclass::text AS what, c.relacl AS acl FROM pg_class c WHERE c.oid >= 16384 AND c.relkind <> 'i'
  UNION ALL SELECT attrelid::regclass || '.' || attname, attacl FROM pg_attribute WHERE attrelid >= 16384
  UNION ALL SELECT nspname, nspacl FROM pg_namespace WHERE nspname !~ '^pg_'
  UNION ALL SELECT proname, proacl FROM pg_proc WHERE oid >= 16384),
lines AS (
  SELECT format('acl %s: %s by %s %s %s', what, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, a.grantor::regrole, a.privilege_type, a.is_grantable) AS line
  FROM acls, aclexplode(acl) a JOIN pg_roles g ON g.oid = a.grantor WHERE a.grantee NOT IN (SELECT oid FROM ours) AND a.grantee <> a.grantor
    AND (what, a.grantee, a.privilege_type) <> ('public', 0, 'CREATE') -- which is the database's, and there before 15
  UNION ALL SELECT format('policy %s on %s %s %s: %s', polname, polrelid::regclass, polpermissive, polroles::regrole[], pg_get_expr(polqual, polrelid))
  FROM pg_policy WHERE NOT polroles && ARRAY(SELECT oid FROM ours)
  UNION ALL SELECT format('owner of %s: %s', oid::regclass, relowner::regrole) FROM pg_class WHERE oid >= 16384
  UNION ALL SELECT format('schema %s of %s: %s', nspname, nspowner::regrole, obj_description(oid)) FROM pg_namespace WHERE nspname ~ '^foreign'
  UNION ALL SELECT format('table comment %s', obj_description('shop.orders'::regclass))
  UNION ALL SELECT format('row security %s %s %s', oid::regclass, relrowsecurity, relforcerowsecurity) FROM pg_class WHERE relnamespace = 'foreign_schema'::regnamespace
  UNION ALL SELECT format('role %s %s: %s', rolname, to_jsonb(r) - 'oid', shobj_description(oid, 'pg_authid')) FROM pg_roles r WHERE oid NOT IN (SELECT oid FROM ours) AND rolname !~ '^pg_'
  UNION ALL SELECT format('member %s of %s', member::regrole, roleid::regrole) FROM pg_auth_members)
SELECT string_agg(line, E'\n' ORDER BY line) FROM lines`).Scan(&out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
