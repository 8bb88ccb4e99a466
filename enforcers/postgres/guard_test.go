package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aicodesit/cordon/internal/pgtest"
)

// Tables are made in every way there is, with rows in them and privileges for
// all by default, while clients look: none ever sees a row.
func TestNewTablesAreClosedAtOnce(t *testing.T) {
	w := newWorld(t, "guarded", `CREATE SCHEMA guarded AUTHORIZATION app; CREATE SCHEMA elsewhere AUTHORIZATION app; GRANT USAGE ON SCHEMA guarded TO bob`)
	w.apply(project("guarded", "user_id"))
	w.exec(`ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO bob, PUBLIC`)
	done := make(chan struct{})
	var wg sync.WaitGroup
	var lookers atomic.Int32 // who have looked at a table
	for range 2 {
		conn := pgtest.Connect(t, pgtest.As(t, w.url, "bob", ""))
		wg.Go(func() {
			looked := 0
			for i := 0; ; i++ {
				select {
				case <-done:
					if looked == 0 {
						t.Error("no table was ever looked at")
					}
					return
				default:
				}
				var n int
				err := conn.QueryRow(context.Background(), fmt.Sprintf("SELECT count(*) FROM guarded.t%d", i%6)).Scan(&n)
				if err == nil {
					if looked++; looked == 1 {
						lookers.Add(1)
					}
				}
				if n != 0 || err != nil && !strings.Contains(err.Error(), "does not exist") {
					t.Errorf("t%d: %d rows, %v", i%6, n, err)
					return
				}
			}
		})
	}
	maker := pgtest.Connect(t, pgtest.As(t, w.url, "app", ""))
	for n := 0; n < 15 || lookers.Load() < 2 && n < 500; n++ { // each meets one by chance
		for _, sql := range []string{
			`CREATE TABLE guarded.t0 AS SELECT 1 AS x`,
			`SELECT 1 AS x INTO guarded.t1`,
			`CREATE TABLE elsewhere.t2 AS SELECT 1 AS x; ALTER TABLE elsewhere.t2 SET SCHEMA guarded`,
			`CREATE TABLE guarded.parent (x int) PARTITION BY LIST (x); CREATE TABLE guarded.t3 PARTITION OF guarded.parent DEFAULT`,
			`DO $$ BEGIN CREATE TABLE guarded.t4 AS SELECT 1 AS x; END $$`,
			`CREATE TABLE guarded.t5 (LIKE guarded.t0)`,
			`DROP TABLE guarded.t0, guarded.t1, guarded.t2, guarded.parent, guarded.t4, guarded.t5`,
		} {
			if _, err := maker.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	close(done)
	wg.Wait()
}

// What the guard leaves alone, and what it takes from PUBLIC.
func TestGuardKnowsItsPlace(t *testing.T) {
	w := newWorld(t, "place", `CREATE SCHEMA place AUTHORIZATION app; CREATE SCHEMA elsewhere AUTHORIZATION app; SET ROLE app; CREATE TABLE place.old (user_id text)`)
	w.apply(project("place", "user_id"))
	w.exec(`SET ROLE app; CREATE TABLE elsewhere.t (x int); 
ALTER TABLE place.old NO FORCE ROW LEVEL SECURITY; ALTER TABLE place.old ADD COLUMN y int;
RESET ROLE; CREATE FUNCTION place.by_superuser("a,b" text) RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION elsewhere.f() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE EXTENSION citext SCHEMA place; CREATE TABLE place."new ""er" (x int)`)
	var got string
	err := pgtest.Connect(t, w.url).QueryRow(t.Context(), `
SELECT concat_ws(' ', (SELECT relrowsecurity FROM pg_class WHERE oid = 'elsewhere.t'::regclass), (SELECT relforcerowsecurity FROM pg_class WHERE oid = 'place.old'::regclass),
 (SELECT relforcerowsecurity FROM pg_class WHERE oid = 'place."new ""er"'::regclass),
 has_function_privilege('bob', 'place.by_superuser(text)', 'EXECUTE'), has_function_privilege('bob', 'elsewhere.f()', 'EXECUTE'), has_function_privilege('bob', 'place.citext(inet)', 'EXECUTE'))`).Scan(&got)
	if want := "f f t f t t"; err != nil || got != want {
		t.Errorf("%s, want %s; %v", got, want, err)
	}
	w.exec(`DROP EXTENSION citext`)
	w.apply(project("place", "user_id"))
}
