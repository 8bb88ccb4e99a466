// Package script runs scripts against the built program, as its users do.
//
// Those in testdata need no privilege and no host: they plan against recorded
// snapshots. Those in testdata/host each run as root on a throwaway host of
// their own (test/throwaway.sh), so none sees what another left. The language
// is testscript's; on top of it:
//
//	exits N PROGRAM [ARGS…]   like exec, and the exit code must be N
//	until PROGRAM [ARGS…]     again and again until it succeeds; fails after a minute
//	githost NAME DIR CA       (in PATH) a host of repositories, see test/githost
//	unprivileged PROGRAM …    (in PATH) runs it as nobody, without capabilities
//
// $EXAMPLES is the folder of the examples, as a copy that may be changed.
// UPDATE_SCRIPTS=1 writes what `cmp stdout FILE` got into the scripts.
package script

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/cordontest"
	"github.com/aicodesit/cordon/internal/kerneltest"
)

// Variables from the test to itself inside a throwaway host.
const (
	inHost  = "CORDON_THROWAWAY"   // set there by throwaway.sh
	binVar  = "CORDON_TEST_BIN"    // folder of the built program
	workVar = "CORDON_TEST_SCRIPT" // path of the one script to run
)

func TestScripts(t *testing.T) {
	testscript.Run(t, params(t, testscript.Params{Dir: "testdata"}, build(t)))
}

// TestHostScripts runs each script in this test again, on its own host.
func TestHostScripts(t *testing.T) {
	if file := os.Getenv(workVar); file != "" {
		go endIfFailed(t)
		testscript.Run(t, params(t, testscript.Params{Files: []string{file}}, os.Getenv(binVar)))
		return
	}
	if os.Geteuid() != 0 {
		kerneltest.Missing(t, "root, to make a host")
	}
	kerneltest.Program(t, "bwrap", "iptables", "ipset", "ip", "unshare", "psql")
	files, err := filepath.Glob("testdata/host/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	bin := build(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onHost(t, file, name, bin)
		})
	}
}

func onHost(t *testing.T, file, name, bin string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "../throwaway.sh", self, "-test.run=^TestHostScripts$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), binVar+"="+bin, workVar+"="+file)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestHostScripts/"+name) {
		t.Errorf("%v\n%s", err, out)
	}
}

// build builds the program once for all scripts and returns its folder, with
// the scripts' helpers in it.
// endIfFailed ends what still runs on the host once a script has failed: all of
// it would be waited for, and what was wrong not be told until then.
func endIfFailed(t *testing.T) {
	if os.Getppid() != 1 { // on no host of its own
		return
	}
	for !t.Failed() {
		time.Sleep(100 * time.Millisecond)
	}
	_ = unix.Kill(-1, unix.SIGKILL) // all of this namespace but this process and the first
}

func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Dir(cordontest.Build(t))
	cordontest.Compile(t, filepath.Join(bin, "githost"), "test/githost")
	unprivileged := "#!/bin/sh\n[ \"$(id -u)\" = 0 ] || exec \"$@\"\n" +
		"exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "unprivileged"), []byte(unprivileged), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

func params(t *testing.T, p testscript.Params, bin string) testscript.Params {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	p.RequireUniqueNames = true
	p.UpdateScripts = os.Getenv("UPDATE_SCRIPTS") != ""
	p.Setup = func(e *testscript.Env) error { return setup(e, bin, examples) }
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "until": until}
	return p
}

func setup(e *testscript.Env, bin, examples string) error {
	// Readable by those who are not root, down from the temporary folder.
	for dir := e.WorkDir; dir != filepath.Dir(dir) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	if _, err := os.Stat(examples); err == nil {
		if err := os.CopyFS(filepath.Join(e.WorkDir, ".examples"), os.DirFS(examples)); err != nil {
			return err
		}
	}
	e.Setenv("EXAMPLES", filepath.Join(e.WorkDir, ".examples"))
	e.Setenv("PATH", bin+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	e.Setenv("LC_ALL", "C.UTF-8")
	if os.Getenv(inHost) == "" {
		e.Setenv("CORDON_RUN_DIR", filepath.Join(e.WorkDir, ".run"))
		return nil
	}
	for _, name := range []string{"CORDON_CGROUP_PARENT", "CORDON_STATE_DIR", "CORDON_POSTGRES_URL", "PGHOST", "PGUSER", "PGDATABASE"} {
		e.Setenv(name, os.Getenv(name))
	}
	return nil
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N PROGRAM [ARGS…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code, err := exitCode(ts.Exec(args[1], args[2:]...))
	ts.Check(err)
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	}
	return 0, fmt.Errorf("no exit code: %w", err)
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: until PROGRAM [ARGS…]")
	}
	deadline := time.Now().Add(time.Minute)
	for {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not within a minute: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
