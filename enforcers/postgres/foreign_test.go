package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/pgtest"
)

// foreignObject is what strangers made of a table of the project.
type foreignObject struct {
	name    string
	table   deedTable
	public  bool   // PUBLIC may use it
	invoker bool   // it gives no more than the asking role has
	read    string // a query for the ids that it shows
	writes  string // a statement that reaches the table, for nobody
}

// yard fills a schema elsewhere, at random, with objects that reach the tables,
// and opens them. What is hung on tables themselves it notes in hung: by
// table, the commands that nobody gets.
func yard(t *testing.T, conn *pgx.Conn, rnd *rand.Rand, tables []deedTable) (made []foreignObject, hung map[string][]string) {
	t.Helper()
	ctx := context.Background()
	major := version(t, conn) / 10000
	exec := func(sql string) bool {
		_, err := conn.PgConn().Exec(ctx, older(major, sql)).ReadAll()
		return err == nil
	}
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	if !exec(`DROP SCHEMA IF EXISTS yard CASCADE; CREATE SCHEMA yard; GRANT USAGE ON SCHEMA yard TO PUBLIC`) {
		t.Fatal("no yard")
	}
	hung = map[string][]string{}
	for i := range 90 {
		d := tables[rnd.IntN(len(tables))]
		name, of := fmt.Sprintf("yard.o%02d", i), d.reach()
		o := foreignObject{name: name, table: d, read: "SELECT id FROM " + name}
		options := pick("", "WITH (security_invoker)", "WITH (security_invoker = off)", "WITH (security_barrier)")
		o.invoker = options == "WITH (security_invoker)" && major >= invokers
		to := pick("PUBLIC", "deed_anon", "deed_user, PUBLIC", "other_service", "bob, PUBLIC")
		o.public = strings.Contains(to, "PUBLIC")
		kind := rnd.IntN(15)
		sql := ""
		switch kind {
		case 0, 1:
			sql = fmt.Sprintf("CREATE VIEW %s %s AS SELECT * FROM %s; GRANT ALL ON %[1]s TO %[4]s", name, options, of, to)
		case 2: // a view of a view that nobody may use
			sql = fmt.Sprintf("CREATE VIEW %s_in AS SELECT * FROM %[3]s; CREATE VIEW %[1]s %[2]s AS SELECT * FROM %[1]s_in; GRANT SELECT ON %[1]s TO %[4]s", name, options, of, to)
			o.invoker = false
		case 3:
			sql = fmt.Sprintf("CREATE MATERIALIZED VIEW %s AS SELECT id FROM %s; GRANT SELECT ON %[1]s TO %[3]s", name, of, to)
			o.invoker = false
		case 4, 5:
			rights := pick("DEFINER", "INVOKER")
			o.public, o.invoker, o.read = true, rights == "INVOKER", "SELECT * FROM "+name+"()"
			sql = fmt.Sprintf("CREATE FUNCTION %s() RETURNS SETOF int LANGUAGE %s SECURITY %s AS '%s'", name, "plpgsql", rights, "BEGIN RETURN QUERY SELECT id FROM "+of+"; END")
			if rnd.IntN(2) == 0 {
				sql = fmt.Sprintf("CREATE FUNCTION %s() RETURNS SETOF int SECURITY %s BEGIN ATOMIC SELECT id FROM %s; END", name, rights, of)
			}
		case 6:
			command := pick("insert", "update", "delete")
			if exec(fmt.Sprintf("CREATE RULE r%d AS ON %s TO %s DO ALSO SELECT 1", i, command, of)) {
				hung[of] = append(hung[of], command)
				if d.part && command == "insert" { // or a part has no number to give
					hung[of+"_part"] = append(hung[of+"_part"], command)
				}
			}
		case 7:
			command := pick("insert", "update", "delete")
			if exec(fmt.Sprintf("CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER t%d AFTER %s ON %s FOR EACH ROW EXECUTE FUNCTION %[1]s()", name, i, command, of)) {
				hung[of] = append(hung[of], command)
				hung["deed."+d.name] = append(hung["deed."+d.name], command)
				if d.part { // rows' triggers are the parts' too
					hung["deed."+d.name+"_part"] = append(hung["deed."+d.name+"_part"], command)
				}
			}
		case 8:
			exec(pick(
				"ALTER DEFAULT PRIVILEGES GRANT "+pick("SELECT", "ALL")+" ON TABLES TO "+pick("PUBLIC", "deed_anon"),
				"ALTER DEFAULT PRIVILEGES FOR ROLE bob GRANT SELECT ON TABLES TO deed_user",
				"ALTER DEFAULT PRIVILEGES IN SCHEMA deed GRANT SELECT ON TABLES TO PUBLIC"))
		case 9:
			exec(pick(
				`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET request.jwt.claims = ''{"sub":"alice"}''', current_database()); END $$`,
				`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET row_security = off', current_database()); END $$`,
				"GRANT SET ON PARAMETER session_replication_role TO "+pick("PUBLIC", "deed_user", "other_admin"),
				"GRANT SELECT ON pg_authid TO "+pick("PUBLIC", "deed_user")))
		case 10: // views over views, of which the one below decides
			o.invoker = true
			for k, below := range []string{of, name + "_0", name + "_1", name} {
				if k == 3 {
					break
				}
				option := pick("", "WITH (security_invoker)")
				o.invoker = o.invoker && (k > 0 || option != "" && major >= invokers)
				above := fmt.Sprintf("%s_%d", name, k)
				if k == 2 {
					above = name
				}
				sql += fmt.Sprintf("CREATE VIEW %s %s AS SELECT * FROM %s; GRANT SELECT ON %[1]s TO %[4]s;", above, option, below, to)
			}
		case 11: // above it, or around it
			sql = fmt.Sprintf("CREATE TABLE %s (id int, v int); ALTER TABLE %s INHERIT %[1]s; GRANT ALL ON %[1]s TO %[3]s", name, of, to)
			o.invoker, o.writes = false, pick("DELETE FROM "+name, "UPDATE "+name+" SET v = 7", "TRUNCATE "+name)
		case 12: // below it, with rows of its own
			o.invoker, o.read = false, "SELECT id - 100 FROM "+name
			o.writes = pick("DELETE FROM "+name, "INSERT INTO "+name+" (id) VALUES (104)", "COPY "+name+" TO STDOUT")
			sql = fmt.Sprintf("CREATE TABLE %s () INHERITS (%s); INSERT INTO %[1]s (id, v) VALUES (101, 0), (102, 0), (103, 0); GRANT ALL ON %[1]s TO %[3]s", name, "deed."+d.name, to)
			if d.part {
				sql = fmt.Sprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (%[3]d) TO (%[3]d + 9); INSERT INTO %[1]s (id, v) VALUES (101, %[3]d), (102, %[3]d), (103, %[3]d); GRANT ALL ON %[1]s TO %[4]s", name, "deed."+d.name, 1000*(i+1), to)
			}
		case 13: // its rows hang on others, or others' on its
			o.invoker, o.read = false, ""
			if rnd.IntN(2) == 0 {
				sql = fmt.Sprintf("CREATE TABLE %s (v int PRIMARY KEY); INSERT INTO %[1]s VALUES (0), (7); ALTER TABLE %s ADD FOREIGN KEY (v) REFERENCES %[1]s ON DELETE %s ON UPDATE %s; GRANT ALL ON %[1]s TO %[5]s",
					name, of, pick("CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"), pick("CASCADE", "SET NULL", "NO ACTION"), to)
				o.writes = pick("DELETE FROM "+name, "UPDATE "+name+" SET v = v + 1", "WITH d AS (DELETE FROM "+name+" RETURNING v) SELECT v FROM d")
			} else {
				sql = fmt.Sprintf("CREATE TABLE %s (x int REFERENCES %s ON DELETE CASCADE); GRANT ALL ON %[1]s TO %[3]s", name, of, to)
				o.writes = pick("INSERT INTO "+name+" VALUES (2)", "INSERT INTO "+name+" VALUES (2) ON CONFLICT DO NOTHING", "UPDATE "+name+" SET x = 2")
			}
		case 14: // of a stranger, who could replace it
			command := pick("insert", "update", "delete")
			stranger := fmt.Sprintf("CREATE FUNCTION %s(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END'; ALTER FUNCTION %[1]s OWNER TO bob; ", name)
			touched := []string{"insert", "update"}
			switch rnd.IntN(4) {
			case 0:
				stranger += fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT c%d CHECK (%s(v))", of, i, name)
			case 1:
				stranger += fmt.Sprintf("CREATE INDEX ON %s (%s(v))", of, name)
			case 2:
				stranger += fmt.Sprintf("CREATE DOMAIN %s_d AS int CHECK (%[1]s(VALUE)); ALTER TABLE deed.%s ADD d%d %[1]s_d", name, d.name, i)
			case 3:
				touched = []string{command}
				stranger = fmt.Sprintf("CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; ALTER FUNCTION %[1]s OWNER TO bob; CREATE TRIGGER t%d AFTER %s ON %s FOR EACH ROW EXECUTE FUNCTION %[1]s()", name, i, command, of)
			}
			if exec(stranger) {
				hung[of] = append(hung[of], touched...)
				hung["deed."+d.name] = append(hung["deed."+d.name], touched...)
				if d.part {
					hung["deed."+d.name+"_part"] = append(hung["deed."+d.name+"_part"], touched...)
				}
			}
		}
		if sql != "" && exec(sql) {
			made = append(made, o)
		}
	}
	return made, hung
}

