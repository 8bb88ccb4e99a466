package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/google/go-cmp/cmp"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/specs"
)

// The people, as subjects that every type of owner column can hold.
var people = map[string][]string{ // type → alice, mallory, someone without rows
	"text":        {"alice", "mallory", "nemo"},
	"varchar(40)": {"alice", "mal'lory", "nemo"},
	"uuid":        {"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002", "00000000-0000-0000-0000-000000000003"},
	"int":         {"1", "2", "3"},
}

// actor is whom a request acts as.
type actor struct {
	role   string
	claims string // %s is the subject of the table's person number who
	who    int    // -1: nobody
}

var actors = []actor{
	{"deed_anon", "", -1},
	{"deed_anon", `{"sub":"%s"}`, 0}, // a token does not make the anonymous more
	{"deed_user", `{"sub":"%s"}`, 0},
	{"deed_user", `{"sub":"%s","role":"deed_admin"}`, 1},
	{"deed_user", `{"sub":"%s"}`, 2},
	{"deed_user", "", -1},
	{"deed_user", `{"role":"x"}`, -1},
	{"deed_user", `{"sub":null}`, -1},
	{"deed_admin", "", -1},
	{"deed_service", "", -1},
	{"other_user", `{"sub":"%s"}`, 0},
	{"other_admin", "", -1},
	{"other_service", "", -1},
}

// deedTable is a generated table with what is declared about it.
type deedTable struct {
	name    string
	owner   string // type of the owner column; "" has none
	part    bool   // the rows are reached by a partition
	through string // what is named in SQL, if it is not the table
	access  specs.TableAccess
	named   bool
}

// reach is the relation that requests name.
func (d deedTable) reach() string {
	if d.through != "" {
		return "deed." + d.through
	}
	return "deed." + d.name
}

func generate(rnd *rand.Rand) []deedTable {
	subset := func() []string {
		if rnd.IntN(4) == 0 {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(commands[:]), func(string) bool { return rnd.IntN(2) == 0 })
	}
	var out []deedTable
	for i := range 14 {
		d := deedTable{name: fmt.Sprintf("t%02d", i), named: rnd.IntN(5) > 0}
		d.owner = []string{"text", "uuid", "int", "varchar(40)", ""}[i%5]
		if d.named {
			d.access = specs.TableAccess{Name: d.name, Anonymous: subset(), Authenticated: subset()}
		}
		d.part = i > 9
		out = append(out, d)
		if d.part { // the same rows, by the partition itself
			d.through = d.name + "_part"
			out = append(out, d)
		}
	}
	return out
}

// allowed is what is declared, written from the documentation and apart from
// the code: may the actor do the command to a row of the owner (-1: nobody)?
func (d deedTable) allowed(a actor, command string, owner int) bool {
	public := slices.Contains(d.access.Anonymous, command) && (command == "select" || owner < 0 || d.owner == "")
	switch a.role {
	case "deed_admin", "deed_service":
		return true
	case "deed_anon":
		return public
	case "deed_user":
		if d.access.Authenticated != nil && !slices.Contains(d.access.Authenticated, command) {
			return false
		}
		return public || d.owner != "" && owner >= 0 && owner == a.who
	}
	return false // of another project
}

func (d deedTable) create() string {
	columns := "id serial, v int"
	if !d.part {
		columns = "id serial PRIMARY KEY, v int"
	}
	if d.owner != "" {
		columns += ", user_id " + d.owner
	}
	sql := "CREATE TABLE deed." + d.name + " (" + columns + ")"
	if d.part {
		sql += " PARTITION BY RANGE (v); CREATE TABLE deed." + d.name + "_part PARTITION OF deed." + d.name + " DEFAULT"
	}
	return sql + ";" + d.insert("deed."+d.name, 0) + ";" + d.insert("deed."+d.name, 1) + ";" + d.insert("deed."+d.name, -1) + ";"
}

