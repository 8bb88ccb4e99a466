package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
)

// What ALL means depends on the version: MAINTAIN came with 17.
func TestPrivilegesByVersion(t *testing.T) {
	for item, want := range map[string]string{
		"r=arwdDxt/app":  "DELETE INSERT REFERENCES SELECT TRIGGER TRUNCATE UPDATE",
		"r=arwdDxtm/app": "DELETE INSERT MAINTAIN REFERENCES SELECT TRIGGER TRUNCATE UPDATE",
		"r=m*/app":       "MAINTAIN with grant option",
	} {
		acl, err := parseACL([]string{item}, "")
		if err != nil {
			t.Fatal(err)
		}
		all := func(string) bool { return true }
		if got := strings.Join(grantsOf(acl, all)[0].Privileges, " "); got != want {
			t.Errorf("%s is %s, want %s", item, got, want)
		}
		revokes, _ := alterACL("TABLE t", "app", acl, all, nil)
		if len(revokes) != len(acl) {
			t.Errorf("%s: %v", item, revokes)
		}
	}
}

// However the database and the role are set, conditions are read and written
// in one way.
func TestOtherSearchPath(t *testing.T) {
	w := newWorld(t, "paths", `CREATE SCHEMA paths; CREATE TABLE paths.t (user_id uuid, x int);
CREATE FUNCTION paths.current_setting(text, boolean) RETURNS text LANGUAGE sql AS 'SELECT ''{"sub":"mallory"}''';
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = paths, public', current_database());
EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off', current_database());
EXECUTE format('ALTER ROLE postgres IN DATABASE %I SET search_path = paths, pg_catalog', current_database()); END $$`)
	w.apply(project("paths", "user_id"))
	var qual string
	if err := pgtest.Connect(t, w.url).QueryRow(t.Context(), `SELECT pg_get_expr(polqual, polrelid) FROM pg_policy WHERE polname = 'cordon_own'`).Scan(&qual); err != nil || !strings.Contains(qual, "pg_catalog.current_setting") {
		t.Errorf("the condition asks %s; %v", qual, err)
	}
}

// A table that comes between plan and apply is left to the next plan, closed.
func TestTableMadeMeanwhile(t *testing.T) {
	w := newWorld(t, "made", `CREATE SCHEMA made`)
	w.apply(project("made", "user_id"))
	r, p := w.plan(w.declared(project("made", "user_id")))
	w.exec(`CREATE TABLE made.t (user_id text); INSERT INTO made.t VALUES ('alice'); GRANT SELECT ON made.t TO made_user`)
	if err := r.Apply(t.Context(), p, nil).Err(); err != nil {
		t.Fatal(err)
	}
	var n int
	conn := pgtest.Connect(t, w.url)
	if _, err := conn.Exec(t.Context(), "SET ROLE made_user"); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM made.t").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows are seen, %v", n, err)
	}
	w.apply(project("made", "user_id"))
}

