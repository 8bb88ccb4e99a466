package watch

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/rundir"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

// patience is how long something may take that must happen.
const patience = 20 * time.Second

// watched is a watcher that runs.
type watched struct {
	t    *testing.T
	w    Watcher
	woke chan []string
	calm time.Duration
}

// watching starts w, of which a step shows what it wakes within calm, and waits until it watches.
func watching(t *testing.T, w Watcher, calm time.Duration) *watched {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	out := &watched{t: t, w: w, woke: make(chan []string, 1000), calm: calm}
	ended := make(chan error, 1)
	go func() {
		ended <- w.Run(ctx, func(parts ...string) { out.woke <- slices.Clone(parts) })
	}()
	t.Cleanup(func() {
		why := errors.New("the test is over")
		cancel(why)
		select {
		case err := <-ended:
			if !errors.Is(err, why) {
				t.Errorf("%s ended with %v", w.Name(), err)
			}
		case <-time.After(patience):
			t.Errorf("%s does not end with its context", w.Name())
		}
	})
	out.all()
	out.quiet()
	return out
}

// all waits for a wake of all parts at once.
func (w *watched) all() {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case parts := <-w.woke:
			if len(parts) == len(w.w.Parts()) {
				return
			}
		case <-deadline:
			w.t.Fatal("not all were woken")
		}
	}
}

// wakes waits for a wake of the part, which must be one that w says it wakes.
func (w *watched) wakes(part string) {
	w.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case parts := <-w.woke:
			for _, p := range parts {
				if !slices.Contains(w.w.Parts(), p) {
					w.t.Errorf("%s is not among its parts", p)
				}
			}
			if slices.Contains(parts, part) {
				return
			}
		case <-deadline:
			w.t.Fatalf("%s was not woken", part)
		}
	}
}

// quiet takes the wakes that are on their way.
func (w *watched) quiet() (woken []string) {
	for {
		select {
		case parts := <-w.woke:
			woken = append(woken, parts...)
		case <-time.After(w.calm):
			return woken
		}
	}
}

// step is something done to the host, and whom it must wake.
type step struct {
	name string
	part string // "" must wake nobody
	do   func()
}

func (w *watched) steps(list []step) {
	w.t.Helper()
	for _, s := range list {
		w.t.Run(s.name, func(t *testing.T) {
			at := *w
			at.t = t
			s.do()
			if s.part != "" {
				at.wakes(s.part)
			}
			if woken := at.quiet(); s.part == "" && len(woken) > 0 {
				t.Errorf("woke %v", woken)
			}
		})
	}
}

// Whoever stops watching leaves neither descriptors nor goroutines.
func TestNothingIsLeft(t *testing.T) {
	kerneltest.Host(t)
	dir := newDir(t)
	lease(t, dir, "00000001")
	list := append(Host(Options{RunDir: dir, CgroupParent: kerneltest.CgroupParent(t)}), Projects{})
	files, routines := open(t), runtime.NumGoroutine()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		began, ended := make(chan struct{}), make(chan error)
		for _, w := range list {
			go func() {
				once := sync.OnceFunc(func() { began <- struct{}{} })
				ended <- w.Run(ctx, func(...string) { once() })
			}()
		}
		for range list {
			<-began
		}
		cancel()
		for range list {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	}
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > routines; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, there were %d", runtime.NumGoroutine(), routines)
		}
	}
	// One may be the epoll instance of Go's runtime.
	if n := open(t); n > files+2 {
		t.Errorf("%d descriptors, there were %d", n, files)
	}
}

func open(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func sh(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("bash", "-euc", script)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// doing is a step's do that runs a script.
func doing(t *testing.T, script string) func() { return func() { sh(t, script) } }

func newDir(t *testing.T) rundir.Dir {
	dir := rundir.Dir(filepath.Join(t.TempDir(), "cordon"))
	for _, below := range []string{"seccomp", "roots", "netns", "sessions"} {
		if _, err := dir.Make(below); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func in(dir rundir.Dir, script string) string {
	return strings.ReplaceAll(script, "RUN", string(dir))
}
