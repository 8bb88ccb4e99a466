package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) != "" {
		os.Exit(act(os.Getenv(roleVar)))
	}
	kerneltest.Main(m)
}

func lease(id string, memory int64, cpu, pids int) specs.Lease {
	return specs.Lease{ID: id, Sandbox: "box", Slot: specs.NoSlot, Limits: specs.Limits{Memory: memory, CPU: cpu, Pids: pids}}
}

func sets() []specs.Set {
	orphan := lease("0000000d", 0, 0, 0)
	orphan.Sandbox = "gone"
	list := []specs.Set{
		{Leases: []specs.Lease{lease("00000001", 512<<20, 80, 64), lease("0000000a", 0, 0, 0), lease("0000000b", 64<<20+1, 1, 1)}},
		{Leases: []specs.Lease{lease("00000001", 256<<20, 100, 32), lease("0000000c", 0, 250, 0)}},
		{Leases: []specs.Lease{lease("00000001", 1<<30, 0, 128), lease("0000000a", 64<<20, 33, 0), orphan}},
	}
	for i := range list {
		list[i].Sandboxes = []specs.Sandbox{{Name: "box"}}
	}
	return list
}

func TestUndeclaredSandbox(t *testing.T) {
	got, err := New(Options{}).Desired(sets()[2])
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Errorf("groups for sessions of no sandbox: %v", got)
	}
}

func v1() []hierarchy {
	return []hierarchy{{path: "/cg/memory", controllers: []string{memory}}, {path: "/cg/cpu", controllers: []string{cpu}}, {path: "/cg/pids", controllers: []string{pids}}}
}

func v2() hierarchy {
	return hierarchy{path: "/cg", v2: true, controllers: []string{cpu, memory, pids}}
}

func TestSuiteOnFake(t *testing.T) {
	for name, hs := range map[string][]hierarchy{
		"v1": v1(), "v2": {v2()}, "hybrid": append(v1(), hierarchy{path: "/cg/unified", v2: true}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(hs...)
			group := DefaultParent + "/00000001"
			edit := func(controller string, do func(*limits)) func(t *testing.T) {
				return func(t *testing.T) {
					for _, h := range hs {
						if h.has(controller) {
							l := f.state[h.path][group]
							do(&l)
							f.state[h.path][group] = l
						}
					}
				}
			}
			enforcertest.Run(t, enforcertest.Harness{
				Name: Name,
				New:  func(t *testing.T) reconciler.Enforcer { return newEnforcer(Options{}, f) },
				Sets: sets(),
				Foreign: func(t *testing.T) func(t *testing.T) {
					f.state[hs[0].path]["cordon/not-a-session"] = limits{}
					t.Cleanup(func() { delete(f.state[hs[0].path], "cordon/not-a-session") })
					return func(t *testing.T) {
						if !strings.Contains(f.String(), "/cordon/not-a-session/memory.max:0\n") {
							t.Errorf("the foreign group changed:\n%s", f)
						}
					}
				},
				Damage: []enforcertest.Damage{
					{Name: "memory raised", Do: edit(memory, func(l *limits) { l.memory *= 2 })},
					{Name: "swap opened", Do: edit(memory, func(l *limits) { l.swap = unlimited })},
					{Name: "some swap", Do: edit(memory, func(l *limits) { l.swap = 4096 })},
					{Name: "cpu raised", Do: edit(cpu, func(l *limits) { l.quota++ })},
					{Name: "pids raised", Do: edit(pids, func(l *limits) { l.pids = unlimited })},
					{Name: "pids closed", Do: edit(pids, func(l *limits) { l.pids = 0 })},
					{Name: "removed in one hierarchy", Do: func(t *testing.T) { delete(f.state[hs[0].path], group) }},
				},
			})
		})
	}
}

