package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/reconciler"
)

// roleVar makes the test binary play a process of a session.
const roleVar = "CORDON_CGROUP_ROLE"

// act plays a role: the test binary is the only program that a minimal host
// is sure to have.
func act(role string) int {
	self := func(role string) *exec.Cmd {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), roleVar+"="+role)
		return c
	}
	switch role {
	case "wait":
		fmt.Println("ready")
		select {}
	case "family": // children in the background that outlive their parents
		for range 3 {
			if err := self("sleep").Start(); err != nil {
				return 1
			}
		}
		fmt.Println("ready")
		select {}
	case "sleep":
		time.Sleep(time.Hour)
	case "bomb": // makes processes as fast as it can, which do the same
		fmt.Println("ready")
		for {
			_ = self("bomb").Start()
		}
	case "hog":
		fmt.Println("ready")
		var keep [][]byte
		for range 4096 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			keep = append(keep, b)
		}
		fmt.Println(len(keep))
	case "group":
		b, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return 1
		}
		fmt.Println("ready\n" + string(b))
	}
	return 0
}

// start runs a role in the session's group and returns what it says after
// "ready".
func start(t testing.TB, e *Enforcer, id, role string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	runtime.LockOSThread()
	leave, err := e.Enter(id, cmd.SysProcAttr)
	if err == nil {
		err = errors.Join(cmd.Start(), leave())
	}
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("%s: %q, %v", role, line, err)
	}
	return cmd
}

func create(t testing.TB, e *Enforcer, id string, g Group) {
	t.Helper()
	g.ID = id
	if err := e.Apply(context.Background(), reconciler.Change{After: g}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Apply(context.Background(), reconciler.Change{Before: g}) })
}

