package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

func sets() []specs.Set {
	boxes := []specs.Sandbox{{Name: "a", Seccomp: "strict"}, {Name: "b", OnChange: specs.OnChangeRestart}}
	lease := func(id, box, project, network string, slot int) specs.Lease {
		return specs.Lease{ID: id, Sandbox: box, Project: project, User: "u-" + project, Network: network, Slot: slot, Digest: "d-" + id}
	}
	return []specs.Set{
		{Sandboxes: boxes, Leases: []specs.Lease{lease("00000001", "a", "p", "n", 0), lease("0000000a", "b", "", "", specs.NoSlot)}},
		{Sandboxes: boxes, Leases: []specs.Lease{lease("00000001", "a", "q", "n", 7), lease("0000000b", "a", "p", "m", 1)}},
		{Sandboxes: boxes, Leases: []specs.Lease{lease("00000001", "gone", "p", "n", 0), lease("0000000b", "b", "", "", specs.NoSlot)}},
	}
}

func TestSuiteOnFake(t *testing.T) {
	f := newFake()
	enforcertest.Run(t, enforcertest.Harness{
		Name: Name, Sets: sets(),
		New: func(t *testing.T) reconciler.Enforcer {
			return &Enforcer{kernel: f, log: slog.New(slog.DiscardHandler)}
		},
		Damage: []enforcertest.Damage{
			{Name: "record changed", Do: func(t *testing.T) {
				e := f.entries["00000001"]
				e.Slot = 3
				f.entries["00000001"] = e
			}},
			{Name: "record broken", Do: func(t *testing.T) {
				f.entries["00000001"] = entry{record: record{Lease: specs.Lease{ID: "00000001"}}, broken: errors.New("not JSON")}
			}},
			{Name: "record removed", Do: func(t *testing.T) { delete(f.entries, "00000001") }},
		},
	})
	if f.String() != "" || len(f.ended) > 0 {
		t.Errorf("left: %s, ended: %v", f, f.ended)
	}
}

