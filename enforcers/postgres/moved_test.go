package postgres

import (
	"cmp"
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/specs"
)

// Things that are moved or renamed by hand take their access with them, or
// leave it behind. Each is seen, nothing is more open in between than it was
// or is declared, and one apply puts it right.
func TestMovedByHand(t *testing.T) {
	const setup = `CREATE SCHEMA moved; CREATE SCHEMA movedtwo; CREATE SCHEMA aside; GRANT USAGE ON SCHEMA aside TO PUBLIC;
CREATE TABLE moved.orders (id int, user_id text, v int DEFAULT 0); INSERT INTO moved.orders VALUES (1, 'alice'), (2, 'mallory');
CREATE TABLE moved.news (id int, user_id text, v int DEFAULT 0); INSERT INTO moved.news VALUES (1, 'alice'), (2, 'mallory');
CREATE TABLE moved.events (id int, user_id text, v int) PARTITION BY RANGE (v); CREATE TABLE moved.events_one PARTITION OF moved.events FOR VALUES FROM (0) TO (10);
INSERT INTO moved.events VALUES (1, 'alice', 1), (2, 'mallory', 1);
CREATE TABLE moved.fresh (id int, user_id text, v int); INSERT INTO moved.fresh VALUES (2, 'mallory', 100);
CREATE TABLE movedtwo.things (id int, user_id text, v int); INSERT INTO movedtwo.things VALUES (2, 'mallory', 0);`
	declared := func() []specs.Project {
		return []specs.Project{
			project("moved", "user_id", specs.TableAccess{Name: "news", Anonymous: []string{"select"}},
				specs.TableAccess{Name: "orders", Authenticated: []string{"select"}}),
			project("movedtwo", "user_id"),
		}
	}
	mallorys := " WHERE id = 2"
	for _, tt := range []struct {
		name, do string
		unseen   bool     // it changes nothing of the access that is declared
		never    []string // what shows another's row to alice (or to as), neither before nor after
		as       string
		fresh    func() []specs.Project // what is declared from then on
	}{
		{
			name: "a table moved to another schema", do: `ALTER TABLE moved.orders SET SCHEMA aside`,
			never: []string{"SELECT id FROM aside.orders" + mallorys},
		},
		{
			name: "a public table moved to another project", do: `ALTER TABLE moved.news SET SCHEMA movedtwo`, as: "movedtwo_user",
			never: []string{"SELECT id FROM movedtwo.news" + mallorys, "UPDATE movedtwo.news SET v = 7 WHERE id = 2 RETURNING id"},
		},
		{
			name: "another project's table moved here", do: `ALTER TABLE movedtwo.things SET SCHEMA moved`,
			never: []string{"SELECT id FROM moved.things" + mallorys, "DELETE FROM moved.things WHERE id = 2 RETURNING id"},
		},
		{
			name: "a table from outside moved here", do: `CREATE TABLE aside.late (id int, user_id text, v int); INSERT INTO aside.late VALUES (2, 'mallory', 0); GRANT ALL ON aside.late TO moved_user; ALTER TABLE aside.late SET SCHEMA moved`,
			never: []string{"SELECT id FROM moved.late" + mallorys},
		},
		{
			name: "a table swapped", do: `BEGIN; CREATE TABLE moved.orders_new (LIKE moved.orders); INSERT INTO moved.orders_new TABLE moved.orders; ALTER TABLE moved.orders RENAME TO orders_old; ALTER TABLE moved.orders_new RENAME TO orders; COMMIT`,
			never: []string{"SELECT id FROM moved.orders" + mallorys, "SELECT id FROM moved.orders_old" + mallorys, "UPDATE moved.orders SET v = 7 WHERE id = 2 RETURNING id"},
		},
		{
			name: "an open table gets a closed one's name", do: `ALTER TABLE moved.orders RENAME TO tmp; ALTER TABLE moved.news RENAME TO orders; ALTER TABLE moved.tmp RENAME TO news`,
			never: []string{"UPDATE moved.orders SET v = 7 WHERE id = 2 RETURNING id", "DELETE FROM moved.news WHERE id = 2 RETURNING id"},
		},
		{
			name: "an owner column renamed", do: `ALTER TABLE moved.orders RENAME user_id TO uid; ALTER TABLE moved.orders ADD user_id text DEFAULT 'alice'`,
			// until the next apply the policies follow the old column: what they show is what they showed
			never: []string{"UPDATE moved.orders SET v = 7 WHERE id = 2 RETURNING id"},
		},
		{
			name: "a partition detached", do: `ALTER TABLE moved.events DETACH PARTITION moved.events_one`, unseen: true,
			never: []string{"SELECT id FROM moved.events_one" + mallorys, "SELECT id FROM moved.events" + mallorys},
		},
		{
			name: "a partition detached and moved out", do: `ALTER TABLE moved.events DETACH PARTITION moved.events_one; ALTER TABLE moved.events_one SET SCHEMA aside`,
			never: []string{"SELECT id FROM aside.events_one" + mallorys},
		},
		{
			name: "a table attached as a partition", do: `ALTER TABLE moved.events ATTACH PARTITION moved.fresh FOR VALUES FROM (100) TO (200)`, unseen: true,
			never: []string{"SELECT id FROM moved.fresh" + mallorys, "SELECT id FROM moved.events WHERE v = 100"},
		},
		{
			name: "another project's table attached as a partition", do: `UPDATE movedtwo.things SET v = 100; ALTER TABLE moved.events ATTACH PARTITION movedtwo.things FOR VALUES FROM (100) TO (200)`,
			never: []string{"SELECT id FROM movedtwo.things" + mallorys},
		},
		{
			name: "a schema renamed", do: `ALTER SCHEMA moved RENAME TO elsewhen`,
			never: []string{"SELECT id FROM elsewhen.orders" + mallorys, "UPDATE elsewhen.news SET v = 7 WHERE id = 2 RETURNING id"},
		},
		{
			name: "two schemas swapped", do: `ALTER SCHEMA moved RENAME TO tmp; ALTER SCHEMA movedtwo RENAME TO moved; ALTER SCHEMA tmp RENAME TO movedtwo`,
			never: []string{"SELECT id FROM movedtwo.orders" + mallorys, "SELECT id FROM moved.things" + mallorys, "UPDATE movedtwo.news SET v = 7 WHERE id = 2 RETURNING id"},
		},
		{
			name: "a role renamed", do: `ALTER ROLE moved_user RENAME TO moved_people`, as: "moved_people",
			never: []string{"SELECT id FROM moved.orders" + mallorys},
		},
		{
			name: "two roles swapped", do: `ALTER ROLE moved_anon RENAME TO tmp; ALTER ROLE moved_service RENAME TO moved_anon; ALTER ROLE tmp RENAME TO moved_service`, as: "moved_user",
			never: []string{"SELECT id FROM moved.orders" + mallorys},
		},
		{
			name: "a project renamed", fresh: func() []specs.Project {
				p := declared()
				p[0].Name = "movednew"
				return p
			},
			never: []string{"SELECT id FROM moved.orders" + mallorys, "UPDATE moved.news SET v = 7 WHERE id = 2 RETURNING id"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "moved", setup)
			defer w.exec(`DROP ROLE IF EXISTS tmp`)
			w.apply(declared()...)
			shows := func(when string) {
				for _, sql := range tt.never {
					try := `SET LOCAL request.jwt.claims = '{"sub":"alice"}'; ` + sql
					if role := cmp.Or(tt.as, "moved_user"); w.has(role) && w.does(role, try) {
						t.Errorf("%s %s does %s", when, role, sql)
					}
				}
			}
			shows("before")
			if tt.do != "" {
				w.exec(tt.do)
			}
			shows("in between")
			now := declared()
			if tt.fresh != nil {
				now = tt.fresh()
			}
			if _, p := w.plan(w.declared(now...)); p.Empty() != tt.unseen {
				t.Errorf("the plan says %s", describe(p))
			}
			w.apply(now...)
			shows("after")
		})
	}
}

// does tells whether the last statement gave the role rows.
func (w *world) does(role, sql string) bool {
	w.t.Helper()
	ctx := context.Background()
	conn := pgtest.Connect(w.t, w.url)
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, "BEGIN; SET LOCAL ROLE "+quote(role)+"; "+sql+"; ROLLBACK").ReadAll()
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return len(results[len(results)-2].Rows) > 0
	case errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "42P01" || pg.Code == "3F000"): // there is none, or it may not
		return false
	}
	w.t.Fatalf("%s: %v", sql, err)
	return false
}

func (w *world) has(role string) (there bool) {
	w.t.Helper()
	if err := pgtest.Connect(w.t, w.url).QueryRow(context.Background(), "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role).Scan(&there); err != nil {
		w.t.Fatal(err)
	}
	return there
}