func ownGroups(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const id = "0123abcd"

func TestEnter(t *testing.T) {
	e, hs := host(t)
	create(t, e, id, Group{Memory: 256 << 20, CPU: 100, Pids: 64})
	before := ownGroups(t)
	cmd := start(t, e, id, "wait")
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hs {
		if h.v2 {
			if !strings.Contains(string(b), "0::/"+e.path(id)+"\n") {
				t.Errorf("%s: the process is not in its group:\n%s", h, b)
			}
			continue
		}
		for _, c := range h.controllers {
			if got := ownGroup(string(b), c); got != "/"+e.path(id) {
				t.Errorf("%s: the process is in %s", c, got)
			}
		}
	}
	if after := ownGroups(t); after != before {
		t.Errorf("the test itself moved:\n%s", after)
	}
	got, err := e.Procs(id)
	if err != nil || len(got) != 1 || got[0] != cmd.Process.Pid {
		t.Errorf("processes: %v, %v; want %d", got, err, cmd.Process.Pid)
	}
}

func TestEnterWithoutGroup(t *testing.T) {
	e, _ := host(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := ownGroups(t)
	if _, err := e.Enter(id, &syscall.SysProcAttr{}); err == nil {
		t.Error("joined a group that does not exist")
	}
	if _, err := e.Enter("..", &syscall.SysProcAttr{}); err == nil {
		t.Error("joined a group outside the parent")
	}
	if after := ownGroups(t); after != before {
		t.Errorf("left in other groups:\n%s", after)
	}
}

func TestKill(t *testing.T) {
	for _, role := range []string{"wait", "family", "bomb"} {
		t.Run(role, func(t *testing.T) {
			e, hs := host(t)
			create(t, e, id, Group{Pids: 200})
			cmd := start(t, e, id, role)
			if err := e.Kill(context.Background(), id); err != nil {
				t.Fatal(err)
			}
			if list, err := e.Procs(id); err != nil || len(list) > 0 {
				t.Errorf("still there: %v, %v", list, err)
			}
			_ = cmd.Wait()
			if err := e.Apply(context.Background(), reconciler.Change{Before: Group{ID: id}}); err != nil {
				t.Fatal(err)
			}
			for _, h := range hs {
				if _, err := os.Stat(filepath.Join(h.path, e.path(id))); err == nil {
					t.Errorf("%s: the group is still there", h)
				}
			}
		})
	}
}

// Whoever waits for processes that don't go can be interrupted.
func TestInterruptEndsTheWait(t *testing.T) {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), roleVar+"=sleep")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }() // until then its pid is nobody else's
	defer func() { _ = child.Process.Kill() }()
	h := hierarchy{path: t.TempDir()}
	busy := filepath.Join(h.path, "busy") // always lists the child
	if err := os.Mkdir(busy, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(busy, "cgroup.procs"), []byte(strconv.Itoa(child.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	kerneltest.Host(t)
	mounted := t.TempDir() // which makes it as busy as a group
	if err := unix.Mount("none", mounted, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
	for name, wait := range map[string]func(context.Context) error{
		"kill":   func(ctx context.Context) error { return killEach(ctx, []hierarchy{h}, "busy") },
		"remove": func(ctx context.Context) error { return removeTree(ctx, mounted) },
	} {
		t.Run(name, func(t *testing.T) {
			why := errors.New("interrupted")
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(why)
			if err := wait(ctx); !errors.Is(err, why) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// Where the kernel can't kill a group at once, the processes are killed one by
// one, and a session that forks faster is ended all the same.
func TestKillOneByOne(t *testing.T) {
	e, hs := host(t)
	create(t, e, id, Group{Pids: 500})
	start(t, e, id, "bomb")
	if err := killEach(context.Background(), hs, e.path(id)); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(fmt.Sprintf(file(t, hs, pids, "pids.max", "pids.max"), e.path(id))); err != nil || string(b) != "0\n" {
		t.Errorf("new processes are not held back: %q, %v", b, err)
	}
}

// While a thread of this process is in the group, killing must not reach it.
func TestNeverItself(t *testing.T) {
	e, _ := host(t)
	create(t, e, id, Group{})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	leave, err := e.Enter(id, &syscall.SysProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.Procs(id)
	if err := errors.Join(err, leave()); err != nil {
		t.Fatal(err)
	}
	if len(list) > 0 {
		t.Errorf("%v would be killed; this process is %d", list, os.Getpid())
	}
}

// A process that was moved to a group below, and one that was moved out in
// one hierarchy, end with the session too.
func TestKillNested(t *testing.T) {
	e, hs := host(t)
	create(t, e, id, Group{Pids: 200})
	cmd := start(t, e, id, "wait")
	for _, h := range hs {
		below := filepath.Join(h.path, e.path(id), "below")
		if err := os.Mkdir(below, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(hs) > 1 {
		if err := os.WriteFile(filepath.Join(hs[0].path, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	// Where the kernel has cgroup.kill it finds what is below by itself.
	if list, err := e.Procs(id); err != nil || !slices.Contains(list, cmd.Process.Pid) {
		t.Errorf("found %v and not %d: %v", list, cmd.Process.Pid, err)
	}
	if err := e.Apply(context.Background(), reconciler.Change{Before: Group{ID: id}}); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the process ended with %v", err)
	}
	if got, err := e.Read(context.Background()); err != nil || len(got) > 0 {
		t.Errorf("left: %v, %v", got, err)
	}
}

func TestMemoryLimit(t *testing.T) {
	e, _ := host(t)
	create(t, e, id, Group{Memory: 64 << 20})
	if oom, err := e.OOMKilled(id); err != nil || oom {
		t.Fatalf("killed before it began: %v, %v", oom, err)
	}
	cmd := start(t, e, id, "hog")
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("4 GiB in a group of 64 MiB: %v", err)
	}
	if oom, err := e.OOMKilled(id); err != nil || !oom {
		t.Errorf("the kernel's kill is not seen: %v, %v", oom, err)
	}
}

func TestPidsLimit(t *testing.T) {
	e, _ := host(t)
	create(t, e, id, Group{Pids: 30})
	start(t, e, id, "bomb")
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		list, err := e.Procs(id)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 30 {
			t.Fatalf("%d processes", len(list))
		}
	}
}

// What a session's start and end cost.
func BenchmarkSession(b *testing.B) {
	e, _ := host(b)
	g := Group{ID: id, Memory: 512 << 20, CPU: 80, Pids: 64}
	for b.Loop() {
		if err := e.Apply(context.Background(), reconciler.Change{After: g}); err != nil {
			b.Fatal(err)
		}
		if got, err := e.ReadPart(context.Background(), []reconciler.Addr{g.Addr()}); err != nil || len(got) != 1 {
			b.Fatal(got, err)
		}
		runtime.LockOSThread()
		leave, err := e.Enter(id, &syscall.SysProcAttr{})
		if err != nil {
			b.Fatal(err)
		}
		if err := leave(); err != nil {
			b.Fatal(err)
		}
		runtime.UnlockOSThread()
		if err := e.Apply(context.Background(), reconciler.Change{Before: g}); err != nil {
			b.Fatal(err)
		}
	}
}
