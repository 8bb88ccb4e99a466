package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/cgroup"
	"github.com/aicodesit/cordon/enforcers/network"
	"github.com/aicodesit/cordon/enforcers/root"
	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/enforcers/seccomp/libseccomp"
	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/enforcers/slot"
	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

// orderVar makes the test binary stand in for `cordon run`: it names a file
// that holds an order.
const orderVar = "CORDON_SESSION_TEST_ORDER"

// order is all that the stand-in needs to know.
type order struct {
	Dir      rundir.Dir
	Parent   string
	Set      specs.Set
	Request  session.Request
	NoUserns bool
}

func TestMain(m *testing.M) {
	if file := os.Getenv(orderVar); file != "" {
		os.Exit(standIn(file))
	}
	kerneltest.Main(m)
}

func standIn(file string) int {
	o, err := readOrder(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	rec, groups := enforcers(o.Dir, o.Parent, log)
	r := &session.Runner{
		Set: o.Set, Reconciler: rec, RunDir: o.Dir, Groups: groups, Log: log,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(),
		Reload: func(context.Context) (specs.Set, error) { o, err := readOrder(file); return o.Set, err },
	}
	if o.NoUserns {
		r.Userns = func(uint32) bool { return false }
	}
	code, err := r.Run(context.Background(), o.Request)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cordon:", err)
	}
	return code
}

func readOrder(file string) (o order, err error) {
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	return o, err
}

func enforcers(dir rundir.Dir, parent string, log *slog.Logger) (*reconciler.Reconciler, *cgroup.Enforcer) {
	groups := cgroup.New(cgroup.Options{Parent: parent})
	return &reconciler.Reconciler{Log: log, Enforcers: []reconciler.Named{
		{Name: "session", Enforcer: session.New(session.Options{RunDir: dir, Log: log})},
		{Name: "cgroup", Enforcer: groups},
		{Name: "seccomp", Enforcer: seccomp.New(seccomp.Options{Dir: dir, Compiler: libseccomp.Compiler{}})},
		{Name: "root", Enforcer: root.New(root.Options{Dir: dir, Log: log})},
		{Name: "network", Enforcer: network.New(network.Options{Dir: dir})},
		{Name: "slot", Enforcer: slot.New(slot.Options{Dir: dir})},
	}}, groups
}

// testUser is whom the project's sessions are.
const (
	testUser = "cordontest"
	testUID  = 54321
	testGID  = 54322
)

