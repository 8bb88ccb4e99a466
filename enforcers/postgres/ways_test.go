package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// way is another way than the plain statement to do something with a table, by
// what it takes. %[1]s is the table, %[2]d the row's id, %[3]s an insert of a
// row of the same owner, with that id.
type way struct {
	sql    string
	takes  []string // all of these commands on the row
	from   int      // version of the server
	unique bool     // it takes a primary key
}

var ways = []way{
	{sql: "COPY (SELECT id FROM %[1]s) TO STDOUT", takes: []string{"select"}},
	{sql: "TABLE %[1]s", takes: []string{"select"}},
	{sql: "UPDATE %[1]s SET v = 7 RETURNING id", takes: []string{"update", "select"}},
	{sql: "UPDATE %[1]s SET v = 7 WHERE id = %[2]d", takes: []string{"update", "select"}},
	{sql: "DELETE FROM %[1]s RETURNING id", takes: []string{"delete", "select"}},
	{sql: "DELETE FROM %[1]s WHERE id = %[2]d", takes: []string{"delete", "select"}},
	{sql: "WITH d AS (DELETE FROM %[1]s WHERE id = %[2]d RETURNING id) SELECT id FROM d", takes: []string{"delete", "select"}},
	{sql: "SELECT id FROM %[1]s WHERE id = %[2]d FOR UPDATE", takes: []string{"select", "update"}},
	{sql: "SELECT id FROM %[1]s WHERE id = %[2]d FOR KEY SHARE", takes: []string{"select", "update"}},
	{sql: "%[3]s ON CONFLICT (id) DO UPDATE SET v = 7", takes: []string{"insert", "update", "select"}, unique: true},
	{sql: "MERGE INTO %[1]s t USING (SELECT %[2]d AS i) s ON t.id = s.i WHEN MATCHED THEN UPDATE SET v = 7", takes: []string{"select", "update"}, from: 150000},
	{sql: "MERGE INTO %[1]s t USING (SELECT %[2]d AS i) s ON t.id = s.i WHEN MATCHED THEN DELETE", takes: []string{"select", "delete"}, from: 150000},
}

// role tells whether a role may do the command on any row.
func (d deedTable) role(name, command string) bool {
	return slices.ContainsFunc(actors, func(a actor) bool {
		return a.role == name && (d.allowed(a, command, -1) || d.allowed(a, command, 0))
	})
}

// wayRound tells whether, in this way, the row was shown or changed.
func (d deedTable) wayRound(t *testing.T, conn *pgx.Conn, a actor, x way, owner int) bool {
	t.Helper()
	id := map[int]int{0: 1, 1: 2, -1: 3}[owner]
	into := strings.Replace(strings.Replace(d.insert(d.reach(), owner), "(v", "(id, v", 1), "(0", fmt.Sprintf("(%d, 0", id), 1)
	sql := strings.NewReplacer("%[1]s", d.reach(), "%[2]d", fmt.Sprint(id), "%[3]s", into).Replace(x.sql)
	shown, changed := d.tryOnce(t, conn, a, sql, id)
	if strings.Contains(sql, "RETURNING") && shown != changed {
		t.Errorf("%s as %+v: shown %v, changed %v", sql, a, shown, changed)
	}
	if strings.HasPrefix(x.sql, "COPY") || strings.HasPrefix(x.sql, "TABLE") || strings.HasPrefix(x.sql, "SELECT") {
		return shown
	}
	return changed
}

// tryOnce does the statement as the actor and tells whether the id is the first
// column of a row that is shown, and whether the row is another afterwards.
func (d deedTable) tryOnce(t *testing.T, conn *pgx.Conn, a actor, sql string, id int) (shown, changed bool) {
	t.Helper()
	ctx := context.Background()
	tx := acting(t, conn, a, d.subject(a))
	defer tx.Rollback(ctx)
	var err error
	var out bytes.Buffer
	if strings.HasPrefix(sql, "COPY") {
		_, err = conn.PgConn().CopyTo(ctx, &out, sql)
	} else {
		var results []*pgconn.Result
		results, err = conn.PgConn().Exec(ctx, sql).ReadAll()
		for _, r := range results {
			for _, row := range r.Rows {
				fmt.Fprintf(&out, "%s\n", row[0])
			}
		}
	}
	if refused(err) {
		return false, false
	}
	if err != nil {
		t.Fatalf("%s as %+v: %v", sql, a, err)
	}
	if _, err := tx.Exec(ctx, "RESET ROLE"); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM deed."+d.name+" WHERE id = $1 AND v = 0", id).Scan(&left); err != nil {
		t.Fatal(err)
	}
	return slices.Contains(strings.Fields(out.String()), fmt.Sprint(id)), left == 0
}

// around tries every way to do something with the table, and what is no row
// and nobody's: its locks, its sequence, all of it at once.
func (d deedTable) around(t *testing.T, conn *pgx.Conn, version int, a actor) (tried int) {
	t.Helper()
	for _, x := range ways {
		if version < x.from || x.unique && d.part {
			continue
		}
		for _, owner := range []int{-1, 0, 1} {
			if d.owner == "" && owner > 0 {
				continue
			}
			want := !slices.ContainsFunc(x.takes, func(c string) bool { return !d.allowed(a, c, owner) })
			if got := d.wayRound(t, conn, a, x, owner); got != want {
				t.Errorf("%s (owner column %q, declared %+v) as %+v: %s on a row of %d: %v, declared %v", d.reach(), d.owner, d.access, a, x.sql, owner, got, want)
			}
			tried++
		}
	}
	writes := d.role(a.role, "update") || d.role(a.role, "delete")
	for sql, want := range map[string]bool{
		"TRUNCATE " + d.reach(): false,
		"LOCK TABLE ONLY " + d.reach() + " IN ACCESS EXCLUSIVE MODE":                                               writes,
		"SELECT nextval('deed." + d.name + "_id_seq')":                                                             d.role(a.role, "insert"),
		"SELECT setval('deed." + d.name + "_id_seq', 1)":                                                           false,
		"CREATE TRIGGER x AFTER INSERT ON " + d.reach() + " EXECUTE FUNCTION suppress_redundant_updates_trigger()": false,
		"COMMENT ON TABLE " + d.reach() + " IS NULL":                                                               false,
	} {
		if got := permitted(t, conn, a, d.subject(a), sql); got != want {
			t.Errorf("%s (%+v) as %+v: %s: %v, want %v", d.reach(), d.access, a, sql, got, want)
		}
		tried++
	}
	return tried
}

// permitted tells whether the actor may do that; nothing of it stays.
func permitted(t *testing.T, conn *pgx.Conn, a actor, subject, sql string) bool {
	t.Helper()
	ctx := context.Background()
	tx := acting(t, conn, a, subject)
	defer tx.Rollback(ctx)
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	var pg *pgconn.PgError
	if err != nil && !errors.As(err, &pg) {
		t.Fatal(err)
	}
	return !refused(err)
}

func serverVersion(t *testing.T, conn *pgx.Conn) (version int) {
	t.Helper()
	if err := conn.QueryRow(context.Background(), "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return version
}