// insert adds a row of a person's; -1 is nobody's.
func (d deedTable) insert(relation string, who int) string {
	switch {
	case d.owner == "":
		return "INSERT INTO " + relation + " (v) VALUES (0)"
	case who < 0:
		return "INSERT INTO " + relation + " (v, user_id) VALUES (0, NULL)"
	}
	return "INSERT INTO " + relation + " (v, user_id) VALUES (0, " + literal(people[d.owner][who]) + ")"
}

// TestDeeds tries, for generated declarations, what every actor can do to
// every row by every command.
func TestDeeds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	tables := generate(rnd)
	setup := "CREATE SCHEMA deed; CREATE SCHEMA other; CREATE TABLE other.t (user_id text);"
	deed := project("deed", "user_id")
	for _, d := range tables {
		if d.through != "" {
			continue
		}
		setup += d.create()
		if d.named {
			deed.Schema.Tables = append(deed.Schema.Tables, d.access)
		}
	}
	w := newWorld(t, "deeds", setup)
	w.apply(deed, project("other", "user_id"))
	conn := pgtest.Connect(t, w.url)
	hands := otherHands(t, conn, rnd, tables)
	theirs := othersAccess(t, conn)
	w.apply(deed, project("other", "user_id"))
	if diff := cmp.Diff(theirs, othersAccess(t, conn)); diff != "" || hands < 60 {
		t.Errorf("what others have changed (-before +after), after %d statements by other hands:\n%s", hands, diff)
	}
	if closed := inferred(t, w, "deed", "other"); len(closed) > 0 {
		t.Errorf("imported as closed: %q", closed)
	}
	tried, version := 0, serverVersion(t, conn)
	for _, d := range tables {
		for _, a := range actors {
			tried += d.around(t, conn, version, a)
			for _, owner := range []int{-1, 0, 1} {
				for _, command := range commands {
					tried++
					want := d.allowed(a, command, owner)
					if d.owner == "" && owner > 0 {
						continue
					}
					if got := d.try(t, conn, a, command, owner); got != want {
						t.Errorf("%s (owner column %q, declared %+v, named %v) as %+v: %s of a row of %d: %v, declared %v",
							d.reach(), d.owner, d.access, d.named, a, command, owner, got, want)
					}
				}
			}
		}
	}
	if tried < 5000 {
		t.Errorf("only %d deeds tried", tried)
	}
}

// try does the command and looks, as the superuser, what has become of the
// row. Nothing of it stays.
func (d deedTable) try(t *testing.T, conn *pgx.Conn, a actor, command string, owner int) bool {
	t.Helper()
	ctx := context.Background()
	tx := acting(t, conn, a, d.subject(a))
	defer tx.Rollback(ctx)
	id := map[int]int{0: 1, 1: 2, -1: 3}[owner]
	sql := map[string]string{
		"select": "SELECT id FROM " + d.reach(),
		"insert": d.insert(d.reach(), owner),
		"update": "UPDATE " + d.reach() + " SET v = 7", // no WHERE: that would need select too
		"delete": "DELETE FROM " + d.reach(),
	}[command]
	rows, err := tx.Query(ctx, sql)
	var seen []int
	if err == nil && command == "select" {
		seen, err = pgx.CollectRows(rows, pgx.RowTo[int])
	} else if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if refused(err) {
		return false
	}
	if err != nil {
		t.Fatalf("%s as %+v: %v", sql, a, err)
	}
	if command == "insert" {
		return true
	}
	if command == "select" {
		return slices.Contains(seen, id)
	}
	var count int
	check := map[string]string{
		"update": "SELECT count(*) FROM deed." + d.name + " WHERE id = $1 AND v = 7",
		"delete": "SELECT 1 - count(*) FROM deed." + d.name + " WHERE id = $1",
	}[command]
	if _, err := tx.Exec(ctx, "RESET ROLE"); err != nil {
		t.Fatal(err)
	}
	if err := tx.QueryRow(ctx, check, id).Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count == 1
}

func (d deedTable) subject(a actor) string {
	if a.who < 0 || d.owner == "" {
		return "alice"
	}
	return people[d.owner][a.who]
}