func TestSuiteOnRunDirectory(t *testing.T) {
	dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
	file := filepath.Join(dir.Session("00000001"), leaseFile)
	enforcertest.Run(t, enforcertest.Harness{
		Name: Name, Sets: sets(),
		New: func(t *testing.T) reconciler.Enforcer { return New(Options{RunDir: dir}) },
		Foreign: func(t *testing.T) func(t *testing.T) {
			base := filepath.Dir(dir.Session("x"))
			for _, n := range []string{"0000000A", "mine", ".new-", ".new-x1", "new-1"} {
				must(t, os.MkdirAll(filepath.Join(base, n), 0o700))
				t.Cleanup(func() { must(t, os.Remove(filepath.Join(base, n))) })
			}
			must(t, os.WriteFile(filepath.Join(base, "0000000f"), nil, 0o600))
			t.Cleanup(func() { must(t, os.Remove(filepath.Join(base, "0000000f"))) })
			return func(t *testing.T) {
				names, err := os.ReadDir(base)
				must(t, err)
				var got []string
				for _, n := range names {
					got = append(got, n.Name())
				}
				for _, n := range []string{"0000000A", "mine", ".new-", ".new-x1", "new-1", "0000000f"} {
					if !slices.Contains(got, n) {
						t.Errorf("%s is gone: %v", n, got)
					}
				}
			}
		},
		Damage: []enforcertest.Damage{
			{Name: "lease cut short", Do: func(t *testing.T) { must(t, os.Truncate(file, 20)) }},
			{Name: "lease removed", Do: func(t *testing.T) { must(t, os.Remove(file)) }},
			{Name: "lease of another", Do: func(t *testing.T) {
				must(t, os.WriteFile(file, []byte(`{"id":"0000000a","sandbox":"a","user":"root","slot":0}`), 0o600))
			}},
			{Name: "directory removed", Do: func(t *testing.T) { must(t, os.RemoveAll(filepath.Dir(file))) }},
		},
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNeeds(t *testing.T) {
	got, err := (&Enforcer{kernel: newFake()}).Desired(sets()[0])
	must(t, err)
	want := [][]reconciler.Addr{
		{"root.a", "seccomp.strict", "cgroup.00000001", "network.member.n.0"},
		{"root.b", `seccomp."container.base"`, "cgroup.0000000a"},
	}
	for i := range want {
		if diff := cmp.Diff(want[i], got[i].Needs()); diff != "" {
			t.Error(diff)
		}
	}
}

// Only what a living process holds is a lease.
func TestSurvey(t *testing.T) {
	dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
	e := New(Options{RunDir: dir})
	must(t, e.kernel.write(record{Lease: specs.Lease{ID: "00000001", Sandbox: "dead"}}))
	live := record{Lease: specs.Lease{ID: "00000002", Sandbox: "live", Slot: specs.NoSlot}}
	lock, err := linux{dir: dir}.sessions().write(live, true)
	must(t, err)
	survey := func() (specs.Set, error) { return e.Survey(context.Background(), specs.Set{}) }
	set, err := survey()
	must(t, err)
	if diff := cmp.Diff([]specs.Lease{live.Lease}, set.Leases); diff != "" {
		t.Error(diff)
	}
	must(t, os.Truncate(filepath.Join(dir.Session("00000002"), leaseFile), 3))
	if set, err := survey(); err == nil {
		t.Errorf("a session that runs and can't be read was left out: %v", set.Leases)
	}
	must(t, lock.Close())
	if set, err = survey(); err != nil || len(set.Leases) > 0 {
		t.Errorf("a dead session: %v, %v", set.Leases, err)
	}
}

// A session that begins while somebody plans is not ended for being unknown.
func TestBegunSinceTheSurvey(t *testing.T) {
	f := newFake()
	e := &Enforcer{kernel: f}
	begin := func(id string, held bool) {
		f.entries[id] = entry{record: record{Lease: specs.Lease{ID: id, Sandbox: "a", Slot: specs.NoSlot}}, held: held}
	}
	read := func() (ids string) {
		t.Helper()
		list, err := e.Read(t.Context())
		must(t, err)
		for _, r := range list {
			ids += " " + r.(Session).ID
		}
		return ids
	}
	begin("00000001", true)
	if got := read(); got != " 00000001" {
		t.Errorf("without a survey: %s", got)
	}
	_, err := e.Survey(t.Context(), specs.Set{})
	must(t, err)
	begin("00000002", true)
	begin("00000003", false) // left by one that died
	if got := read(); got != " 00000001" {
		t.Errorf("read %s, which Survey did not find", got)
	}
	if got := read(); got != " 00000001 00000003" {
		t.Errorf("read %s", got)
	}
	_, err = e.Survey(t.Context(), specs.Set{})
	must(t, err)
	if got := read(); got != " 00000001 00000002 00000003" {
		t.Errorf("read %s", got)
	}
}

// Half-made sessions are in the plan, and go, when nobody makes them any more,
// wherever the process was killed that did.
func TestSweep(t *testing.T) {
	dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
	base := filepath.Dir(dir.Session("x"))
	must(t, os.MkdirAll(filepath.Join(base, ".new-1"), 0o700)) // at once
	for n, files := range map[string][]string{".new-22": {lockFile}, ".new-333": {lockFile, leaseFile}, ".new-4": {leaseFile}} {
		must(t, os.MkdirAll(filepath.Join(base, n), 0o700))
		for _, f := range files {
			must(t, os.WriteFile(filepath.Join(base, n, f), nil, 0o600))
		}
	}
	all, err := os.OpenFile(filepath.Join(base, making), os.O_RDWR|os.O_CREATE, 0o600) // as who makes a session
	must(t, err)
	must(t, flock(all, unix.LOCK_EX))
	must(t, os.WriteFile(filepath.Join(base, ".new-6"), nil, 0o600)) // no directory
	must(t, os.Symlink(t.TempDir(), filepath.Join(base, ".new-7")))
	names := func(sweeps bool) string {
		t.Helper()
		changes := apply(t, New(Options{RunDir: dir}), specs.Set{})
		if swept := len(changes) > 0; swept != sweeps {
			t.Errorf("the plan was %s", enforcertest.Describe(changes))
		}
		found, err := filepath.Glob(filepath.Join(base, ".new-*"))
		must(t, err)
		var out []string
		for _, f := range found {
			out = append(out, filepath.Base(f))
		}
		return strings.Join(out, " ")
	}
	if got := names(false); got != ".new-1 .new-22 .new-333 .new-4 .new-6 .new-7" {
		t.Errorf("left while another makes a session: %s", got)
	}
	must(t, all.Close())
	if got := names(true); got != ".new-6 .new-7" {
		t.Errorf("left: %s", got)
	}
	names(false)
}

// What others than root may lock holds nobody up.
func TestLockOfOthers(t *testing.T) {
	l := linux{dir: rundir.Dir(filepath.Join(t.TempDir(), "run"))}
	dir, err := l.make()
	must(t, err)
	open, err := os.Open(string(dir)) // as anybody may
	must(t, err)
	defer open.Close()
	must(t, flock(open, unix.LOCK_EX))
	made := make(chan error)
	go func() {
		lock, err := dir.write(record{Lease: specs.Lease{ID: "00000001"}}, true)
		made <- errors.Join(err, lock.Close())
	}()
	select {
	case err := <-made:
		must(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("a session waits for who has locked the directory")
	}
	files, err := os.ReadDir(string(dir))
	must(t, err)
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: others can open it: %v, %v", f.Name(), info, err)
		}
	}
}

// A session that is being made while others sweep is made all the same.
func TestSweepWhileMaking(t *testing.T) {
	dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
	l := linux{dir: dir}
	_, err := l.make()
	must(t, err)
	done := make(chan struct{})
	swept := make(chan error)
	go func() {
		var err error
		for {
			select {
			case <-done:
				swept <- err
				return
			default:
				err = errors.Join(err, l.sweep())
			}
		}
	}()
	for i := range 300 {
		id := fmt.Sprintf("%08x", i)
		lock, err := l.sessions().write(record{Lease: specs.Lease{ID: id, Sandbox: "a"}}, true)
		must(t, err)
		e, ok, err := l.get(id)
		must(t, err)
		if !ok || !e.held || e.broken != nil {
			t.Errorf("%s: %+v", id, e)
		}
		must(t, lock.Close())
	}
	close(done)
	must(t, <-swept)
}

func apply(t *testing.T, e *Enforcer, set specs.Set) []reconciler.Change {
	t.Helper()
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
	p, err := r.Plan(context.Background(), set)
	must(t, err)
	must(t, r.Apply(context.Background(), p, nil).Err())
	return p.Changes
}

func TestChangedProfile(t *testing.T) {
	for onChange, want := range map[string][]string{specs.OnChangeKeep: nil, specs.OnChangeRestart: {"00000001 again"}} {
		t.Run(onChange, func(t *testing.T) {
			set := specs.Set{Sandboxes: []specs.Sandbox{{Name: "a", OnChange: onChange}}}
			f := newFake()
			f.digest = set.SandboxDigest("a")
			f.entries["00000001"] = entry{held: true, record: record{Lease: specs.Lease{ID: "00000001", Sandbox: "a", Digest: "older", Slot: specs.NoSlot}}}
			e := &Enforcer{kernel: f, log: slog.New(slog.DiscardHandler)}
			surveyed, err := e.Survey(context.Background(), set)
			must(t, err)
			if notes := e.Notes(surveyed); (len(notes) == 1) != (onChange == specs.OnChangeKeep) {
				t.Errorf("notes: %v", notes)
			}
			apply(t, e, set)
			if diff := cmp.Diff(want, f.ended); diff != "" {
				t.Error(diff)
			}
			if again := apply(t, e, set); len(again) > 0 {
				t.Errorf("not settled: %s", enforcertest.Describe(again))
			}
		})
	}
}

func TestUndeclaredSandboxEnds(t *testing.T) {
	for name, deaf := range map[string]bool{"asked": false, "deaf": true} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.deaf = deaf
			f.entries["00000001"] = entry{held: true, record: record{Lease: specs.Lease{ID: "00000001", Sandbox: "gone"}}}
			apply(t, &Enforcer{kernel: f, log: slog.New(slog.DiscardHandler)}, specs.Set{})
			if f.String() != "" || len(f.ended) == 0 && !deaf {
				t.Errorf("it is still there: %s", f)
			}
		})
	}
}

