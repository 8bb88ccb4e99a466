package root

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

// host is a directory for the files that a test declares: not below /tmp,
// which sessions cover.
func host(t testing.TB) string {
	t.Helper()
	kerneltest.Host(t)
	dir, err := os.MkdirTemp("/run", "host")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func newEnforcer(dir string) *Enforcer { return New(Options{Dir: rundir.Dir(dir)}) }

func write(t testing.TB, path, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sandbox(name string, f specs.Filesystem) specs.Sandbox {
	return specs.Sandbox{Name: name, Filesystem: f}
}

// apply converges and returns what is live.
func apply(t testing.TB, e *Enforcer, boxes ...specs.Sandbox) {
	t.Helper()
	must(t, tryApply(e, boxes...))
}

func tryApply(e *Enforcer, boxes ...specs.Sandbox) error {
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
	p, err := r.Plan(context.Background(), specs.Set{Sandboxes: boxes})
	if err != nil {
		return err
	}
	for _, f := range p.Failures {
		return f.Err
	}
	return r.Apply(context.Background(), p, nil).Err()
}

func drift(t testing.TB, e *Enforcer, name string) []string {
	t.Helper()
	live, err := e.ReadPart(context.Background(), []reconciler.Addr{reconciler.NewAddr(Name, name)})
	must(t, err)
	if len(live) != 1 {
		t.Fatalf("read %d trees, want 1", len(live))
	}
	return live[0].(Resource).Drift
}

func TestConformance(t *testing.T) {
	h := host(t)
	run := h + "/cordon"
	script := write(t, h+"/bin/tool", "#!/usr/bin/env sh\necho tool\n", 0o755)
	must(t, os.Symlink("../bin/tool", filepath.Join(h, "bin", "alias")))
	write(t, h+"/share/data/one", "1", 0o644)
	cc(t, h, "libown.so", "-shared")
	cc(t, h, "own", "-L"+h+"/bin", "-lown", "-Wl,-rpath,$ORIGIN")
	sets := []specs.Set{
		{Sandboxes: []specs.Sandbox{
			sandbox("full", specs.Filesystem{
				Programs: []string{"/bin/sh", h + "/bin/own", h + "/bin/alias"},
				Files:    []string{"/etc/localtime", h + "/share/data"},
				Tmpfs:    []specs.Tmpfs{{Path: "/tmp", Size: 1 << 20}, {Path: "/var/cache/x", Size: 1}},
				Binds:    []specs.Bind{{To: "/work", From: "${session.project.directory}"}, {To: "/opt/conf", From: specs.Literal(script)}},
			}),
			sandbox("other", specs.Filesystem{Programs: []string{"/usr/bin/env"}}),
		}},
		{Sandboxes: []specs.Sandbox{{
			Name: "full", Filesystem: specs.Filesystem{Programs: []string{"/bin/sh"}}, Agent: &specs.Agent{Kind: "claude-code"},
		}}},
		{Sandboxes: []specs.Sandbox{
			sandbox("full", specs.Filesystem{Programs: []string{"/bin/sh"}, Tmpfs: []specs.Tmpfs{{Path: "/scratch", Size: 1}}}),
		}},
		{Sandboxes: []specs.Sandbox{
			sandbox("bare", specs.Filesystem{}),
			sandbox("full", specs.Filesystem{Files: []string{h + "/share/data"}, Binds: []specs.Bind{{To: "/opt/conf", From: specs.Literal(h)}}}),
		}},
	}
	tree := rundir.Dir(run).Root("full")
	enforcertest.Run(t, enforcertest.Harness{
		Name: Name,
		New:  func(*testing.T) reconciler.Enforcer { return newEnforcer(run) },
		Sets: sets,
		Foreign: func(t *testing.T) func(*testing.T) {
			mine := t.TempDir()
			must(t, unix.Mount("cordon", mine, "tmpfs", 0, "mode=755"))
			t.Cleanup(func() { _ = unix.Unmount(mine, unix.MNT_DETACH) })
			write(t, mine+"/full", "x", 0o644)
			return func(t *testing.T) {
				t.Helper()
				if b, err := os.ReadFile(mine + "/full"); err != nil || string(b) != "x" {
					t.Errorf("a foreign tmpfs was touched: %q, %v", b, err)
				}
			}
		},
		Damage: append([]enforcertest.Damage{
			{Name: "a bind taken away", Do: func(t *testing.T) { must(t, unix.Unmount(tree+h+"/bin/own", 0)) }},
			{Name: "a bind made writable", Do: func(t *testing.T) {
				must(t, unix.Mount("", tree+h+"/bin/own", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, ""))
			}},
			{Name: "a bind without nosuid", Do: func(t *testing.T) {
				must(t, unix.Mount("", tree+h+"/share/data", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NODEV, ""))
			}},
			{Name: "the tree made writable", Do: func(t *testing.T) {
				must(t, unix.Mount("", tree, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, ""))
			}},
			{Name: "a foreign mount in the tree", Do: func(t *testing.T) {
				must(t, unix.Mount("evil", tree+"/work", "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""))
			}},
			{Name: "a bind mounted over", Do: func(t *testing.T) {
				must(t, unix.Mount(script, tree+h+"/bin/own", "", unix.MS_BIND, ""))
			}},
			{Name: "a bind mounted over by the same", Do: func(t *testing.T) {
				over := tree + h + "/bin/own"
				must(t, unix.Mount(over, over, "", unix.MS_BIND, ""))
				must(t, unix.Mount("", over, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, ""))
			}},
			{Name: "a bind swapped for another file", Do: func(t *testing.T) {
				must(t, unix.Unmount(tree+h+"/bin/own", 0))
				must(t, unix.Mount("/bin/false", tree+h+"/bin/own", "", unix.MS_BIND, ""))
				must(t, unix.Mount("", tree+h+"/bin/own", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, ""))
			}},
			{Name: "the tree taken away", Do: func(t *testing.T) { must(t, unix.Unmount(tree, unix.MNT_DETACH)) }},
			{Name: "a tmpfs over the tree", Do: func(t *testing.T) { must(t, unix.Mount("evil", tree, "tmpfs", 0, "")) }},
			{Name: "another tmpfs instead of the tree", Do: func(t *testing.T) {
				must(t, unix.Unmount(tree, unix.MNT_DETACH))
				must(t, unix.Mount("evil", tree, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""))
			}},
			{Name: "the manifest removed", Do: func(t *testing.T) { must(t, os.Remove(tree+".json")) }},
			{Name: "the manifest cut short", Do: func(t *testing.T) { must(t, os.Truncate(tree+".json", 10)) }},
			{Name: "a half-built tree", Do: func(t *testing.T) {
				stage := filepath.Join(filepath.Dir(tree), ".full")
				must(t, os.Mkdir(stage, 0o755))
				must(t, unix.Mount("cordon", stage, "tmpfs", 0, ""))
			}},
		}, append(plantings(tree, script), []enforcertest.Damage{
			{Name: "a library replaced", Do: func(t *testing.T) { cp(t, h+"/bin/libown.so", h+"/bin/libown.so") }},
			{Name: "a library that needs another", Do: func(t *testing.T) { cc(t, h, "libown.so", "-shared", "-lm") }},
			{Name: "a link changed", Do: func(t *testing.T) {
				must(t, os.Remove(h+"/bin/alias"))
				must(t, os.Symlink(script, h+"/bin/alias"))
			}},
			{Name: "a program replaced by an upgrade", Do: func(t *testing.T) { cp(t, h+"/bin/own", h+"/bin/own") }},
			{Name: "a script that has another interpreter", Do: func(t *testing.T) {
				write(t, script, "#!/usr/bin/env cat\n", 0o755)
			}},
		}...)...),
	})
	if left, err := os.ReadDir(run + "/roots"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if mounts, err := mountsBelow(run); err != nil || len(mounts) > 0 {
		t.Errorf("mounts left behind: %v, %v", mounts, err)
	}
}

func cp(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	must(t, err)
	write(t, to, string(b), 0o755)
}

// cc compiles h/bin/name, replacing what is there.
func cc(t testing.TB, h, name string, args ...string) {
	t.Helper()
	kerneltest.Program(t, "gcc")
	src := write(t, h+"/src/main.c", "int main(void) { return 0; }\n", 0o644)
	out := h + "/src/" + name
	args = append([]string{"-fPIC", "-Wl,--no-as-needed", "-o", out, src}, args...)
	if b, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, b)
	}
	must(t, os.MkdirAll(h+"/bin", 0o755))
	must(t, os.Rename(out, h+"/bin/"+name))
}

// inTree runs argv with the tree as its root, as a session would.
func inTree(t *testing.T, tree string, argv ...string) string {
	t.Helper()
	kerneltest.Program(t, "bwrap")
	args := append([]string{"--unshare-all", "--cap-drop", "ALL", "--ro-bind", tree, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--"}, argv...)
	cmd := exec.Command("bwrap", args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A tree has what its agent needs: programs, and files to mount on.
func TestAgent(t *testing.T) {
	r, err := desired(specs.Sandbox{
		Name: "s", Filesystem: specs.Filesystem{Programs: []string{"/usr/bin/env"}},
		Agent: &specs.Agent{Kind: "claude-code", Hide: []string{"A"}},
	})
	must(t, err)
	if !slices.Contains(r.Programs, "/usr/bin/bwrap") || !slices.IsSorted(r.Programs) || len(slices.Compact(slices.Clone(r.Programs))) != len(r.Programs) {
		t.Errorf("programs: %q", r.Programs)
	}
	const settings = "/etc/claude-code/managed-settings.json"
	dirs, files := skeleton(r, plan{FilePoints: filePoints(r.Points)})
	if !slices.Contains(files, settings) || slices.Contains(dirs, settings) || !slices.Contains(dirs, "/etc/claude-code") {
		t.Errorf("directories %q, files %q", dirs, files)
	}
}

func TestProgramsRun(t *testing.T) {
	h := host(t)
	kerneltest.Program(t, "git", "node", "npm", "bash")
	e := newEnforcer(h + "/cordon")
	apply(t, e, sandbox("dev", specs.Filesystem{
		Programs: []string{"/bin/bash", "/usr/bin/env", "/usr/bin/git", "/usr/bin/node", "/usr/bin/npm", "/bin/ls"},
		Files:    []string{"/usr/lib/node_modules/npm", "/etc/localtime"},
	}))
	tree := rundir.Dir(h + "/cordon").Root("dev")
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"bash", "-c", "echo $((6*7))"}, "42"},
		{[]string{"git", "--version"}, "git version"},
		{[]string{"node", "-e", "console.log(6*7)"}, "42"},
		{[]string{"npm", "--version"}, "."},
		{[]string{"/lib64/../bin/env", "bash", "-c", "echo hi"}, "hi"},
	} {
		if out := inTree(t, tree, c.argv...); !strings.Contains(out, c.want) {
			t.Errorf("%v: %q, want %q", c.argv, out, c.want)
		}
	}
	if out := inTree(t, tree, "ls", "-A", "/"); strings.Fields(out) == nil || strings.Contains(out, "sys") || strings.Contains(out, "root") {
		t.Errorf("/ holds %q", out)
	}
	if out := inTree(t, tree, "ls", "-A", "/usr/bin"); !slices.Equal(strings.Fields(out), []string{"bash", "env", "git", "ls", "node", "npm"}) {
		t.Errorf("/usr/bin holds %q", out)
	}
	// No write, not even by root outside of any user namespace.
	for _, p := range []string{"/x", "/usr/bin/x", "/usr/lib/node_modules/npm/x", "/etc/passwd", "/usr/bin/git"} {
		f, err := os.OpenFile(tree+p, os.O_WRONLY|os.O_CREATE, 0o600)
		if errors.Is(err, unix.ETXTBSY) { // it runs elsewhere on this host
			err = unix.Access(tree+p, unix.W_OK)
		}
		if !errors.Is(err, unix.EROFS) {
			_ = f.Close()
			t.Errorf("%s can be written to: %v", p, err)
		}
	}
}

// A session mounts its own onto the tree, as a user without any privilege.
func TestUnprivilegedSession(t *testing.T) {
	h := host(t)
	kerneltest.Program(t, "bwrap")
	if b, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err != nil || strings.TrimSpace(string(b)) == "0" {
		kerneltest.Missing(t, "user namespaces")
	}
	must(t, os.Chmod(h, 0o755)) // MkdirTemp makes it private
	work := h + "/work"
	must(t, os.Mkdir(work, 0o755))
	must(t, os.Chown(work, 1234, 1234))
	passwd := write(t, h+"/passwd", "me:x:1234:1234::/home/me:/bin/sh\n", 0o644)
	apply(t, newEnforcer(h+"/cordon"), sandbox("s", specs.Filesystem{
		Programs: []string{"/bin/sh", "/bin/cat", "/usr/bin/id"},
		Binds:    []specs.Bind{{To: "/work", From: "${session.project.directory}"}},
		Tmpfs:    []specs.Tmpfs{{Path: "/var/cache/x", Size: 1 << 20}},
	}))
	cmd := exec.Command("bwrap", "--unshare-user", "--disable-userns", "--unshare-all", "--cap-drop", "ALL",
		"--ro-bind", rundir.Dir(h+"/cordon").Root("s"), "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home",
		"--tmpfs", "/var/cache/x", "--ro-bind", passwd, "/etc/passwd", "--bind", work, "/work",
		"--", "/bin/sh", "-c", "cat /etc/passwd; id -un; echo x >/home/a && echo x >/tmp/a && echo x >/var/cache/x/a && echo x >/work/a && echo written; (echo x >/etc/new) 2>/dev/null || echo closed")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1234, Gid: 1234}}
	out, err := cmd.CombinedOutput()
	if want := "me:x:1234:1234::/home/me:/bin/sh\nme\nwritten\nclosed\n"; err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

func TestSkeleton(t *testing.T) {
	h := host(t)
	e := newEnforcer(h + "/cordon")
	conf := write(t, h+"/conf", "x", 0o600)
	apply(t, e, sandbox("s", specs.Filesystem{
		Tmpfs: []specs.Tmpfs{{Path: "/a/b"}},
		Binds: []specs.Bind{{To: "/etc/tool.conf", From: specs.Literal(conf)}, {To: "/work", From: "${session.project.directory}"}, {To: "/gone", From: specs.Literal(h + "/absent")}},
	}))
	tree := rundir.Dir(h + "/cordon").Root("s")
	for _, d := range append(Directories(), "/a/b", "/work", "/gone") {
		if info, err := os.Lstat(tree + d); err != nil || !info.IsDir() || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", d, info, err)
		}
	}
	for _, f := range append(Placeholders(), "/etc/tool.conf") {
		if info, err := os.Lstat(tree + f); err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", f, info, err)
		}
	}
	if b, err := os.ReadFile(tree + "/etc/nsswitch.conf"); err != nil || !strings.Contains(string(b), "hosts: files dns") {
		t.Errorf("nsswitch.conf: %q, %v", b, err)
	}
	if _, err := os.Lstat(tree + "/sys"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("/sys is there: %v", err)
	}
	// The kind of a mount point follows the host.
	must(t, os.Remove(conf))
	must(t, os.Mkdir(conf, 0o755))
	if d := drift(t, e, "s"); !slices.Equal(d, []string{"/etc/tool.conf: what is bound there is no longer a file"}) {
		t.Errorf("drift: %q", d)
	}
}

func TestMissing(t *testing.T) {
	h := host(t)
	e := newEnforcer(h + "/cordon")
	apply(t, e, sandbox("s", specs.Filesystem{Programs: []string{"/bin/true"}}))
	tree := rundir.Dir(h + "/cordon").Root("s")
	err := tryApply(e, sandbox("s", specs.Filesystem{
		Programs: []string{"/no/such", "/etc/passwd", "/bin/true"},
		Files:    []string{"/etc/absent", "/tmp", "/", "/dev/null"},
	}))
	if err == nil {
		t.Fatal("applied")
	}
	for _, want := range []string{
		"root.s: ", "/no/such: no such file on this host (needed by programs)", "/etc/absent: no such file on this host (needed by files)",
		"/etc/passwd: not a program", "/tmp: lies below /tmp", "/: the whole host", "/dev/null: neither a file nor a directory",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if _, err := os.Stat(tree + "/usr/bin/true"); err != nil {
		t.Errorf("the old tree did not stay: %v", err)
	}
	if d := drift(t, e, "s"); d != nil {
		t.Errorf("the old tree departs from its declaration: %q", d)
	}
}

// A program of the declaration that vanishes is drift, with the reason.
func TestDriftNamesTheCause(t *testing.T) {
	h := host(t)
	e := newEnforcer(h + "/cordon")
	own := h + "/bin/own"
	cp(t, "/bin/true", own)
	box := sandbox("s", specs.Filesystem{Programs: []string{own}})
	apply(t, e, box)
	must(t, os.Chmod(own, 0o700)) // the same inode: no drift
	if d := drift(t, e, "s"); d != nil {
		t.Errorf("after chmod: %q", d)
	}
	cp(t, "/bin/cat", own)
	d := drift(t, e, "s")
	if len(d) != 1 || !strings.HasPrefix(d[0], own+": replaced on the host (device:inode ") {
		t.Errorf("after an upgrade: %q", d)
	}
	must(t, os.Remove(own))
	if d := drift(t, e, "s"); !slices.Contains(d, own+": no such file on this host (needed by programs)") {
		t.Errorf("after removal: %q", d)
	}
	write(t, own, "#!/usr/bin/env cat\n", 0o755)
	if d := drift(t, e, "s"); !slices.Contains(d, "/usr/bin/cat: now also needed (by "+own+")") {
		t.Errorf("after another program took its place: %q", d)
	}
	apply(t, e, box)
	if d := drift(t, e, "s"); d != nil {
		t.Errorf("after apply: %q", d)
	}
}

// What a running session has must not change with the tree.
func TestCopiesOutliveTheTree(t *testing.T) {
	h := host(t)
	e := newEnforcer(h + "/cordon")
	one := write(t, h+"/one", "old", 0o644)
	box := sandbox("s", specs.Filesystem{Files: []string{one}})
	apply(t, e, box)
	tree := rundir.Dir(h + "/cordon").Root("s")
	fd, err := unix.OpenTree(unix.AT_FDCWD, tree, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	must(t, err)
	defer unix.Close(fd)
	write(t, one, "new", 0o644)
	apply(t, e, box)
	if b, err := os.ReadFile(tree + one); err != nil || string(b) != "new" {
		t.Errorf("the tree shows %q, %v", b, err)
	}
	apply(t, e) // delete
	f, err := unix.Openat(fd, strings.TrimPrefix(one, "/"), unix.O_RDONLY, 0)
	must(t, err)
	b := make([]byte, 8)
	n, err := unix.Read(f, b)
	must(t, err)
	if string(b[:n]) != "old" {
		t.Errorf("the copy shows %q", b[:n])
	}
}

// Under a shared /run, as systemd leaves it, trees must build, be replaced
// and show in no other namespace.
func TestSharedRun(t *testing.T) {
	h := host(t)
	shared := h + "/shared"
	must(t, os.Mkdir(shared, 0o755))
	must(t, unix.Mount("t", shared, "tmpfs", 0, "mode=755"))
	must(t, unix.Mount("", shared, "", unix.MS_SHARED, ""))
	peer := h + "/peer"
	must(t, os.Mkdir(peer, 0o755))
	must(t, unix.Mount(shared, peer, "", unix.MS_BIND, "")) // in the same peer group
	e := newEnforcer(shared + "/cordon")
	apply(t, e, sandbox("s", specs.Filesystem{Programs: []string{"/bin/true"}}))
	apply(t, e, sandbox("s", specs.Filesystem{Programs: []string{"/bin/false"}}))
	if d := drift(t, e, "s"); d != nil {
		t.Errorf("drift: %q", d)
	}
	if _, err := os.Stat(peer + "/cordon/roots/s/usr"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the tree shows elsewhere: %v", err)
	}
	apply(t, e)
}

// The whole tree is there or the old one: never a part.
func TestReplaceHasNoGap(t *testing.T) {
	h := host(t)
	if f := beneath(); f.Status != reconciler.OK {
		kerneltest.Missing(t, "Linux 6.5")
	}
	e := newEnforcer(h + "/cordon")
	apply(t, e, sandbox("s", specs.Filesystem{Programs: []string{"/bin/true"}}))
	probe := rundir.Dir(h+"/cordon").Root("s") + "/usr/bin/true"
	stop, gone := make(chan bool), make(chan error, 1)
	go func() {
		defer close(gone)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := os.Stat(probe); err != nil {
				gone <- err
				return
			}
		}
	}()
	for i := range 20 {
		apply(t, e, sandbox("s", specs.Filesystem{Programs: []string{"/bin/true"}, Files: [][]string{{"/etc/passwd"}, nil}[i%2]}))
	}
	close(stop)
	if err := <-gone; err != nil {
		t.Errorf("for a moment there was no tree: %v", err)
	}
}

// An empty tree of someone else's is not ours.
func TestForeignTree(t *testing.T) {
	h := host(t)
	e := newEnforcer(h + "/cordon")
	apply(t, e, sandbox("s", specs.Filesystem{}))
	tree := rundir.Dir(h + "/cordon").Root("s")
	must(t, unix.Unmount(tree, 0))
	must(t, unix.Mount("evil", tree, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""))
	if d := drift(t, e, "s"); !slices.Equal(d, []string{"the tree is not the one that the manifest describes"}) {
		t.Errorf("drift: %q", d)
	}
}

// What can't be read is an error, not a tree that departs.
func TestUnreadableManifest(t *testing.T) {
	h := host(t)
	e := newEnforcer(h + "/cordon")
	must(t, os.MkdirAll(h+"/cordon/roots/s.json", 0o755))
	if live, err := e.Read(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "root.s: ") {
		t.Errorf("read %v, %v", live, err)
	}
}

// A tree of another build is built again.
func TestOtherLayout(t *testing.T) {
	h := host(t)
	e := newEnforcer(h + "/cordon")
	box := sandbox("s", specs.Filesystem{})
	apply(t, e, box)
	path := e.paths("s").manifest
	b, err := os.ReadFile(path)
	must(t, err)
	write(t, path, strings.Replace(string(b), `"layout":2`, `"layout":99`, 1), 0o644)
	if d := drift(t, e, "s"); len(d) != 1 || !strings.Contains(d[0], "its layout is 99") {
		t.Errorf("drift: %q", d)
	}
	apply(t, e, box)
	if d := drift(t, e, "s"); d != nil {
		t.Errorf("after apply: %q", d)
	}
}

// A source that changes between resolving and binding is not bound.
func TestBindChecksWhatWasResolved(t *testing.T) {
	h := host(t)
	one := write(t, h+"/one", "x", 0o644)
	r := Resource{Sandbox: "s", Files: []string{one}}
	p, err := resolve(r)
	must(t, err)
	write(t, one, "y", 0o644)
	must(t, os.Mkdir(h+"/stage", 0o755))
	root, err := newTree(h + "/stage")
	must(t, err)
	defer unix.Close(root)
	if err := fill(root, r, p); err == nil || !strings.Contains(err.Error(), "replaced on the host meanwhile") {
		t.Errorf("%v", err)
	}
	must(t, os.Remove(one))
	must(t, os.Symlink("/etc/passwd", one))
	if err := bind(root, p.Files[0]); err == nil || !strings.Contains(err.Error(), "replaced on the host meanwhile") {
		t.Errorf("a symbolic link in its place: %v", err)
	}
}

// Nothing in a tree leads out of it, whatever links it holds.
func TestTargetsStayInTheTree(t *testing.T) {
	h := host(t)
	must(t, os.Mkdir(h+"/stage", 0o755))
	must(t, os.MkdirAll(h+"/outside/sub", 0o755))
	root, err := newTree(h + "/stage")
	must(t, err)
	defer unix.Close(root)
	must(t, makeLink(root, "/abs", h+"/outside"))
	must(t, makeLink(root, "/up", "../outside"))
	must(t, makeDir(root, "/real"))
	must(t, makeDir(root, "/real/sub"))
	must(t, makeLink(root, "/in", "real"))
	for _, name := range []string{"/abs/x", "/abs/sub/x", "/up/sub/x", "/../outside/sub/x", "/in/x", "/in/sub/x"} {
		if err := makeDir(root, name); err == nil {
			t.Errorf("%s was made", name)
		}
		if err := makeFile(root, name, ""); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	if left, err := os.ReadDir(h + "/outside/sub"); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
}

// A directory is bound with what is mounted in it, all of it read-only.
func TestDirectoryWithMounts(t *testing.T) {
	h := host(t)
	write(t, h+"/data/file", "x", 0o644)
	must(t, os.Mkdir(h+"/data/sub", 0o755))
	must(t, unix.Mount("t", h+"/data/sub", "tmpfs", 0, ""))
	write(t, h+"/data/sub/inner", "x", 0o644)
	e := newEnforcer(h + "/cordon")
	box := sandbox("s", specs.Filesystem{Files: []string{h + "/data"}, Binds: []specs.Bind{{To: h + "/data/sub", From: "${session.project.directory}"}}})
	apply(t, e, box)
	tree := rundir.Dir(h + "/cordon").Root("s")
	if _, err := os.Stat(tree + h + "/data/sub/inner"); err != nil {
		t.Error(err)
	}
	for _, p := range []string{"/data/new", "/data/sub/new"} {
		if err := os.WriteFile(tree+h+p, nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v", p, err)
		}
	}
	must(t, unix.Unmount(tree+h+"/data/sub", 0))
	if d := drift(t, e, "s"); !slices.Equal(d, []string{h + "/data/sub: not mounted"}) {
		t.Errorf("drift: %q", d)
	}
}

func TestConflicts(t *testing.T) {
	h := host(t)
	write(t, h+"/data/file", "x", 0o644)
	must(t, os.Symlink("data", h+"/link"))
	e := newEnforcer(h + "/cordon")
	for _, tt := range []struct {
		f    specs.Filesystem
		want string
	}{
		{specs.Filesystem{Programs: []string{"/bin/true"}, Tmpfs: []specs.Tmpfs{{Path: "/bin/x"}}}, "/bin: a symbolic link to usr/bin on this host"},
		{specs.Filesystem{Files: []string{h + "/data"}, Tmpfs: []specs.Tmpfs{{Path: h + "/data/new"}}}, h + "/data/new: lies in a directory of the host"},
		{specs.Filesystem{Files: []string{h + "/data/file"}, Tmpfs: []specs.Tmpfs{{Path: h + "/data/file/x"}}}, h + "/data/file: declared as both a file and a directory"},
		{specs.Filesystem{Files: []string{h + "/link"}, Tmpfs: []specs.Tmpfs{{Path: h + "/link/x"}}}, h + "/link: a symbolic link to data"},
		{specs.Filesystem{Files: []string{h + "/data/file"}, Tmpfs: []specs.Tmpfs{{Path: h + "/data"}}}, h + "/data/file: lies below " + h + "/data"},
	} {
		if err := tryApply(e, sandbox("s", tt.f)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	if err := tryApply(e, sandbox("s", specs.Filesystem{Files: []string{"/etc"}})); err != nil {
		t.Errorf("the whole of /etc, which has the placeholders: %v", err)
	}
}

func TestWarnsOfWritableSources(t *testing.T) {
	h := host(t)
	var log strings.Builder
	e := New(Options{Dir: rundir.Dir(h + "/cordon"), Log: slog.New(slog.NewTextHandler(&log, nil))})
	open := write(t, h+"/open", "x", 0o644)
	apply(t, e, sandbox("s", specs.Filesystem{Files: []string{open}}))
	if log.Len() > 0 {
		t.Errorf("warned of a safe file: %s", log.String())
	}
	must(t, os.Chmod(open, 0o666))
	apply(t, e, sandbox("t", specs.Filesystem{Files: []string{open}}))
	if !strings.Contains(log.String(), open) {
		t.Errorf("no warning: %s", log.String())
	}
}

func TestExamine(t *testing.T) {
	kerneltest.Host(t)
	for _, f := range newEnforcer("/run/x").Examine(context.Background()) {
		if f.Status == reconciler.Fail {
			t.Errorf("%s: %s", f.Subject, f.Text)
		}
	}
}