func TestFailsClosed(t *testing.T) {
	set := specs.Set{Sandboxes: sets()[0].Sandboxes, Leases: []specs.Lease{lease("00000001", 512<<20, 80, 64)}}
	for name, hs := range map[string][]hierarchy{
		"no hierarchy": nil,
		"no memory":    v1()[1:],
		"no pids":      v1()[:2],
		"no cpu":       {{path: "/cg", v2: true, controllers: []string{memory, pids}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(hs...)
			e := newEnforcer(Options{}, f)
			want, err := e.Desired(set)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Apply(context.Background(), reconciler.Change{After: want[0]}); err == nil {
				t.Error("a limit without a controller was accepted")
			}
			if f.String() != "" {
				t.Errorf("a group was made:\n%s", f)
			}
			failed := false
			for _, finding := range e.Examine(context.Background()) {
				failed = failed || finding.Status == reconciler.Fail && finding.Remedy != ""
			}
			if !failed {
				t.Error("Examine finds nothing wrong")
			}
		})
	}
}

// Without swap on the host, a kernel that doesn't account for it is no hole.
func TestNoSwapAccounting(t *testing.T) {
	if swapInUse() {
		kerneltest.Missing(t, "a host without swap")
	}
	f := newFake(v2())
	f.noSwap = true
	enforcertest.Run(t, enforcertest.Harness{
		Name: Name, New: func(t *testing.T) reconciler.Enforcer { return newEnforcer(Options{}, f) }, Sets: sets(), Steps: 5,
	})
}

