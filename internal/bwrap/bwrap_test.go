package bwrap

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

const (
	uid = 54321
	gid = 54322
)

// allowAll is a filter of one instruction: BPF_RET|BPF_K SECCOMP_RET_ALLOW.
var allowAll = []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}

// spec is a sandbox that holds the host's programs and little else.
func spec(t testing.TB, command ...string) Spec {
	t.Helper()
	kerneltest.Host(t)
	kerneltest.Program(t, "bwrap")
	program, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("/run", "root")
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.Chmod(root, 0o755))
	must(t, unix.Mount(root, root, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH); _ = os.RemoveAll(root) })
	for _, d := range []string{"dev", "proc", "tmp", "home", "etc", "work", "usr", "var"} {
		must(t, os.Mkdir(filepath.Join(root, d), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, "etc/passwd"), nil, 0o644))
	must(t, unix.Mount("/usr", filepath.Join(root, "usr"), "", unix.MS_BIND, ""))
	for _, l := range []string{"bin", "lib", "lib64"} {
		must(t, os.Symlink("usr/"+l, filepath.Join(root, l)))
	}
	filter := filepath.Join(dir, "filter")
	must(t, os.WriteFile(filter, allowAll, 0o600))
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { null.Close() })
	stage, err := os.MkdirTemp("/run", "stage")
	must(t, err)
	t.Cleanup(func() { must(t, os.Remove(stage)) }) // what was mounted there is seen by no one else
	return Spec{
		Stage: stage, Program: program, Root: root, UID: uid, GID: gid, Userns: true, Hostname: "box",
		Namespaces: []string{"cgroup", "ipc", "pid", "uts"}, Filter: filter, Dir: "/tmp",
		Mounts: []Mount{{To: "/tmp", Size: 1 << 20, Mode: 0o1777}, {To: "/dev/shm", Size: 1 << 20, Mode: 0o1777}, {To: "/etc/passwd", Content: []byte("x:x:1:1::/:/bin/sh\n"), Mode: 0o444}},
		Env:    []string{"PATH=/usr/bin:/bin"}, Command: command, Files: [3]*os.File{null, null, os.Stderr}, TTY: -1,
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run does all that a session does and returns what the command wrote.
func run(t testing.TB, s Spec) (out string, code int) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	s.Files[1] = w
	p, err := Start(s)
	must(t, err)
	must(t, w.Close())
	must(t, p.Verify(context.Background()))
	must(t, p.Lookup())
	must(t, p.Release())
	b, err := readAll(r)
	must(t, err)
	code, err = p.Wait()
	must(t, err)
	return string(b), code
}

func readAll(r *os.File) ([]byte, error) {
	defer r.Close()
	var out []byte
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		out = append(out, buf[:n]...)
		if err != nil {
			return out, nil
		}
	}
}

func modes(t *testing.T, f func(t *testing.T, userns bool)) {
	for name, userns := range map[string]bool{"user namespace": true, "no user namespace": false} {
		t.Run(name, func(t *testing.T) { f(t, userns) })
	}
}

func TestInside(t *testing.T) {
	modes(t, func(t *testing.T, userns bool) {
		s := spec(t, "sh", "-c", `
			echo "ids $(id -u) $(id -g) $(id -G)"; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status
			echo x > /tmp/f && echo tmp; echo x > /dev/shm/f && echo shm; echo x > /dev/f || echo dev; head -c 2M /dev/zero > /dev/shm/big || echo full; echo x > /usr/f || echo usr; echo x > /f || echo root
			echo x > /proc/sys/kernel/hostname || echo sysctl
			cat /etc/passwd; hostname; ls -A /; echo "first $(wc -c < /proc/1/environ)"; tr '\0' '\n' < /proc/$$/environ; ls /proc/self/fd | tr '\n' ' '; echo
		`)
		s.Userns = userns
		out, code := run(t, s)
		if code != 0 {
			t.Errorf("exit %d", code)
		}
		for _, want := range []string{
			"ids 54321 54322 54322\n", "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n",
			"tmp\n", "shm\n", "\ndev\n", "\nfull\n", "usr\n", "root\n", "sysctl\n", "x:x:1:1::/:/bin/sh\n", "\nbox\n", "\nfirst 0\n", "\nPATH=/usr/bin:/bin\n", "\n0 1 2 3 \n",
			"\nbin\ndev\netc\nhome\nlib\nlib64\nproc\ntmp\nusr\nvar\nwork\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in:\n%s", want, out)
			}
		}
	})
}

