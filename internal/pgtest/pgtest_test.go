package pgtest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/pgtest"
)

func TestDatabasesAreApart(t *testing.T) {
	s := pgtest.Start(t)
	a, b := s.Database(t), s.Database(t)
	pgtest.Exec(t, a, "CREATE TABLE t (x int)")
	pgtest.Exec(t, b, "CREATE TABLE t (x int)")
	if a == b {
		t.Error("two tests share a database")
	}
	if again := pgtest.Start(t); again != s {
		t.Error("a second cluster was made")
	}
	var listen string
	if err := pgtest.Connect(t, a).QueryRow(context.Background(), "SHOW listen_addresses").Scan(&listen); err != nil || listen != "" {
		t.Errorf("listens at %q, %v", listen, err)
	}
}

// The cluster must go even when the test binary has no chance to say so.
func TestGoesWithTheTestBinary(t *testing.T) {
	if os.Getenv("PGTEST_CHILD") != "" {
		os.Stdout.WriteString("dir " + pgtest.Start(t).Dir + "\n")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	pgtest.Start(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestGoesWithTheTestBinary$")
	cmd.Env = append(os.Environ(), "PGTEST_CHILD=1")
	out, _ := cmd.Output() // it is killed
	_, dir, ok := strings.Cut(strings.TrimSpace(string(out)), "dir ")
	if !ok {
		t.Fatalf("the child said %q", out)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", dir)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