// acting begins a transaction of the actor.
func acting(t *testing.T, conn *pgx.Conn, a actor, subject string) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	become(t, tx, a, subject)
	return tx
}

func become(t *testing.T, tx pgx.Tx, a actor, subject string) {
	t.Helper()
	claims := a.claims
	if strings.Contains(claims, "%s") {
		claims = fmt.Sprintf(claims, subject)
	}
	if _, err := tx.Exec(context.Background(), "SELECT set_config('request.jwt.claims', $1, true)", claims); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), "SET LOCAL ROLE "+quote(a.role)); err != nil {
		t.Fatal(err)
	}
}

// refused tells insufficient_privilege, which violated policies are too.
func refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42501"
}

// TestOtherRelations tries what is no plain table, and what is no row.
func TestOtherRelations(t *testing.T) {
	w := newWorld(t, "relations", `
CREATE SCHEMA deed AUTHORIZATION app; SET ROLE app;
CREATE TABLE deed.rows (id serial, user_id text, v int DEFAULT 0);
INSERT INTO deed.rows (user_id) VALUES ('alice'), ('mallory');
CREATE TABLE deed.free (user_id text UNIQUE, v int);
INSERT INTO deed.free VALUES ('alice', 1), ('mallory', 2);
CREATE VIEW deed.owners_view AS SELECT * FROM deed.rows;
CREATE VIEW deed.plain_view WITH (security_invoker) AS SELECT * FROM deed.rows;
CREATE VIEW deed.named_view WITH (security_invoker) AS SELECT * FROM deed.rows;
CREATE MATERIALIZED VIEW deed.copied AS SELECT * FROM deed.rows;
CREATE MATERIALIZED VIEW deed.copied_named AS SELECT * FROM deed.rows;
CREATE FUNCTION deed.definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM deed.rows';
CREATE FUNCTION deed.free() RETURNS int LANGUAGE sql AS 'SELECT 0'; CREATE FUNCTION deed.closed() RETURNS int LANGUAGE sql AS 'SELECT 0';
CREATE TABLE deed.child () INHERITS (deed.rows);
INSERT INTO deed.child (user_id) VALUES ('mallory');
RESET ROLE;`)
	w.apply(withFunctions(project("deed", "user_id",
		specs.TableAccess{Name: "copied_named", Anonymous: []string{"select"}, Authenticated: nil},
		specs.TableAccess{Name: "named_view", Authenticated: []string{"select"}},
		specs.TableAccess{Name: "owners_view", Anonymous: []string{"select"}, Authenticated: []string{"select"}},
		specs.TableAccess{Name: "rows", Authenticated: []string{"insert", "select"}}),
		specs.FunctionAccess{Name: "definer", Authenticated: true}, specs.FunctionAccess{Name: "free", Anonymous: true}),
		project("other", "user_id"))
	w.exec(`SET ROLE app; CREATE FUNCTION deed.later() RETURNS int LANGUAGE sql AS 'SELECT 0'; CREATE PROCEDURE deed.later_too() LANGUAGE sql AS 'SELECT 0'`)
	invoker := func(n int) int { // what a view shows that reads with the rights of who asks, if there is such
		if w.major() < invokers {
			return -1
		}
		return n
	}
	alice := actor{role: "deed_user", claims: `{"sub":"alice"}`}
	anon, admin, service := actor{role: "deed_anon"}, actor{role: "deed_admin"}, actor{role: "deed_service"}
	for _, tt := range []struct {
		sql  string
		as   actor
		want int // -1: refused
	}{
		{"SELECT count(*) FROM deed.rows", alice, 1},
		{"SELECT count(*) FROM deed.rows", admin, 3},
		{"SELECT count(*) FROM deed.owners_view", alice, -1},
		{"SELECT count(*) FROM deed.owners_view", admin, -1},
		{"SELECT count(*) FROM deed.plain_view", alice, -1},
		{"SELECT count(*) FROM deed.plain_view", admin, invoker(3)},
		{"SELECT count(*) FROM deed.named_view", alice, invoker(1)},
		{"SELECT count(*) FROM deed.named_view", anon, -1},
		{"SELECT count(*) FROM deed.named_view", service, invoker(3)},
		{"SELECT count(*) FROM deed.copied", alice, -1},
		{"SELECT count(*) FROM deed.copied", service, 2},
		{"SELECT count(*) FROM deed.copied_named", anon, 2},
		{"SELECT count(*) FROM deed.copied_named", alice, 2},
		{"SELECT count(*) FROM deed.child", alice, 0}, // what is said of the parent
		{"WITH d AS (DELETE FROM deed.child RETURNING 1) SELECT count(*) FROM d", alice, -1},
		{"SELECT deed.definer()", alice, 0}, // the owner is under its own policies
		{"SELECT deed.definer()", actor{role: "app"}, 0},
		{"SELECT deed.definer()", anon, -1},
		{"SELECT deed.free()", anon, 0},
		{"SELECT deed.free()", alice, 0},
		{"SELECT deed.closed()", alice, -1},
		{"SELECT deed.closed()", service, 0},
		{"SELECT deed.closed()", actor{role: "other_service"}, -1},
		{"SELECT deed.later()", alice, -1}, // made since
		{"CALL deed.later_too()", service, -1},
		{"SELECT nextval('deed.rows_id_seq') * 0", alice, 0},
		{"SELECT nextval('deed.rows_id_seq')", anon, -1},
		{"SELECT setval('deed.rows_id_seq', 1)", alice, -1},
		{"WITH u AS (UPDATE deed.free SET v = 3 RETURNING 1) SELECT count(*) FROM u", alice, 1},
		{"UPDATE deed.free SET user_id = 'nemo'", alice, -1}, // nothing is given away,
		{"UPDATE deed.free SET user_id = NULL", alice, -1},   // nor to nobody
		{"INSERT INTO deed.free VALUES ('mallory', 3) ON CONFLICT (user_id) DO UPDATE SET v = 3", alice, -1},
		{"SELECT count(*) FROM deed.free", anon, -1},
		{"TRUNCATE deed.rows", service, -1},
		{"CREATE TABLE deed.mine (x int)", service, -1},
		{"CREATE TABLE other.mine (x int)", service, -1},
		{"ALTER TABLE deed.rows DISABLE ROW LEVEL SECURITY", admin, -1},
		{"SET LOCAL row_security = off; SELECT count(*) FROM deed.rows", alice, -1},
		{"COMMENT ON SCHEMA deed IS NULL", service, -1},
	} {
		t.Run(tt.as.role+" "+tt.sql, func(t *testing.T) {
			ctx := context.Background()
			tx, err := pgtest.Connect(t, w.url).Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(ctx)
			become(t, tx, tt.as, "")
			results, err := tx.Conn().PgConn().Exec(ctx, tt.sql).ReadAll()
			got := "-1"
			switch last := len(results) - 1; {
			case refused(err):
			case err != nil:
				t.Fatal(err)
			default:
				got = "done"
				if len(results[last].Rows) == 1 {
					got = string(results[last].Rows[0][0])
				}
			}
			if got != fmt.Sprint(tt.want) {
				t.Errorf("%s, want %d", got, tt.want)
			}
		})
	}
}