func TestNoDirectoryAsStdin(t *testing.T) {
	s := spec(t, "true")
	dir, err := os.Open("/")
	must(t, err)
	defer dir.Close()
	s.Files[0] = dir
	if _, err := Start(s); err == nil {
		t.Error("/ of the host is standard input")
	}
}

func TestExitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137, "kill -TERM $$": 143, "true": 0} {
		if _, code := run(t, spec(t, "sh", "-c", script)); code != want {
			t.Errorf("%s: %d, want %d", script, code, want)
		}
	}
}

// A sandbox that shares the host's pid namespace.
func TestNoPidNamespace(t *testing.T) {
	modes(t, func(t *testing.T, userns bool) {
		s := spec(t, "sh", "-c", "id -u; id -g; exit 4")
		s.Userns, s.Namespaces = userns, nil
		if out, code := run(t, s); out != "54321\n54322\n" || code != 4 {
			t.Errorf("%d, %q", code, out)
		}
	})
}

func TestLookup(t *testing.T) {
	for command, want := range map[string]int{
		"nothing-here": 127, "/usr/nothing": 127, "./sh": 127, "/etc/passwd": 126, "/usr": 126, "usr/bin/true": 127,
		"sh": 0, "/bin/sh": 0, "../bin/sh": 0,
	} {
		p, err := Start(spec(t, command))
		must(t, err)
		must(t, p.Verify(context.Background()))
		err = p.Lookup()
		var failed *CommandError
		switch {
		case want == 0 && err != nil:
			t.Errorf("%s: %v", command, err)
		case want != 0 && (!errors.As(err, &failed) || failed.Code != want):
			t.Errorf("%s: %v, want code %d", command, err, want)
		case want == 127 && strings.Contains(err.Error(), "PATH") == strings.Contains(command, "/"):
			t.Errorf("%s: %v; PATH is to be named where it was searched", command, err)
		}
		must(t, p.Kill())
	}
}

// Without the filter nothing runs, not even when the starter is gone.
func TestGate(t *testing.T) {
	modes(t, func(t *testing.T, userns bool) {
		work := t.TempDir()
		must(t, os.Chmod(filepath.Dir(work), 0o777))
		must(t, os.Chmod(work, 0o777))
		source, err := Pin(work)
		must(t, err)
		s := spec(t, "touch", "/work/ran")
		s.Userns = userns
		s.Mounts = append(s.Mounts, Mount{To: "/work", Source: source, Writable: true})
		p, err := Start(s)
		must(t, err)
		must(t, p.Verify(context.Background()))
		must(t, p.gate.Close()) // as the kernel does when we die
		_, err = p.Wait()
		var failed *SetupError
		if !errors.As(err, &failed) {
			t.Errorf("the end was %v", err)
		}
		if _, err := os.Stat(filepath.Join(work, "ran")); err == nil {
			t.Error("the command ran")
		}
	})
}

// A directory that is swapped for another after it was pinned, below one that
// the session's user may not search: the session has the one that was pinned.
func TestSwappedSource(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "a/mine"), nil, 0o644))
	source, err := Pin(filepath.Join(dir, "a"))
	must(t, err)
	must(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	must(t, os.Symlink("/etc", filepath.Join(dir, "a")))
	s := spec(t, "ls", "/work")
	s.Mounts = append(s.Mounts, Mount{To: "/work", Source: source})
	if out, code := run(t, s); out != "mine\n" || code != 0 {
		t.Errorf("%d, inside is %q", code, out)
	}
}

func TestPinRefusesLinks(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("/etc", filepath.Join(dir, "link")))
	for _, p := range []string{"link", "link/ssl"} {
		if s, err := Pin(filepath.Join(dir, p)); err == nil {
			t.Errorf("%s: pinned %v", p, s)
		}
	}
}

// A process with more than it should have is never released.
func TestVerifyRefuses(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"uid":        func(s *Spec) { s.UID++ },
		"gid":        func(s *Spec) { s.GID++ },
		"root":       func(s *Spec) { s.Root = "/usr" },
		"netns":      func(s *Spec) { s.Netns = "/proc/self/ns/net" },
		"read-only":  func(s *Spec) { s.Mounts[len(s.Mounts)-1].Writable = false },
		"source":     func(s *Spec) { s.Mounts[len(s.Mounts)-1].Source = &Source{Path: "other"} },
		"capability": func(s *Spec) { s.Capabilities = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, "true")
			dir := t.TempDir()
			must(t, os.Chmod(filepath.Dir(dir), 0o755))
			source, err := Pin(dir)
			must(t, err)
			s.Mounts = append(s.Mounts, Mount{To: "/work", Source: source, Writable: true})
			s.Capabilities = []string{"NET_BIND_SERVICE"}
			p, err := Start(s)
			must(t, err)
			must(t, p.Verify(context.Background()))
			change(&p.spec)
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			if err := p.Verify(ctx); err == nil || errors.Is(err, ErrReplaced) != (name == "root") {
				t.Error(err)
			}
			must(t, p.Kill())
		})
	}
}

