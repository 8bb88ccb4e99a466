package seccomp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/enforcers/seccomp/libseccomp"
	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

// childFilter names, in the environment of a re-executed test binary, the
// filter that it loads and tries.
const childFilter = "CORDON_TEST_FILTER"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFilter); path != "" {
		if err := child(path, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	kerneltest.Main(m)
}

// enforcer is as all commands have it but a session's start.
func enforcer(dir rundir.Dir) *seccomp.Enforcer {
	return seccomp.New(seccomp.Options{Dir: dir, Compiler: libseccomp.Compiler{}})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	t.Run("compiled", func(t *testing.T) { conforms(t, false) })
	t.Run("recorded", func(t *testing.T) { conforms(t, true) })
}

func conforms(t *testing.T, recorded bool) {
	run := rundir.Dir(filepath.Join(t.TempDir(), "cordon"))
	sets := []specs.Set{
		{
			Seccomps: []specs.Seccomp{
				{Name: "agent", Base: seccomp.Base, Deny: []string{"ptrace", "keyctl"}, Errno: "EACCES"},
				{Name: "other", Base: seccomp.Base},
			},
			Sandboxes: []specs.Sandbox{{Name: "s"}},
		},
		{Seccomps: []specs.Seccomp{{Name: "agent", Base: seccomp.Base, Allow: []string{"unshare", "mount", "clone"}}}},
		{Seccomps: []specs.Seccomp{{Name: "agent", Base: seccomp.Base, Deny: []string{"ptrace", "keyctl"}, Log: true}}},
		{Sandboxes: []specs.Sandbox{{Name: "s"}, {Name: "t", Seccomp: "agent"}}},
		{
			Seccomps:  []specs.Seccomp{{Name: "agent", Base: seccomp.Base, Deny: []string{"ptrace"}}},
			Sandboxes: []specs.Sandbox{{Name: "s", Agent: hiding()}, {Name: "t", Seccomp: "agent", Agent: hiding()}},
		},
	}
	filter := run.Seccomp("agent")
	sidecar := strings.TrimSuffix(filter, ".bpf") + ".json"
	h := enforcertest.Harness{
		Name: seccomp.Name,
		New: func(*testing.T) reconciler.Enforcer {
			return seccomp.New(seccomp.Options{Dir: run, Compiler: libseccomp.Compiler{}, Recorded: recorded})
		},
		Sets: sets,
		Foreign: func(t *testing.T) func(*testing.T) {
			mine := filepath.Join(filepath.Dir(string(run)), "agent.bpf")
			must(t, os.WriteFile(mine, []byte("x"), 0o600))
			return func(t *testing.T) {
				if b, err := os.ReadFile(mine); err != nil || string(b) != "x" {
					t.Errorf("a foreign file was touched: %q, %v", b, err)
				}
			}
		},
		Damage: []enforcertest.Damage{
			{Name: "a filter altered", Do: func(t *testing.T) {
				b, err := os.ReadFile(filter)
				must(t, err)
				b[len(b)-1] ^= 1
				must(t, os.WriteFile(filter, b, 0o644))
			}},
			{Name: "a filter emptied", Do: func(t *testing.T) { must(t, os.Truncate(filter, 0)) }},
			{Name: "another's filter in its place", Do: func(t *testing.T) {
				b, err := os.ReadFile(run.Seccomp("other"))
				must(t, err)
				must(t, os.WriteFile(filter, b, 0o644))
			}},
			{Name: "another's filter and record in their place", Do: func(t *testing.T) {
				forge(t, run, "agent", []byte(`{"policy":{"base":"container","errno":"EPERM"}}`))
			}},
			{Name: "a filter removed", Do: func(t *testing.T) { must(t, os.Remove(filter)) }},
			{Name: "the base removed", Do: func(t *testing.T) { must(t, os.Remove(run.Seccomp(""))) }},
			{Name: "a record removed", Do: func(t *testing.T) { must(t, os.Remove(sidecar)) }},
			{Name: "a record cut short", Do: func(t *testing.T) { must(t, os.Truncate(sidecar, 9)) }},
			{Name: "both removed", Do: func(t *testing.T) { must(t, os.Remove(sidecar)); must(t, os.Remove(filter)) }},
			{Name: "a filter that all may write", Do: func(t *testing.T) { must(t, os.Chmod(filter, 0o666)) }},
			{Name: "a filter of another user", Do: func(t *testing.T) { kerneltest.Host(t); must(t, os.Chown(filter, 1234, -1)) }},
			{Name: "a symbolic link in its place", Do: func(t *testing.T) {
				must(t, os.Rename(filter, filepath.Join(filepath.Dir(string(run)), "away")))
				must(t, os.Symlink("/dev/null", filter))
			}},
			{Name: "a pipe in its place", Do: func(t *testing.T) { // reading it would wait for ever
				must(t, os.Remove(filter))
				must(t, unix.Mkfifo(filter, 0o644))
			}},
			{Name: "a file left behind", Do: func(t *testing.T) {
				must(t, os.WriteFile(filepath.Join(filepath.Dir(filter), ".agent.bpf"), nil, 0o600))
			}},
		},
	}
	if !recorded {
		h.Damage = append(h.Damage, enforcertest.Damage{
			Name: "a filter that allows all, vouched for by its record",
			Do:   func(t *testing.T) { vouch(t, run, "agent") },
		})
	}
	enforcertest.Run(t, h)
}

// allowAll is a filter of one instruction.
func allowAll() []byte {
	return binary.NativeEndian.AppendUint64(nil, unix.BPF_RET|unix.BPF_K|unix.SECCOMP_RET_ALLOW<<32)
}

// forge puts allowAll and a record in the place of a filter's two files.
func forge(t *testing.T, run rundir.Dir, name string, rec []byte) {
	t.Helper()
	filter := run.Seccomp(name)
	must(t, os.WriteFile(filter, allowAll(), 0o644))
	must(t, os.WriteFile(strings.TrimSuffix(filter, ".bpf")+".json", rec, 0o644))
}

// vouch puts allowAll in the place of a filter, with a record that has its
// digest.
func vouch(t *testing.T, run rundir.Dir, name string) {
	t.Helper()
	b, err := os.ReadFile(strings.TrimSuffix(run.Seccomp(name), ".bpf") + ".json")
	must(t, err)
	var rec map[string]any
	must(t, json.Unmarshal(b, &rec))
	sum := sha256.Sum256(allowAll())
	if _, ok := rec["sha256"]; !ok {
		t.Fatalf("a record without a digest: %s", b)
	}
	rec["sha256"] = hex.EncodeToString(sum[:])
	b, err = json.Marshal(rec)
	must(t, err)
	forge(t, run, name, b)
}

// What [seccomp.Enforcer] holds in memory is not taken for what the files hold.
func TestEveryReadingLooks(t *testing.T) {
	run := rundir.Dir(filepath.Join(t.TempDir(), "cordon"))
	e := enforcer(run)
	out, err := e.Desired(specs.Set{Seccomps: []specs.Seccomp{{Name: "x", Base: seccomp.Base}}})
	must(t, err)
	must(t, e.Apply(context.Background(), reconciler.Change{After: out[0]}))
	vouch(t, run, "x")
	all, err := e.Read(context.Background())
	must(t, err)
	part, err := e.ReadPart(context.Background(), []reconciler.Addr{seccomp.Addr("x")})
	must(t, err)
	for _, live := range [][]reconciler.Resource{all, part} {
		if len(live) != 1 || len(live[0].(seccomp.Resource).Drift) == 0 {
			t.Errorf("a filter that allows all passed for the policy: %v", live)
		}
	}
}

// counted tells how often it was asked.
type counted struct {
	libseccomp.Compiler
	times int
}

func (c *counted) Program(ctx context.Context, r seccomp.Resource) ([]byte, error) {
	c.times++
	return c.Compiler.Program(ctx, r)
}

// A start compiles what is missing, and nothing else.
func TestRecorded(t *testing.T) {
	run := rundir.Dir(filepath.Join(t.TempDir(), "cordon"))
	c := &counted{}
	// Each is of a process of its own.
	start := func() *seccomp.Enforcer { return seccomp.New(seccomp.Options{Dir: run, Compiler: c, Recorded: true}) }
	e := start()
	out, err := e.Desired(specs.Set{Seccomps: []specs.Seccomp{{Name: "x", Base: seccomp.Base}}})
	must(t, err)
	must(t, e.Apply(context.Background(), reconciler.Change{After: out[0]}))
	if c.times != 1 {
		t.Errorf("a filter was compiled %d times", c.times)
	}
	for range 2 {
		live, err := start().ReadPart(context.Background(), []reconciler.Addr{seccomp.Addr("x")})
		must(t, err)
		if len(live) != 1 || !reflect.DeepEqual(live[0], out[0]) {
			t.Errorf("%v, not %v", live, out)
		}
	}
	if c.times != 1 {
		t.Errorf("a reading compiled: %d times", c.times)
	}
}

// The record of an older build vouches for no filter, and is told apart from one
// that is of another.
func TestOlderRecord(t *testing.T) {
	run := rundir.Dir(filepath.Join(t.TempDir(), "cordon"))
	e := seccomp.New(seccomp.Options{Dir: run, Compiler: libseccomp.Compiler{}, Recorded: true})
	out, err := e.Desired(specs.Set{Seccomps: []specs.Seccomp{{Name: "x", Base: seccomp.Base}}})
	must(t, err)
	must(t, e.Apply(context.Background(), reconciler.Change{After: out[0]}))
	policy, err := json.Marshal(map[string]any{"policy": out[0]})
	must(t, err)
	must(t, os.WriteFile(strings.TrimSuffix(run.Seccomp("x"), ".bpf")+".json", policy, 0o644))
	live, err := e.Read(context.Background())
	must(t, err)
	want := []string{"the record is of no filter"}
	if len(live) != 1 || !reflect.DeepEqual(live[0].(seccomp.Resource).Drift, want) {
		t.Errorf("%v, want drift %q", live, want)
	}
}

// fixed says the same to all.
type fixed []byte

func (f fixed) Program(context.Context, seccomp.Resource) ([]byte, error) { return f, nil }

// What can't be a filter is not written: its record would vouch for it.
func TestNoFilter(t *testing.T) {
	for _, n := range []int{0, 7, 8*unix.BPF_MAXINSNS + 8} {
		run := rundir.Dir(filepath.Join(t.TempDir(), "cordon"))
		e := seccomp.New(seccomp.Options{Dir: run, Compiler: make(fixed, n), Recorded: true})
		out, err := e.Desired(specs.Set{Seccomps: []specs.Seccomp{{Name: "x", Base: seccomp.Base}}})
		must(t, err)
		if err := e.Apply(context.Background(), reconciler.Change{After: out[0]}); err == nil || !strings.Contains(err.Error(), "no filter") {
			t.Errorf("%d bytes: %v", n, err)
		}
		if live, err := e.Read(context.Background()); len(live) > 0 || err != nil {
			t.Errorf("%d bytes: written %v, %v", n, live, err)
		}
	}
}

// What a killed Apply left is seen though there is nothing else, and goes.
func TestLeftovers(t *testing.T) {
	run := rundir.Dir(filepath.Join(t.TempDir(), "cordon"))
	dir, err := run.Make("seccomp")
	must(t, err)
	for _, n := range []string{".a.bpf", ".b.json"} {
		must(t, os.WriteFile(filepath.Join(dir, n), nil, 0o600))
	}
	e := enforcer(run)
	live, err := e.Read(context.Background())
	must(t, err)
	if len(live) != 2 {
		t.Fatalf("read %v", live)
	}
	for _, r := range live {
		must(t, e.Apply(context.Background(), reconciler.Change{Before: r}))
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
}

// What the library is, and whether it can compile the base, is found beside what
// the kernel can do.
func TestExamineLibrary(t *testing.T) {
	for _, f := range enforcer("/nowhere").Examine(context.Background()) {
		if f.Subject == "libseccomp" {
			if f.Status != reconciler.OK || !strings.HasPrefix(f.Text, "version 2.") {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Error("nothing is found of the library")
}

func TestDesired(t *testing.T) {
	e := enforcer("/nowhere")
	for _, tt := range []struct {
		s    specs.Seccomp
		want string
	}{
		{specs.Seccomp{Name: "a", Base: seccomp.Base, Deny: []string{"mount"}, Allow: []string{"mount"}}, "seccomp.a: mount is both in deny and in allow"},
		{specs.Seccomp{Name: "a", Base: "none"}, `seccomp.a: there is no base "none", only "container"`},
	} {
		if _, err := e.Desired(specs.Set{Seccomps: []specs.Seccomp{tt.s}}); err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	out, err := e.Desired(specs.Set{Sandboxes: []specs.Sandbox{{Name: "s"}}})
	must(t, err)
	if len(out) != 1 || out[0].Addr() != `seccomp."container.base"` {
		t.Errorf("the base as it is: %v", out)
	}
}

// hiding is an agent that makes sandboxes itself.
func hiding() *specs.Agent { return &specs.Agent{Kind: "claude-code", Hide: []string{"A"}} }

// Only sandboxes whose agent nests get the variant with more calls, and the
// variant allows nothing that its block denies.
func TestNestingVariants(t *testing.T) {
	block := specs.Seccomp{Name: "f", Base: seccomp.Base, Deny: []string{"keyctl"}}
	out, err := enforcer("/nowhere").Desired(specs.Set{Seccomps: []specs.Seccomp{block}, Sandboxes: []specs.Sandbox{
		{Name: "a", Seccomp: "f", Agent: hiding()},
		{Name: "b", Seccomp: "f", Agent: hiding()},
		{Name: "c", Seccomp: "f", Agent: &specs.Agent{Kind: "claude-code"}},
		{Name: "d", Agent: hiding()},
		{Name: "e"},
	}})
	must(t, err)
	got := map[string]seccomp.Resource{}
	for _, r := range out {
		got[r.(seccomp.Resource).Filter] = r.(seccomp.Resource)
	}
	if len(out) != 4 || len(got) != 4 {
		t.Errorf("%v", out)
	}
	for name, nests := range map[string]bool{"f": false, "container.base": false, "f.nested": true, "container.base.nested": true} {
		r, ok := got[name]
		if !ok || slices.Contains(r.Allow, "unshare") != nests {
			t.Errorf("%s: %+v", name, r)
		}
		if denies := slices.Contains(r.Deny, "keyctl"); denies != strings.HasPrefix(name, "f") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// The flag is no part of the program.
func TestLog(t *testing.T) {
	deny := []string{"ptrace", "keyctl"}
	plain, err := os.ReadFile(filterFile(t, specs.Seccomp{Deny: deny}))
	must(t, err)
	logged, err := os.ReadFile(filterFile(t, specs.Seccomp{Deny: deny, Log: true}))
	must(t, err)
	if !bytes.Equal(plain, logged) {
		t.Error("log makes another program")
	}
}

// filterFile applies one block and returns its file.
func filterFile(t *testing.T, s specs.Seccomp) string {
	t.Helper()
	run := rundir.Dir(filepath.Join(t.TempDir(), "cordon"))
	e := enforcer(run)
	s.Name, s.Base = "x", seccomp.Base
	out, err := e.Desired(specs.Set{Seccomps: []specs.Seccomp{s}})
	must(t, err)
	must(t, e.Apply(context.Background(), reconciler.Change{After: out[0]}))
	return run.Seccomp("x")
}

// try is one call made for real under a filter.
type try struct {
	Name string
	Nr   uintptr
	Args [6]uintptr
}

// child loads the filter and makes the calls, printing the errno of each.
func child(path string, args []string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var tries []try
	if err := json.Unmarshal([]byte(args[0]), &tries); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(b) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&b[0]))}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("load: %w", errno)
	}
	for _, c := range tries {
		_, _, errno := unix.RawSyscall6(c.Nr, c.Args[0], c.Args[1], c.Args[2], c.Args[3], c.Args[4], c.Args[5])
		fmt.Printf("%s=%s\n", c.Name, unix.ErrnoName(errno))
	}
	return nil
}

func inChild(t *testing.T, filter string, tries ...try) (map[string]string, error) {
	t.Helper()
	arg, err := json.Marshal(tries)
	must(t, err)
	cmd := exec.Command("/proc/self/exe", string(arg))
	cmd.Env = append(os.Environ(), childFilter+"="+filter)
	out, err := cmd.Output()
	got := map[string]string{}
	for _, line := range strings.Fields(string(out)) {
		k, v, _ := strings.Cut(line, "=")
		got[k] = v
	}
	return got, err
}

// What the interpreter in these tests says, the kernel says too.
func TestKernelAnswers(t *testing.T) {
	filter := filterFile(t, specs.Seccomp{Deny: []string{"getpriority"}, Allow: []string{"vhangup"}, Errno: "ENOTTY"})
	tries := []try{
		{"getpid", unix.SYS_GETPID, [6]uintptr{}},
		{"mount", unix.SYS_MOUNT, [6]uintptr{}},
		{"unshare", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUTS}},
		{"clone3", unix.SYS_CLONE3, [6]uintptr{}},
		{"unknown", 9999, [6]uintptr{}},
		{"denied", unix.SYS_GETPRIORITY, [6]uintptr{}},
		{"tiocsti", unix.SYS_IOCTL, [6]uintptr{99, unix.TIOCSTI}},
		{"tiocsti-high", unix.SYS_IOCTL, [6]uintptr{99, 1<<32 | unix.TIOCSTI}},
		{"tcgets", unix.SYS_IOCTL, [6]uintptr{99, unix.TCGETS}},
		{"vsock", unix.SYS_SOCKET, [6]uintptr{unix.AF_VSOCK, unix.SOCK_STREAM}},
		{"alg", unix.SYS_SOCKET, [6]uintptr{unix.AF_ALG, unix.SOCK_SEQPACKET}},
		{"inet", unix.SYS_SOCKET, [6]uintptr{unix.AF_INET, unix.SOCK_STREAM}},
		{"clone-newuser", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWUSER}},
		{"personality", unix.SYS_PERSONALITY, [6]uintptr{0xffffffff}},
		{"personality-odd", unix.SYS_PERSONALITY, [6]uintptr{0x0040000}},
	}
	got, err := inChild(t, filter, tries...)
	must(t, err)
	for name, want := range map[string]string{
		"getpid": "", "mount": "EPERM", "unshare": "EPERM", "clone3": "ENOSYS", "unknown": "ENOSYS", "denied": "ENOTTY",
		"tiocsti": "EPERM", "tiocsti-high": "EPERM", "tcgets": "EBADF", "vsock": "EPERM", "alg": "EPERM", "inet": "",
		"clone-newuser": "EPERM", "personality": "", "personality-odd": "EPERM",
	} {
		if v, made := got[name]; !made || v != want {
			t.Errorf("%s: %q (made: %t), want %q", name, v, made, want)
		}
	}
}

func killedBySIGSYS(err error) bool {
	exit, ok := err.(*exec.ExitError)
	if !ok {
		return false
	}
	ws, ok := exit.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == unix.SIGSYS
}

func TestKernelKills(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("x32 and int 0x80 are amd64's")
	}
	filter := filterFile(t, specs.Seccomp{})
	if _, err := inChild(t, filter, try{"x32", 0x40000000 | unix.SYS_GETPID, [6]uintptr{}}); !killedBySIGSYS(err) {
		t.Errorf("an x32 call does not kill: %v", err)
	}
	kerneltest.Host(t)
	kerneltest.Program(t, "gcc", "bwrap")
	dir := t.TempDir()
	src := `int main(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return r > 0 ? 0 : 1; }`
	must(t, os.WriteFile(dir+"/a.c", []byte(src), 0o600))
	if out, err := exec.Command("gcc", "-static", "-o", dir+"/a", dir+"/a.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	if err := exec.Command(dir + "/a").Run(); err != nil {
		t.Logf("this kernel takes no 32-bit calls, with a filter or without: %v", err)
		return
	}
	if out, err := bwrap(filter, dir, "/bin/sh", "-c", dir+`/a; echo "status $?"`); err != nil || !strings.Contains(out, "status 159") { // 128 + SIGSYS
		t.Errorf("a 32-bit call does not kill: %s, %v", out, err)
	}
}

// bwrap runs argv in a sandbox with the filter, as sessions do.
func bwrap(filter, dir string, argv ...string) (string, error) {
	f, err := os.Open(filter)
	if err != nil {
		return "", err
	}
	defer f.Close()
	args := append([]string{"--unshare-all", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/home", "--bind", dir, dir, "--chdir", dir, "--seccomp", "3", "--"}, argv...)
	cmd := exec.Command("bwrap", args...)
	cmd.ExtraFiles = []*os.File{f}
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/home", "GIT_CONFIG_NOSYSTEM=1", "TMPDIR=/home"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Ordinary work must not notice the filter.
func TestWorkloads(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "bwrap")
	filter := filterFile(t, specs.Seccomp{Deny: []string{
		"ptrace", "process_vm_readv", "process_vm_writev", "keyctl", "add_key", "io_uring_setup", "userfaultfd", "perf_event_open",
	}})
	for _, w := range []struct {
		needs string
		argv  []string
		want  string
	}{
		{"bash", []string{"bash", "-c", `for i in 1 2 3; do (sleep 0; echo $i) & done; wait; ls -l / | wc -l; cat <(echo sub)`}, "sub"},
		{"sort", []string{"bash", "-c", `seq 200000 | sort --parallel=4 -R | sort -n --parallel=4 | tail -1`}, "200000"},
		{"git", []string{"bash", "-c", `git init -q r && cd r && git config user.email a@b && git config user.name a && seq 999 >f && git add . && git commit -qm x && git gc -q && git log --oneline | wc -l`}, "1"},
		{"python3", []string{"/usr/bin/python3", "-c", `
import threading, subprocess, socket, multiprocessing
t=[threading.Thread(target=lambda: None) for _ in range(8)]
[x.start() for x in t]; [x.join() for x in t]
a,b=socket.socketpair(); a.send(b"x"); b.recv(1)
with multiprocessing.Pool(2) as p: assert p.map(abs,[-1,-2])==[1,2]
print(subprocess.check_output(["echo","python fine"]).decode())`}, "python fine"},
		{"node", []string{"node", "-e", `
const {Worker}=require('worker_threads'), cp=require('child_process'), fs=require('fs'), net=require('net');
fs.writeFileSync('x','1');
net.createServer().listen(0,'127.0.0.1',function(){ this.close();
 new Worker('require("worker_threads").parentPort.postMessage(6*7)',{eval:true}).on('message',m=>
  cp.exec('echo child',(e,o)=>fs.readFile('x',(e2)=>console.log('node',m,o.trim(),e,e2))));});`}, "node 42 child null null"},
	} {
		t.Run(w.needs, func(t *testing.T) {
			kerneltest.Program(t, w.needs, w.argv[0])
			out, err := bwrap(filter, t.TempDir(), w.argv...)
			if err != nil || !strings.Contains(out, w.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// An agent may be allowed to make sandboxes itself.
func TestNestedSandbox(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "bwrap")
	nest := []string{"bwrap", "--unshare-all", "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--", "echo", "nested"}
	if out, err := bwrap(filterFile(t, specs.Seccomp{}), t.TempDir(), nest...); err == nil {
		t.Errorf("the base lets a sandbox make another: %s", out)
	}
	filter := filterFile(t, specs.Seccomp{Allow: []string{"chroot", "clone", "mount", "pivot_root", "setns", "umount2", "unshare"}})
	if out, err := bwrap(filter, t.TempDir(), nest...); err != nil || strings.TrimSpace(out) != "nested" {
		t.Errorf("%v: %s", err, out)
	}
}