// The application's queries never stand behind cordon: while a table can't be
// had, nothing waits in its queue.
func TestNeverInFrontOfTheApplication(t *testing.T) {
	w := newWorld(t, "queue", `CREATE SCHEMA queue; CREATE TABLE queue.t (user_id text)`)
	tx, err := pgtest.Connect(t, w.url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT * FROM queue.t"); err != nil {
		t.Fatal(err)
	}
	set := w.set(project("queue", "user_id"))
	done := make(chan error, 1)
	e := w.enforcer(t)
	go func() {
		r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
		p, err := r.Plan(context.Background(), set)
		if err == nil {
			err = r.Apply(context.Background(), p, nil).Err()
		}
		done <- err
	}()
	reader := pgtest.Connect(t, w.url)
	waitFor(t, w, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'queue_user')`)
	if _, err := reader.Exec(t.Context(), "SET lock_timeout = '20ms'"); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < time.Second; {
		if _, err := reader.Exec(t.Context(), "SELECT * FROM queue.t"); err != nil { // one who waits behind cordon
			t.Fatal(err)
		}
	}
	_ = tx.Rollback(t.Context())
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.apply(project("queue", "user_id"))
}

// An application that takes the tables in the other order is not what ends.
func TestNoDeadlockForTheApplication(t *testing.T) {
	w := newWorld(t, "dead", `CREATE SCHEMA dead; CREATE TABLE dead.a (user_id text, x int); CREATE TABLE dead.b (user_id text, x int)`)
	sets := []struct{ column string }{{"user_id"}, {""}}
	w.apply(project("dead", "user_id"))
	done := make(chan struct{})
	var wg sync.WaitGroup
	conn := pgtest.Connect(t, w.url)
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := conn.PgConn().Exec(context.Background(), "BEGIN; UPDATE dead.b SET x = 1; UPDATE dead.a SET x = 1; COMMIT").ReadAll(); err != nil {
				t.Errorf("the application: %v", err)
				return
			}
		}
	})
	for i := range 20 {
		set := w.set(project("dead", sets[i%2].column))
		r, p := w.plan(set)
		if err := r.Apply(t.Context(), p, nil).Err(); err != nil {
			t.Error(err)
		}
		_ = r.Enforcers[0].Enforcer.(*Enforcer).Close(t.Context())
	}
	close(done)
	wg.Wait()
}

// place is a directory of the server's user below the cluster's.
func place(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(pgtest.Start(t).Dir, name)
	if out, err := pgtest.Start(t).AsServer("mkdir", "-m", "700", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func started(t *testing.T, cmd *exec.Cmd, socket, database string) string {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGINT); _ = cmd.Wait() })
	where := "postgres://postgres@/" + database + "?host=" + url.QueryEscape(socket)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := pgx.Connect(context.Background(), where)
		if err == nil {
			_ = c.Close(context.Background())
			return where
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("%v: %s", err, said)
		}
	}
}

// A real standby of the test's own server.
func TestStandby(t *testing.T) {
	s := pgtest.Start(t)
	w := newWorld(t, "standby", `CREATE SCHEMA standby; CREATE TABLE standby.t (user_id text)`)
	w.apply(project("standby", "user_id"))
	hba, err := os.OpenFile(s.Dir+"/data/pg_hba.conf", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(hba, "local replication all trust")
	_ = hba.Close()
	w.exec("SELECT pg_reload_conf()")
	dir := place(t, "standby")
	backup(t, w, s, dir+"/data")
	name := w.url[strings.LastIndex(w.url, "/")+1 : strings.Index(w.url, "?")]
	where := started(t, s.AsServer("postgres", "-D", dir+"/data", "-k", dir, "-c", "listen_addresses="), dir, name)
	e := w.enforcerAs(t, where, nil)
	_, err = e.Survey(t.Context(), w.set(project("standby", "user_id")))
	wantErr(t, err, "database.standby", "standby", "connect to the primary")
	live, err := e.Read(t.Context())
	if err != nil || len(live) == 0 {
		t.Errorf("%d live, %v", len(live), err)
	}
	err = e.Apply(t.Context(), reconciler.Change{After: Role{Database: "standby", Name: "standby_more"}})
	wantErr(t, err, "postgres.role.standby.standby_more", "connect to the primary")
	finding(t, e, reconciler.Fail, "a standby")
}

// backup copies the server's data for a standby, as pg_basebackup would.
func backup(t *testing.T, w *world, s *pgtest.Server, to string) {
	t.Helper()
	conn := pgtest.Connect(t, w.url)
	start, stop := "SELECT pg_backup_start('standby', true)", "SELECT labelfile FROM pg_backup_stop(false)"
	if version(t, conn) < 150000 {
		start, stop = "SELECT pg_start_backup('standby', true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)"
	}
	if _, err := conn.Exec(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	copied, copyErr := s.AsServer("cp", "-a", s.Dir+"/data", to).CombinedOutput()
	var label string
	if err := conn.QueryRow(t.Context(), stop).Scan(&label); err != nil || copyErr != nil {
		t.Fatalf("%v; %v: %s", err, copyErr, copied)
	}
	as := s.AsServer("sh", "-c", `cd "$0" && rm postmaster.pid && touch standby.signal && cat >backup_label && echo "primary_conninfo = 'host=$1 user=postgres'" >>postgresql.auto.conf`, to, s.Dir)
	as.Stdin = strings.NewReader(label)
	if out, err := as.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// version is the server's, as server_version_num has it.
func version(t testing.TB, conn *pgx.Conn) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A pooler gives each transaction whatever session is free.
func TestPooler(t *testing.T) {
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		kerneltest.Missing(t, "pgbouncer")
	}
	s := pgtest.Start(t)
	w := newWorld(t, "pooler", "")
	name := w.url[strings.LastIndex(w.url, "/")+1 : strings.Index(w.url, "?")]
	for mode, ignore := range map[string]string{"transaction": "search_path,jit", "session": "search_path,jit", "statement": ""} {
		t.Run(mode, func(t *testing.T) {
			dir := place(t, "pooler")
			config := "[databases]\n* = host=" + s.Dir + "\n[pgbouncer]\nlisten_addr =\nlisten_port = 5432\nunix_socket_dir = " + dir +
				"\nauth_type = any\npool_mode = " + mode + "\nlogfile = " + dir + "/log\n"
			config = strings.Replace(config, "* = host="+s.Dir, "* = host="+s.Dir+" user=postgres", 1)
			if ignore != "" {
				config += "ignore_startup_parameters = " + ignore + "\n"
			}
			if err := os.WriteFile(dir+"/ini", []byte(config), 0o644); err != nil {
				t.Fatal(err)
			}
			where := started(t, s.AsServer(path, dir+"/ini"), dir, name)
			_, err := w.enforcerAs(t, where, nil).Read(t.Context())
			wantErr(t, err, "database.pooler", "a connection pooler stands in between", "directly")
		})
	}
}

// The marks are in a dump: restored, there is nothing to do.
func TestRestoredFromADump(t *testing.T) {
	s := pgtest.Start(t)
	w := newWorld(t, "dumped", applicationSQL)
	set := conformanceSets(w)[0]
	converged(t, w, set)
	name := w.url[strings.LastIndex(w.url, "/")+1 : strings.Index(w.url, "?")]
	file := t.TempDir() + "/dump"
	if out, err := s.Program(t, "pg_dump", "-h", s.Dir, "-U", "postgres", "-Fc", "-f", file, name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	admin := s.URL(pgtest.Superuser, "postgres")
	pgtest.Exec(t, admin, "DROP DATABASE "+name+" WITH (FORCE)")
	// It fills the materialized view as the view's owner, who is bound by the
	// policies of the table below: that one statement fails.
	out, err := s.Program(t, "pg_restore", "-h", s.Dir, "-U", "postgres", "-C", "-d", "postgres", file).CombinedOutput()
	if err != nil && strings.Count(string(out), "error: could not execute") != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if _, p := w.plan(set); !p.Empty() {
		t.Errorf("the plan is not empty after a restore:\n%s", describe(p))
	}
}