// The filter is the one that was there when Verify was content, which is the one
// that was there at the start: between the two somebody may look at it.
func TestFilterReplaced(t *testing.T) {
	s := spec(t, "sh", "-c", "/usr/sbin/chroot /usr true 2>&1 | grep -q 'Invalid cross-device link'")
	replace := func(by []byte) {
		must(t, os.WriteFile(s.Filter+".new", by, 0o600))
		must(t, os.Rename(s.Filter+".new", s.Filter))
	}
	replace(refusesChroot())
	p, err := Start(s)
	must(t, err)
	replace(allowAll)
	if err := p.Verify(context.Background()); !errors.Is(err, ErrReplaced) {
		t.Errorf("another's filter: %v", err)
	}
	must(t, p.Kill())

	replace(refusesChroot())
	p, err = Start(s)
	must(t, err)
	must(t, p.Verify(context.Background()))
	replace(allowAll)
	must(t, p.Release())
	if code, err := p.Wait(); code != 0 || err != nil {
		t.Errorf("it has the filter that came after: %d, %v", code, err)
	}

	must(t, os.Remove(s.Filter))
	must(t, unix.Mkfifo(s.Filter, 0o600)) // nobody will ever write to it
	if p, err := Start(s); err == nil {
		must(t, p.Kill())
	}
}

func TestSignal(t *testing.T) {
	s := spec(t, "sh", "-c", "trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.01; done")
	r, w, err := os.Pipe()
	must(t, err)
	s.Files[1] = w
	p, err := Start(s)
	must(t, err)
	must(t, w.Close())
	must(t, p.Verify(context.Background()))
	must(t, p.Release())
	buf := make([]byte, 6)
	if _, err := r.Read(buf); err != nil || string(buf) != "ready\n" {
		t.Fatal(string(buf), err)
	}
	must(t, p.Signal(context.Background(), unix.SIGUSR1))
	out, _ := readAll(r)
	code, err := p.Wait()
	must(t, err)
	if code != 3 || string(out) != "got\n" {
		t.Errorf("%d, %q", code, out)
	}
	must(t, p.Signal(context.Background(), unix.SIGTERM)) // ended: no error, no one else is hit
}

// What stands in the host's process list.
func TestArgvIsPrivate(t *testing.T) {
	s := spec(t, "sleep", "100")
	s.Env = append(s.Env, "SECRET=hidden-value")
	s.Mounts = append(s.Mounts, Mount{To: "/etc/hosts", Content: []byte("hidden-host"), Mode: 0o444})
	must(t, os.WriteFile(filepath.Join(s.Root, "etc/hosts"), nil, 0o644))
	p, err := Start(s)
	must(t, err)
	must(t, p.Verify(context.Background()))
	for _, pid := range []int{p.outer.Pid, p.child} {
		b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		must(t, err)
		if strings.Contains(string(b), "hidden") || strings.Contains(string(b), s.Root) {
			t.Errorf("%q", b)
		}
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		must(t, err)
		if len(env) > 0 {
			t.Errorf("the loader of bubblewrap obeys the session's variables: %q", env)
		}
	}
	must(t, p.Kill())
}

// A key that the caller's login holds is not the session's.
func TestKeyringIsNew(t *testing.T) {
	before, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
	if err == unix.ENOSYS {
		kerneltest.Missing(t, "a kernel with keyrings")
	}
	must(t, err)
	s := spec(t, "sleep", "100")
	var inside int
	s.Enter = func(*syscall.SysProcAttr) (func() error, error) {
		return func() error { // on the thread that became what the child inherits
			var err error
			inside, err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			return err
		}, nil
	}
	p, err := Start(s)
	must(t, err)
	must(t, p.Kill())
	if inside == before {
		t.Error("it has the caller's")
	}
}

func BenchmarkTrue(b *testing.B) {
	s := spec(b, "true")
	for b.Loop() {
		run(b, s)
	}
}
