// Package killtest kills a process at work, for tests of what it leaves.
package killtest

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// place is the variable from a test to itself in the process that is killed.
const place = "CORDON_KILLTEST"

// patience is how long anything may take; it is a guard against hanging.
const patience = time.Minute

// Large is as much as takes any disk a while to write, in bytes.
const Large = 64 << 20

// Writing returns a directory with what a process leaves there that is killed in
// write, before its file of that name, of [Large] bytes, is whole. A test calls it
// once and before anything else, for the process is that test again.
func Writing(t *testing.T, name string, write func(dir string) error) (dir string) {
	t.Helper()
	if dir := os.Getenv(place); dir != "" {
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
		t.FailNow() // nobody killed it
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		dir = t.TempDir()
		killed(t, dir)
		if left := names(t, dir); len(left) > 0 && !slices.Contains(left, name) {
			return dir
		}
	}
	t.Fatal("it was never killed while it wrote")
	return ""
}

// killed runs the test again until there is something in dir.
func killed(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), place+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); len(names(t, dir)) == 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// Left fails the test unless exactly these names are in dir.
func Left(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("in the directory are %q, want %q", got, want)
	}
}
