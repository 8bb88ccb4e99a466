// Package pgtest gives a test binary a PostgreSQL of its own: a throwaway
// cluster, reachable through a socket in its own directory only, that goes
// when the test binary does, however it ends.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

// Superuser is the cluster's first role. It and all others connect without a
// password, but for [Locked].
const Superuser = "postgres"

// Locked is the name of a role that must give a password, for tests of what
// happens when it is wrong. The role is not there until a test makes it.
const Locked = "pgtest_locked"

// startWithin is how long a cluster may take to answer.
const startWithin = 30 * time.Second

// Server is a running cluster.
type Server struct {
	Dir       string // its socket and data
	Major     int    // its version
	in        installation
	held      *os.File // the supervisor's input, kept from the collector
	databases atomic.Int64
}

// one is the test binary's cluster: making one takes a second or two.
var one = sync.OnceValues(start)

// Start returns the test binary's cluster, and makes it first if need be: of
// the version that [Variable] names, or of the one that is installed. It skips
// the test (fails it in CI) where that is not there.
func Start(t testing.TB) *Server {
	t.Helper()
	if _, err := chosen(); err != nil {
		kerneltest.Missing(t, err.Error())
	}
	s, err := one()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Database makes an empty database for the test, and returns its URL. Roles
// are the cluster's, not the database's: tests give them names of their own.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "test_" + strconv.FormatInt(s.databases.Add(1), 10)
	admin := s.URL(Superuser, "postgres")
	Exec(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { Exec(t, admin, "DROP DATABASE "+name+" WITH (FORCE)") })
	return s.URL(Superuser, name)
}

// URL is how role connects to database.
func (s *Server) URL(role, database string) string {
	return "postgres://" + url.PathEscape(role) + "@/" + url.PathEscape(database) + "?host=" + url.QueryEscape(s.Dir)
}

// As is the URL for another role.
func As(t testing.TB, connection, role, password string) string {
	t.Helper()
	u, err := url.Parse(connection)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	if password != "" {
		u.User = url.UserPassword(role, password)
	}
	return u.String()
}

// Connect returns a connection that is closed at the test's end.
func Connect(t testing.TB, connection string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), connection)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Exec runs SQL, of any number of statements, on a connection of its own.
func Exec(t testing.TB, connection, sql string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, connection)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func start() (*Server, error) {
	in, err := chosen()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(place(), "cordon-pgtest-")
	if err != nil {
		return nil, err
	}
	err = given(dir)
	if err == nil {
		err = in.initdb(dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	held, err := in.serve(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &Server{Dir: dir, in: in, held: held}
	return s, s.ready()
}

// place is where the cluster's directory is made: in memory where there is
// room for it, as making a table makes several files.
func place() string {
	const memory, room = "/dev/shm", 2 << 30
	var st unix.Statfs_t
	if os.Getenv("TMPDIR") == "" && unix.Statfs(memory, &st) == nil && st.Bavail*uint64(st.Bsize) >= room {
		return memory
	}
	return "" // $TMPDIR or /tmp
}

// given makes the directory the server's.
func given(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid) // numeric on every Unix
	gid, _ := strconv.Atoi(u.Gid)
	return os.Chown(dir, uid, gid)
}

// supervisor runs the server until its own standard input ends, which it does
// with the test binary, be it by exit, panic or SIGKILL.
const supervisor = `postgres -D "$0/data" -k "$0" -c listen_addresses= -c fsync=off -c full_page_writes=off \
  -c synchronous_commit=off -c autovacuum=off -c max_connections=60 -c shared_buffers=128MB >"$0/log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -QUIT $server
wait $server
rm -rf "$0"`

// ready waits until the server answers.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := pgx.Connect(ctx, s.URL(Superuser, "postgres"))
		if err == nil {
			err = c.QueryRow(ctx, "SELECT current_setting('server_version_num')::int / 10000").Scan(&s.Major)
			return errors.Join(err, c.Close(ctx))
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(s.Dir + "/log")
			return fmt.Errorf("the server did not answer: %w: %s", err, log)
		case <-tick.C:
		}
	}
}