// A setting that ended with its transaction is ” and not NULL: nobody must
// be the owner ”.
func TestNobodyIsLoggedInAfterATransaction(t *testing.T) {
	w := newWorld(t, "nobody", `CREATE SCHEMA deed; CREATE TABLE deed.t (user_id text); INSERT INTO deed.t VALUES (''), ('alice')`)
	w.apply(project("deed", "user_id"))
	conn := pgtest.Connect(t, w.url)
	results, err := conn.PgConn().Exec(context.Background(), `SET ROLE deed_user;
BEGIN; SET LOCAL request.jwt.claims = '{"sub":"alice"}'; SELECT count(*) FROM deed.t; COMMIT; SELECT count(*) FROM deed.t`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	in, after := string(results[3].Rows[0][0]), string(results[5].Rows[0][0])
	if in != "1" || after != "0" {
		t.Errorf("rows in the transaction %s, want 1; after it %s, want 0", in, after)
	}
}

// otherHands does to converged tables, at random, what people and migrations
// do: it widens, passes on, gives to others, breaks. It returns how many
// statements the server took.
func otherHands(t *testing.T, conn *pgx.Conn, rnd *rand.Rand, tables []deedTable) int {
	t.Helper()
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	anyone := func() string {
		return pick("PUBLIC", "deed_anon", "deed_user", "deed_service", "other_user", "other_admin", "bob", "carol")
	}
	done := 0
	for i := range 150 {
		table := tables[rnd.IntN(len(tables))].reach()
		privilege := pick("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "ALL", "SELECT (v)", "UPDATE (v, id)")
		sql := []string{
			"GRANT " + privilege + " ON " + table + " TO " + anyone(),
			"GRANT " + privilege + " ON " + table + " TO " + pick("bob", "carol") + " WITH GRANT OPTION",
			"SET ROLE bob; GRANT " + privilege + " ON " + table + " TO " + pick("PUBLIC", "deed_anon", "deed_user", "carol"),
			"SET ROLE carol; GRANT " + privilege + " ON " + table + " TO " + pick("PUBLIC", "deed_anon", "other_user"),
			fmt.Sprintf("CREATE POLICY p%d ON %s FOR %s TO %s, %s USING (true)", i, table, pick("ALL", "SELECT", "UPDATE", "DELETE"), anyone(), anyone()),
			"ALTER TABLE " + table + " " + pick("DISABLE", "NO FORCE") + " ROW LEVEL SECURITY",
			"DROP POLICY " + pick("cordon_own", "cordon_all", "cordon_public_select") + " ON " + table,
			"ALTER POLICY " + pick("cordon_own", "cordon_all", "cordon_public_update") + " ON " + table + " TO PUBLIC",
			"ALTER POLICY " + pick("cordon_own", "cordon_public_delete") + " ON " + table + " USING (true)",
			"ALTER TABLE " + table + " OWNER TO " + pick("bob", "carol"),
			"ALTER ROLE " + pick("deed_anon", "deed_user", "other_service") + " " + pick("SUPERUSER", "BYPASSRLS", "CREATEROLE", "LOGIN"),
			"GRANT " + pick("deed_admin", "deed_service", "bob") + " TO " + pick("deed_anon", "other_user", "carol"),
			"GRANT USAGE ON SCHEMA deed TO " + anyone(),
			"REVOKE " + privilege + " ON " + table + " FROM " + pick("deed_user", "deed_admin", "deed_service"),
			"ALTER ROLE deed_user SET row_security = off",
		}[rnd.IntN(15)]
		results, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
		if err == nil && len(results) > 0 {
			done++
		}
		if _, err := conn.Exec(context.Background(), "RESET ROLE"); err != nil {
			t.Fatal(err)
		}
	}
	return done
}

// othersAccess is what bob and carol have been granted, and their policies.
func othersAccess(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var out string
	err := conn.QueryRow(context.Background(), `
SELECT string_agg(line, E'\n' ORDER BY line) FROM (
  SELECT format('%s: %s by %s, %s %s', c.oid::regclass, a.grantee::regrole, a.grantor::regrole, a.privilege_type, a.is_grantable) AS line
  FROM pg_class c, aclexplode(c.relacl) a WHERE a.grantee IN ('bob'::regrole, 'carol'::regrole) AND c.relowner <> a.grantee
  UNION ALL SELECT format('policy %s on %s for %s', polname, polrelid::regclass, 'bob'::regrole = ANY (polroles)) FROM pg_policy WHERE polname ~ '^p' AND polroles && ARRAY['bob'::regrole::oid, 'carol'::regrole::oid] AND NOT 0 = ANY (polroles)) x`).Scan(&out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