// othersYard is what strangers made there, and what they alone were granted.
func othersYard(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var out string
	err := conn.QueryRow(context.Background(), `
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
  SELECT format('%s of %s: %s', c.oid::regclass, relowner::regrole, CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END) AS line FROM pg_class c WHERE relnamespace = 'yard'::regnamespace
  UNION ALL SELECT format('%s of %s: %s', p.oid::regprocedure, proowner::regrole, prosrc) FROM pg_proc p WHERE pronamespace = 'yard'::regnamespace
  UNION ALL SELECT format('%s: %s', c.oid::regclass, a.privilege_type) FROM pg_class c, aclexplode(relacl) a WHERE relnamespace = 'yard'::regnamespace AND a.grantee = 'bob'::regrole
  UNION ALL SELECT format('rule %s on %s', rulename, ev_class::regclass) FROM pg_rewrite WHERE rulename ~ '^r[0-9]'
  UNION ALL SELECT format('trigger %s on %s', tgname, tgrelid::regclass) FROM pg_trigger WHERE NOT tgisinternal) x`).Scan(&out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ids are the rows that the object shows to the actor.
func (o foreignObject) ids(t *testing.T, conn *pgx.Conn, a actor) []int {
	t.Helper()
	ctx := context.Background()
	tx := acting(t, conn, a, o.table.subject(a))
	defer tx.Rollback(ctx)
	rows, err := tx.Query(ctx, o.read)
	var ids []int
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[int])
	}
	if err != nil && !refused(err) {
		t.Fatalf("%s as %+v: %v", o.read, a, err)
	}
	return ids
}