var users = sync.OnceValue(func() error {
	for file, line := range map[string]string{
		"/etc/passwd": fmt.Sprintf("%s:x:%d:%d::/nonexistent:/bin/sh\nrootgroup:x:54323:0::/:/bin/sh\nrootid:x:0:54325::/:/bin/sh\nsame:x:4294967295:54324::/:/bin/sh\nsamegroup:x:54324:4294967295::/:/bin/sh\n", testUser, testUID, testGID),
		"/etc/group":  fmt.Sprintf("%s:x:%d:\n", testUser, testGID),
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		private := filepath.Join("/run", filepath.Base(file))
		if err := os.WriteFile(private, append(b, line...), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(private, file, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
})

// stand is a host on which sessions can run.
type stand struct {
	order
	t       testing.TB
	file    string
	project string // the project's directory
	rec     *reconciler.Reconciler
	groups  *cgroup.Enforcer
}

func newStand(t testing.TB, change ...func(*specs.Set)) *stand {
	t.Helper()
	kerneltest.Host(t)
	kerneltest.Program(t, "bwrap", "iptables", "bash")
	must(t, users())
	base, err := os.MkdirTemp("/run", "stand")
	must(t, err)
	must(t, os.Chmod(base, 0o755))
	s := &stand{t: t, file: filepath.Join(base, "order"), project: filepath.Join(base, "shop")}
	must(t, os.Mkdir(s.project, 0o700))
	must(t, os.Chown(s.project, testUID, testGID))
	s.Dir, s.Parent = rundir.Dir(filepath.Join(base, "cordon")), kerneltest.CgroupParent(t)
	s.Set = s.set()
	for _, c := range change {
		c(&s.Set)
	}
	s.rec, s.groups = enforcers(s.Dir, s.Parent, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { s.apply(specs.Set{}); must(t, os.RemoveAll(base)) })
	s.apply(s.Set)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stand) set() specs.Set {
	var programs []string
	for _, p := range strings.Fields("sh bash cat ls id env grep sleep head tr seq stty touch mkdir perl hostname wc kill true") {
		if _, err := os.Stat("/usr/bin/" + p); err == nil {
			programs = append(programs, "/usr/bin/"+p)
		}
	}
	box := specs.Sandbox{
		Name: "box", Command: []specs.Template{"sh", "-c", "echo own ${session.project.name} ${session.id}"},
		Namespaces: []string{"cgroup", "ipc", "pid", "uts"}, Environment: "safe", OnChange: specs.OnChangeKeep, Grace: 5 * time.Second,
		Limits: specs.Limits{Memory: 256 << 20, CPU: 200, Pids: 64},
		Filesystem: specs.Filesystem{
			Programs: programs, Tmpfs: []specs.Tmpfs{{Path: "/tmp", Size: 8 << 20}},
			Binds: []specs.Bind{{To: "/work", From: "${session.project.directory}", Writable: true}},
		},
	}
	lone := box
	lone.Name, lone.Command, lone.Filesystem.Binds = "lone", nil, nil
	net := box
	net.Name, net.Network = "net", "llm"
	return specs.Set{
		Environments: []specs.Environment{{Name: "safe", Allow: []string{"PATH", "HOME", "USER", "TERM", "LC_*"}, Set: map[string]specs.Template{"WHO": "${session.sandbox}"}}},
		Proxies:      []specs.Proxy{{Name: "llm", Port: 3000}},
		Networks: []specs.Network{{
			Name: "llm", Pool: netip.MustParsePrefix("198.51.100.0/28"), Allow: []string{"llm"},
			Egress: specs.EgressNone, Fallback: specs.FallbackRefuse, Warm: 1,
		}},
		Sandboxes: []specs.Sandbox{box, lone, net},
		Projects:  []specs.Project{{Name: "shop", Directory: s.project, User: testUser, Sandboxes: []string{"box", "net"}}},
	}
}

// plan is what an apply would do.
func (s *stand) plan(set specs.Set) *reconciler.Plan {
	s.t.Helper()
	p, err := s.rec.Plan(context.Background(), set)
	must(s.t, err)
	for _, f := range p.Failures {
		s.t.Fatalf("%s: %v", f.Enforcer, f.Err)
	}
	return p
}

func (s *stand) apply(set specs.Set) {
	s.t.Helper()
	must(s.t, s.rec.Apply(context.Background(), s.plan(set), nil).Err())
}

// settled fails unless the host is as the set without any session has it.
func (s *stand) settled() {
	s.t.Helper()
	if p := s.plan(s.Set); len(p.Changes) > 0 {
		s.t.Errorf("the host is not as before:\n%s", enforcertest.Describe(p.Changes))
	}
}

func in(sandbox string, command ...string) session.Request {
	q := session.Request{Sandbox: sandbox, Project: "shop", Command: command}
	if sandbox == "lone" {
		q.Project = ""
	}
	return q
}

func sh(sandbox, script string) session.Request { return in(sandbox, "sh", "-c", script) }

// command is a stand-in that will run q.
func (s *stand) command(q session.Request) *exec.Cmd {
	s.t.Helper()
	o := s.order
	o.Request = q
	s.write(o)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{orderVar + "=" + s.file, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "TERM=dumb", "LC_ALL=C", "SECRET=hidden-value"}
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "GOCOVERDIR=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	return cmd
}

func (s *stand) write(o order) {
	s.t.Helper()
	b, err := json.Marshal(o)
	must(s.t, err)
	must(s.t, os.WriteFile(s.file, b, 0o600))
}

type result struct {
	out, err string
	code     int
}

func (s *stand) run(q session.Request) result {
	s.t.Helper()
	return s.runWith(q, nil)
}

func (s *stand) runWith(q session.Request, stdin io.Reader) result {
	s.t.Helper()
	cmd := s.command(q)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// until waits for a condition, at most ten seconds.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come about: " + what)
		}
	}
}

// list is the sessions that run.
func (s *stand) list() []session.Status {
	s.t.Helper()
	l, err := session.New(session.Options{RunDir: s.Dir}).List(context.Background(), s.Set)
	must(s.t, err)
	return l
}