func TestEnviron(t *testing.T) {
	env := &specs.Environment{Allow: []string{"PATH", "LC_*", "HOME", "PWD", "NO"}, Set: map[string]specs.Template{"P": "is ${session.project.name}", "PATH": "/set"}}
	caller := []string{"PATH=/caller", "LC_ALL=C", "LC_=x", "LCX=no", "HOME=/root", "USER=root", "PWD=/here", "NOT=no", "SECRET=s", "=odd", "alone"}
	got, err := environ(env, caller, nil, map[string]string{"session.project.name": "shop"}, account{name: "u"})
	must(t, err)
	if diff := cmp.Diff([]string{"HOME=/home/u", "LC_=x", "LC_ALL=C", "P=is shop", "PATH=/set"}, got); diff != "" {
		t.Error(diff)
	}
	if got, err := environ(nil, caller, nil, nil, account{}); err != nil || len(got) > 0 {
		t.Errorf("without a block: %v, %v", got, err)
	}
	if _, err := environ(env, caller, nil, nil, account{}); err == nil {
		t.Error("a name that is not known was accepted")
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		a    string
		want bool
	}{{"0.8.0", true}, {"0.12.0", false}, {"0.11.9", true}, {"1.0", false}, {"0.12", true}, {"odd", true}} {
		if less(c.a, fixedIn) != c.want {
			t.Errorf("%s: %v", c.a, !c.want)
		}
	}
}