// TestForeignObjects tries, through what strangers made, what every actor
// sees: by what gives its own rights just what is declared, else nothing.
func TestForeignObjects(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	tables := generate(rnd)
	setup := "CREATE SCHEMA deed; CREATE SCHEMA other; CREATE TABLE other.t (user_id text);"
	deed := project("deed", "user_id")
	for _, d := range tables {
		if d.through == "" {
			setup += d.create()
			if d.named {
				deed.Schema.Tables = append(deed.Schema.Tables, d.access)
			}
		}
	}
	w := newWorld(t, "yards", setup)
	w.apply(deed, project("other", "user_id"))
	conn := pgtest.Connect(t, w.url)
	made, hung := yard(t, conn, rnd, tables)
	before := othersYard(t, conn)
	_, p := w.plan(w.declared(deed, project("other", "user_id")))
	w.apply(deed, project("other", "user_id"))
	if after := othersYard(t, conn); after != before || len(made) < 15 {
		t.Errorf("%d made; theirs was\n%s\nand is\n%s", len(made), before, after)
	}
	inferred(t, w, "deed", "other") // what is withheld makes some tables look as no declaration does
	for _, o := range made {
		for _, a := range actors {
			if o.writes != "" && permitted(t, conn, a, o.table.subject(a), o.writes) {
				t.Errorf("%s on %s: %+v may %s", o.name, o.table.reach(), a, o.writes)
			}
			if o.read == "" {
				continue
			}
			seen := o.ids(t, conn, a)
			for id, owner := range map[int]int{1: 0, 2: 1, 3: -1} {
				may := o.invoker && o.table.allowed(a, "select", owner)
				if o.table.owner == "" && owner > 0 {
					continue
				}
				if got := slices.Contains(seen, id); got && !may || may && o.public && !got {
					t.Errorf("%s (%s, invoker %v) on %s shows row %d to %+v: %v, declared %v", o.name, o.read, o.invoker, o.table.reach(), id, a, got, may)
				}
			}
		}
	}
	for _, d := range tables {
		for _, a := range actors {
			for _, command := range commands {
				want := d.allowed(a, command, 0) && !slices.Contains(hung[d.reach()], command)
				if got := d.try(t, conn, a, command, 0); got != want {
					t.Errorf("%s (%+v) as %+v: %s: %v, declared %v, hung %v", d.reach(), d.access, a, command, got, want, hung[d.reach()])
				}
			}
		}
	}
	if t.Failed() {
		for _, n := range p.Notes {
			t.Log(n.Addr, n.Text)
		}
	}
	parameters := "0"
	if w.major() >= 15 {
		parameters = "(SELECT count(*) FROM pg_parameter_acl, aclexplode(paracl) WHERE grantee = 0)"
	}
	var left string
	if err := conn.QueryRow(t.Context(), `SELECT concat((SELECT count(*) FROM pg_db_role_setting WHERE setrole = 0 AND setconfig::text ~ 'request|row_security'),
 (SELECT count(*) FROM pg_default_acl, aclexplode(defaclacl) WHERE grantee = 0 AND defaclobjtype = 'r'), `+parameters+`,
 has_table_privilege('deed_user', 'pg_authid', 'SELECT'))`).Scan(&left); err != nil || strings.Trim(left, "0f") != "" {
		t.Errorf("left of what is not of a relation: %s, %v", left, err)
	}
}
