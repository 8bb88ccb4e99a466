package pgtest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Variable names the environment variable with the major version of the
// cluster that [Start] makes: that of an installed PostgreSQL, or of one that
// test/deps.sh fetched.
const Variable = "CORDON_TEST_POSTGRES"

// installation is the programs of one version.
type installation struct {
	major   int
	bin     string
	fetched bool // by test/deps.sh, into what root alone may look into
}

// installed are those that the system has, and fetched those in test/deps.sh's
// cache, both by version.
func installed() map[int]installation {
	out := below("/usr/lib/postgresql")
	if len(out) == 0 {
		if path, err := exec.LookPath("initdb"); err == nil {
			out[0] = installation{bin: filepath.Dir(path)}
		}
	}
	return out
}

func fetched() map[int]installation {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	out := below(filepath.Join(cache, "cordon-test", "postgres"))
	for major, in := range out {
		in.fetched = true
		out[major] = in
	}
	return out
}

// below are the installations in dir/MAJOR/bin.
func below(dir string) map[int]installation {
	out := map[int]installation{}
	found, _ := filepath.Glob(filepath.Join(dir, "*", "bin", "initdb")) // the pattern is well formed
	for _, path := range found {
		in := installation{bin: filepath.Dir(path)}
		in.major, _ = strconv.Atoi(filepath.Base(filepath.Dir(in.bin)))
		out[in.major] = in
	}
	return out
}

// newest is the installed one that tests run on by default.
func newest() (installation, error) {
	all := installed()
	if len(all) == 0 {
		return installation{}, errors.New("a PostgreSQL server (initdb below /usr/lib/postgresql or on PATH)")
	}
	return all[slices.Max(slices.Collect(maps.Keys(all)))], nil
}

// chosen is the one that [Variable] names.
func chosen() (installation, error) {
	want := os.Getenv(Variable)
	if want == "" {
		return newest()
	}
	major, err := strconv.Atoi(want)
	if err == nil {
		for _, all := range []map[int]installation{installed(), fetched()} {
			if in, ok := all[major]; ok {
				return in, nil
			}
		}
	}
	return installation{}, fmt.Errorf("PostgreSQL %q, of %s (make deps fetches others than the installed one)", want, Variable)
}

// Fetched are the major versions that [Variable] may name besides those that
// are installed, sorted.
func Fetched() []int { return slices.Sorted(maps.Keys(fetched())) }

// Program is a command with a program of the cluster's version: what a newer one
// writes is not for older servers. It skips the test where there is none.
func (s *Server) Program(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(s.in.bin, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("PostgreSQL %d is here without %s", s.Major, name)
	}
	return exec.Command(path, args...)
}

// AsServer is a command of the server's user, for as long as this process
// lives. What it names without a slash is a program of the server's version.
func (s *Server) AsServer(name string, args ...string) *exec.Cmd {
	cmd := s.in.asServer(append([]string{name}, args...)...)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return cmd
}

// asServer runs a command as whom the server is, which refuses to be root.
// Below root's home, which others can't enter, its programs are seen through a
// mount of their own.
func (in installation) asServer(command ...string) *exec.Cmd {
	const run = `PATH=$0:$PATH; exec "$@"`
	if os.Geteuid() != 0 {
		return shell(run, append([]string{in.bin}, command...)...)
	}
	if !in.fetched {
		return shell(`PATH=$0:$PATH; exec `+become+` "$@"`, append([]string{in.bin}, command...)...)
	}
	cmd := shell(`mount --bind "$0" /mnt && PATH=/mnt/bin:$PATH && exec `+become+` "$@"`, append([]string{filepath.Dir(in.bin)}, command...)...)
	cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
	return cmd
}

// become is what runs a command as the server's user.
const become = "setpriv --reuid=postgres --regid=postgres --clear-groups --pdeathsig=keep"

func shell(script string, args ...string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", append([]string{"-c", script}, args...)...)
	cmd.Dir, cmd.SysProcAttr = "/", new(syscall.SysProcAttr)
	return cmd
}

func (in installation) initdb(dir string) error {
	cmd := in.asServer("initdb", "-D", dir+"/data", "-U", Superuser, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	hba := "local all " + Locked + " scram-sha-256\nlocal all all trust\n"
	return os.WriteFile(dir+"/data/pg_hba.conf", []byte(hba), 0o600)
}

// serve returns what the server lives as long as: the kernel closes it when
// this process ends.
func (in installation) serve(dir string) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := in.asServer("/bin/sh", "-c", supervisor, dir)
	cmd.Stdin, cmd.SysProcAttr.Setsid = read, true
	return write, cmd.Start()
}
