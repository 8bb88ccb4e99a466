package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/pgtest"
)

const watchPatience = 20 * time.Second

// watch runs Watch on the world's database until the test ends.
func (w *world) watch() (woken chan struct{}, ended chan error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	woken, ended = make(chan struct{}, 1000), make(chan error, 1)
	e := w.enforcer(w.t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- e.Watch(ctx, w.block, func() { woken <- struct{}{} })
	}()
	w.t.Cleanup(func() {
		why := errors.New("the test is over")
		cancel(why)
		<-done
		if err := <-ended; !errors.Is(err, why) {
			w.t.Errorf("it ended with %v", err)
		}
	})
	return woken, ended
}

func (w *world) woken(c chan struct{}) {
	w.t.Helper()
	select {
	case <-c:
	case <-time.After(watchPatience):
		w.t.Fatal("nobody was woken")
	}
}

// calm takes the wakes that come within d of one another, and tells how many
// there were.
func calm(c chan struct{}, d time.Duration) (n int) {
	for {
		select {
		case <-c:
			n++
		case <-time.After(d):
			return n
		}
	}
}

func TestWatch(t *testing.T) {
	w := newWorld(t, "watched", `CREATE SCHEMA watched AUTHORIZATION app; SET ROLE app; CREATE TABLE watched.orders (user_id text)`)
	w.apply(project("watched", "user_id"))
	woken, _ := w.watch()
	w.woken(woken)
	calm(woken, watchRest+watchRest/2)
	for _, sql := range []string{
		`CREATE TABLE watched.fresh (x int)`,
		`DROP TABLE watched.fresh`,
		`GRANT SELECT ON watched.orders TO PUBLIC`,
		`ALTER TABLE watched.orders DISABLE ROW LEVEL SECURITY`,
		`DO $$ DECLARE p text; BEGIN SELECT polname INTO p FROM pg_policy WHERE polrelid = 'watched.orders'::regclass LIMIT 1; EXECUTE format('DROP POLICY %I ON watched.orders', p); END $$`,
		`ALTER TABLE watched.orders OWNER TO bob`,
		`ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO PUBLIC`,
		`ALTER ROLE watched_anon SUPERUSER`,
		`ALTER ROLE watched_anon BYPASSRLS`,
		`GRANT watched_admin TO watched_anon`,
		`ALTER ROLE watched_anon SET work_mem = '1MB'`,
		`GRANT CREATE ON DATABASE ` + quote(w.database()) + ` TO PUBLIC`,
		`ALTER DATABASE ` + quote(w.database()) + ` SET row_security = off`,
		`COMMENT ON ROLE watched_anon IS 'mine'`,
		`ALTER EVENT TRIGGER cordon_guard_watched DISABLE`,
		`SET session_replication_role = replica; CREATE TABLE watched.fresh (x int)`,
		`NOTIFY cordon`,
	} {
		w.exec(sql)
		select {
		case <-woken:
		case <-time.After(watchPatience):
			t.Errorf("%s: nobody was woken", sql)
		}
		calm(woken, watchRest+watchRest/2)
	}
	for _, sql := range []string{
		`CREATE TEMP TABLE t (x int); INSERT INTO t VALUES (1); DROP TABLE t`,
		`INSERT INTO watched.orders VALUES ('1'); ANALYZE watched.orders`,
		`CREATE INDEX ON watched.orders (user_id)`,
		`SELECT * FROM watched.orders`,
	} {
		w.exec(sql)
		if n := calm(woken, sharedEvery+watchRest); n > 0 {
			t.Errorf("%s: woke %d times", sql, n)
		}
	}
}

func (w *world) database() (name string) {
	w.t.Helper()
	if err := pgtest.Connect(w.t, w.url).QueryRow(w.t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		w.t.Fatal(err)
	}
	return name
}

// A connection that is lost is told, and wakes.
func TestWatchLost(t *testing.T) {
	w := newWorld(t, "lost", `SELECT`)
	woken, ended := make(chan struct{}, 10), make(chan error, 1)
	e := w.enforcer(t)
	go func() { ended <- e.Watch(t.Context(), w.block, func() { woken <- struct{}{} }) }()
	w.woken(woken)
	w.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cordon' AND datname = current_database()`)
	w.woken(woken)
	select {
	case err := <-ended:
		t.Log(err)
	case <-time.After(watchPatience):
		t.Fatal("it goes on")
	}
}

// Whoever is no superuser hears of what is shared.
func TestWatchWithoutPrivilege(t *testing.T) {
	w := newWorld(t, "humble", `SELECT`)
	w.url = pgtest.As(t, w.url, "bob", "")
	woken, _ := w.watch()
	w.woken(woken)
	calm(woken, watchRest+watchRest/2)
	w.exec(`ALTER ROLE bob SET work_mem = '2MB'`)
	w.woken(woken)
	calm(woken, watchRest+watchRest/2)
	pgtest.Exec(t, pgtest.As(t, w.url, pgtest.Superuser, ""), `ALTER ROLE carol CREATEDB`)
	w.woken(woken)
	pgtest.Exec(t, pgtest.As(t, w.url, pgtest.Superuser, ""), `ALTER ROLE carol NOCREATEDB; ALTER ROLE bob RESET ALL`)
}