func TestSignalHolderPinsTheRightProcess(t *testing.T) {
	dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
	// Our own pid, which does not hold the lease: a signal would end the test.
	r := record{Lease: specs.Lease{ID: "00000001", PID: os.Getpid()}}
	must(t, linux{dir: dir}.write(r))
	must(t, signalHolder(entry{record: r}, unix.SIGKILL))
	if err := signalHolder(entry{}, unix.SIGTERM); err == nil || !strings.Contains(err.Error(), "no process") {
		t.Errorf("a lease without a process: %v", err)
	}
}

// Who waits for another's allocation can be interrupted.
func TestInterruptEndsTheWaitForTheAllocation(t *testing.T) {
	r := &Runner{RunDir: rundir.Dir(filepath.Join(t.TempDir(), "run"))}
	unlock, err := r.allocation(context.Background(), unix.LOCK_SH)
	must(t, err)
	sig := &signals{got: make(chan os.Signal, 1)}
	ctx, stop := sig.interrupts(context.Background())
	defer stop()
	sig.got <- unix.SIGINT
	s := &running{Runner: r, id: "00000001"}
	var stopped *stoppedError
	if _, err := s.allocate(ctx, &plan{}); !errors.As(err, &stopped) || stopped.signal != unix.SIGINT {
		t.Errorf("the wait ended with %v", err)
	}
	unlock()
	if unlock, err = r.allocation(context.Background(), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// A record has no type: a plan of records is shown, never applied.
func TestApplyRefusesRecords(t *testing.T) {
	f := newFake()
	e := &Enforcer{kernel: f, log: slog.New(slog.DiscardHandler)}
	for _, r := range []Session{{ID: "00000001", Sandbox: "a"}} {
		rec, err := reconciler.Record(r)
		must(t, err)
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