func TestParseMounts(t *testing.T) {
	const info = `23 27 0:22 / /sys rw - sysfs sysfs rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:7 master:3 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/mem\040ory rw - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
42 31 0:32 /part /mnt/memory rw - cgroup cgroup rw,memory
`
	none := func(string) ([]string, error) { return nil, nil }
	got, err := parseMounts(strings.NewReader(info), none)
	if err != nil {
		t.Fatal(err)
	}
	want := []hierarchy{
		{path: "/sys/fs/cgroup/cpu,cpuacct", controllers: []string{cpu}},
		{path: "/sys/fs/cgroup/mem ory", controllers: []string{memory}},
		{path: "/sys/fs/cgroup/unified", v2: true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(hierarchy{})); diff != "" {
		t.Error(diff)
	}
	if _, err := parseMounts(strings.NewReader("1 2 3\n"), none); err == nil {
		t.Error("half a line was read as a mount")
	}
	// With all that there can be, what follows is not read: no line could be.
	const first = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	all := func(string) ([]string, error) { return []string{"cpuset", "cpu", "io", "memory", "pids"}, nil }
	got, err = parseMounts(strings.NewReader(first+"1 2 3\n"), all)
	want = []hierarchy{{path: "/sys/fs/cgroup", v2: true, controllers: []string{cpu, memory, pids}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(hierarchy{})); err != nil || diff != "" {
		t.Error(err, diff)
	}
	some := func(string) ([]string, error) { return []string{"cpu", "memory"}, nil }
	if _, err = parseMounts(strings.NewReader(first+"1 2 3\n"), some); err == nil {
		t.Error("a controller that may follow was not looked for")
	}
}

func TestOwnGroup(t *testing.T) {
	const text = "4:cpu,cpuacct:/a/b:c\n3:memory:/m\n0::/u\n"
	for controller, want := range map[string]string{"cpu": "/a/b:c", "memory": "/m", "pids": "/"} {
		if got := ownGroup(text, controller); got != want {
			t.Errorf("%s: %q, want %q", controller, got, want)
		}
	}
}

func TestWholePages(t *testing.T) {
	page := int64(os.Getpagesize())
	for in, want := range map[int64]int64{0: 0, 1: page, page: page, page + 1: page, 3*page - 1: 2 * page} {
		if got := wholePages(in); got != want {
			t.Errorf("%d: %d, want %d", in, got, want)
		}
	}
}

// host returns an enforcer on the real kernel, under a parent of the test's.
func host(t testing.TB) (*Enforcer, []hierarchy) {
	t.Helper()
	kerneltest.Host(t)
	e := New(Options{Parent: kerneltest.CgroupParent(t)})
	hs, err := e.kernel.hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	if len(hs) == 0 {
		kerneltest.Missing(t, "a cgroup hierarchy")
	}
	for _, c := range []string{memory, cpu, pids} {
		if !controlled(hs, c) {
			kerneltest.Missing(t, "the cgroup controller "+c)
		}
	}
	return e, hs
}

// file is where a test changes a limit by hand.
func file(t *testing.T, hs []hierarchy, controller, v1, v2 string) string {
	t.Helper()
	for _, h := range hs {
		switch {
		case h.has(controller) && h.v2:
			return filepath.Join(h.path, "%s", v2)
		case h.has(controller):
			return filepath.Join(h.path, "%s", v1)
		}
	}
	t.Fatalf("no %s", controller)
	return ""
}

func TestSuiteOnKernel(t *testing.T) {
	e, hs := host(t)
	group := e.path("00000001")
	write := func(controller, v1, v2, value string) func(t *testing.T) {
		return func(t *testing.T) {
			name := fmt.Sprintf(file(t, hs, controller, v1, v2), group)
			if err := os.WriteFile(name, []byte(value), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	damage := []enforcertest.Damage{
		{Name: "memory lowered", Do: write(memory, "memory.limit_in_bytes", "memory.max", "67108864")},
		{Name: "cpu raised", Do: write(cpu, "cpu.cfs_quota_us", "cpu.max", "99999")},
		{Name: "cpu opened", Do: write(cpu, "cpu.cfs_quota_us", "cpu.max", map[bool]string{true: "max", false: "-1"}[hs[0].v2 && len(hs) == 1])},
		{Name: "pids raised", Do: write(pids, "pids.max", "pids.max", "max")},
		{Name: "removed everywhere", Do: func(t *testing.T) {
			if err := e.kernel.remove(context.Background(), hs, group); err != nil {
				t.Fatal(err)
			}
		}},
	}
	if swap := fmt.Sprintf(file(t, hs, memory, "memory.memsw.limit_in_bytes", "memory.swap.max"), ""); swapAccountedForTests(hs) {
		t.Log("swap is accounted for in " + swap)
		damage = append(damage, enforcertest.Damage{Name: "swap opened", Do: write(memory, "memory.memsw.limit_in_bytes", "memory.swap.max", map[bool]string{true: "max", false: "1073741824"}[hs[0].v2 && len(hs) == 1])})
	}
	if len(hs) > 1 {
		damage = append(damage, enforcertest.Damage{Name: "removed in one hierarchy", Do: func(t *testing.T) {
			if err := os.Remove(filepath.Join(hs[0].path, group)); err != nil {
				t.Fatal(err)
			}
		}})
	}
	enforcertest.Run(t, enforcertest.Harness{
		Name: Name, New: func(t *testing.T) reconciler.Enforcer { return New(Options{Parent: e.parent}) },
		Sets: sets(), Damage: damage, Foreign: foreign(e, hs),
	})
	for _, h := range hs {
		if _, err := os.Stat(filepath.Join(h.path, e.parent)); err == nil {
			t.Errorf("%s: the empty parent was left behind", h)
		}
	}
}

// Who is killed before it has made a session's group leaves the parent, which is
// in the plan and goes, unless there is something in it.
func TestEmptyParent(t *testing.T) {
	e, hs := host(t)
	first := filepath.Join(hs[0].path, e.parent)
	other := filepath.Join(first, "mine")
	for _, dir := range []string{first, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	read := func() []reconciler.Resource {
		t.Helper()
		live, err := e.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return live
	}
	if live := read(); len(live) > 0 {
		t.Errorf("with another's group in it: %v", live)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	process := exec.Command("sleep", "1000")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filepath.Join(first, "cgroup.procs"), []byte(strconv.Itoa(process.Process.Pid)), 0)
	busy := read()
	_ = process.Process.Kill()
	_ = process.Wait()
	if err != nil || len(busy) > 0 {
		t.Errorf("with a process in it: %v, %v", busy, err)
	}
	left := Parent{Hierarchies: []string{hs[0].String()}}
	if diff := cmp.Diff([]reconciler.Resource{left}, read()); diff != "" {
		t.Fatal(diff)
	}
	if err := e.kernel.create(hs[0], e.path("00000001")); err != nil { // by a session that has come since
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		err := e.Apply(context.Background(), reconciler.Change{Before: left})
		if _, missing := os.Stat(first); err != nil || want != (missing == nil) {
			t.Errorf("the parent stands: %v, want %v: %v", !want, want, err)
		}
		_ = os.Remove(filepath.Join(hs[0].path, e.path("00000001")))
	}
	if live := read(); len(live) > 0 {
		t.Errorf("when it is gone: %v", live)
	}
}

func swapAccountedForTests(hs []hierarchy) bool {
	for _, h := range hs {
		if h.has(memory) && !h.v2 {
			return swapAccounted(h)
		}
		if h.has(memory) {
			_, err := os.ReadFile("/proc/swaps") // v2 accounts for swap wherever the kernel has any (CONFIG_SWAP)
			return err == nil
		}
	}
	return false
}

// foreign makes groups that are named like cordon's in other places, and like
// others' in cordon's.
func foreign(e *Enforcer, hs []hierarchy) func(t *testing.T) func(t *testing.T) {
	return func(t *testing.T) func(t *testing.T) {
		beside := kerneltest.CgroupParent(t)
		dirs := []string{filepath.Join(beside, "00000001"), filepath.Join(e.parent, "0000000A"), filepath.Join(e.parent, "mine")}
		for _, h := range hs {
			for _, d := range dirs {
				if err := os.MkdirAll(filepath.Join(h.path, d), 0o755); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.Remove(filepath.Join(h.path, d)) })
			}
		}
		return func(t *testing.T) {
			for _, h := range hs {
				for _, d := range dirs {
					if _, err := os.Stat(filepath.Join(h.path, d)); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}

// A record has no type: a plan of records is shown, never applied.
func TestApplyRefusesRecords(t *testing.T) {
	f := newFake(hierarchy{path: "/v2", v2: true})
	e := newEnforcer(Options{}, f)
	for _, r := range []Group{{ID: "00000001"}} {
		rec, err := reconciler.Record(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []reconciler.Change{{After: rec}, {Before: rec, After: rec}} {
			if err := e.Apply(context.Background(), c); err == nil || !strings.Contains(err.Error(), "Recorded") {
				t.Errorf("%s %s: %v", c.Action(), c.Addr(), err)
			}
		}
	}
	if f.String() != "" {
		t.Errorf("made: %s", f)
	}
}

// What is no session's address is of nothing.
func TestReadPartOfOtherAddresses(t *testing.T) {
	f := newFake(hierarchy{path: "/v2", v2: true})
	e := newEnforcer(Options{}, f)
	if err := e.Apply(context.Background(), reconciler.Change{After: Group{ID: "00000001"}}); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[reconciler.Addr]int{"cgroup.00000001": 1, "cgroup.00000002": 0, "cgroup": 0, "": 0, "c": 0, "x.00000001": 0, "cgroup.00000001.x": 0} {
		if part, err := e.ReadPart(context.Background(), []reconciler.Addr{addr}); err != nil || len(part) != want {
			t.Errorf("%q: %v, %v", addr, part, err)
		}
	}
}

func TestBelow(t *testing.T) {
	for text, want := range map[string]bool{
		"0::/cordon/0123abcd\n":                            true,
		"4:memory:/cordon/0123abcd\n0::/\n":                true,
		"0::/user.slice\n3:pids:/cordon/0123abcd/deeper\n": true,
		"0::/../../cordon/0123abcd\n":                      true, // seen from a cgroup namespace
		"0::/lxc/cordon/cordon/0123abcd\n":                 true,
		"0::/cordon/cordon/0123abcd\n":                     true,
		"0::/system.slice/cordon.service\n":                false,
		"0::/cordon\n":                                     false,
		"0::/cordon/else\n":                                false,
		"0::/cordon-2/0123abcd\n":                          false,
		"0::/my/cordon.0123abcd\n":                         false,
		"":                                                 false,
	} {
		if got := below(text, "cordon"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
