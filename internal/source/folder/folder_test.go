package folder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/source"
)

// fast is short where that can't hide a mistake; Rescan is so long that what
// is seen is seen by events.
func fast() Timing {
	return Timing{Quiet: 20 * time.Millisecond, AtLast: time.Second, Rescan: time.Hour, Poll: 20 * time.Millisecond}
}

const patience = 20 * time.Second

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func follow(t *testing.T, dir string) *Source {
	t.Helper()
	s, err := New(Options{Dir: dir, StateDir: t.TempDir(), Timing: fast()})
	must(t, err)
	start(t, s)
	for deadline := time.Now().Add(patience); s.Status().How == "not followed yet"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not followed")
		}
	}
	return s
}

func start(t *testing.T, s *Source) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Follow(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// until fetches at each wake until the texts are as wanted, "" for an error.
func until(t *testing.T, s *Source, want string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case <-s.Wake():
		case <-deadline:
			t.Fatalf("was not woken for %q; it has %q", want, texts(t, s))
		}
		if texts(t, s) == want {
			return
		}
	}
}

func texts(t *testing.T, s *Source) string {
	r, err := s.Fetch(t.Context())
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, f := range r.Files {
		b.Write(f.Bytes)
	}
	return b.String()
}

func TestChangesWake(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "at", "specs")
	a := filepath.Join(dir, "a.hcl")
	write(t, a, "1")
	s := follow(t, dir)
	until(t, s, "1")
	for _, step := range []struct {
		name, want string
		do         func()
	}{
		{"written in place", "2", func() { write(t, a, "2") }},
		{"a new file", "23", func() { write(t, filepath.Join(dir, "b.hcl"), "3") }},
		{"an editor's rename", "43", func() {
			write(t, filepath.Join(dir, ".a.hcl.swp"), "4")
			must(t, os.Rename(filepath.Join(dir, ".a.hcl.swp"), a))
		}},
		{"written after the rename", "53", func() { write(t, a, "5") }},
		{"a backup by rename", "63", func() {
			must(t, os.Rename(a, filepath.Join(dir, "a.hcl~")))
			write(t, a, "6")
		}},
		{"removed", "6", func() { must(t, os.Remove(filepath.Join(dir, "b.hcl"))) }},
		{"a link to elsewhere", "67", func() {
			write(t, filepath.Join(parent, "elsewhere", "c"), "7")
			must(t, os.Symlink(filepath.Join(parent, "elsewhere", "c"), filepath.Join(dir, "c.hcl")))
		}},
		{"written where the link leads", "68", func() { write(t, filepath.Join(parent, "elsewhere", "c"), "8") }},
		{"the directory is removed", "", func() { must(t, os.RemoveAll(dir)) }},
		{"and made again", "9", func() { write(t, a, "9") }},
		{"its parent is removed", "", func() { must(t, os.RemoveAll(filepath.Dir(dir))) }},
		{"and made again", "10", func() { write(t, a, "10") }},
		{"written in the new one", "11", func() { write(t, a, "11") }},
		{"another takes its place", "12", func() {
			write(t, filepath.Join(parent, "next", "a.hcl"), "12")
			must(t, os.Rename(dir, dir+".old"))
			must(t, os.Rename(filepath.Join(parent, "next"), dir))
		}},
		{"written in that", "13", func() { write(t, a, "13") }},
		{"nothing in it", "", func() { must(t, os.Remove(a)) }},
	} {
		t.Log(step.name)
		step.do()
		until(t, s, step.want)
	}
}

// Kubernetes turns ..data to a new directory; and a release is a link turned.
func TestTurnedLinks(t *testing.T) {
	parent := t.TempDir()
	turn := func(link, to string) {
		t.Helper()
		must(t, os.Symlink(to, link+".tmp"))
		must(t, os.Rename(link+".tmp", link))
	}
	t.Run("within", func(t *testing.T) {
		dir := filepath.Join(parent, "volume")
		write(t, filepath.Join(dir, "..1", "a.hcl"), "1")
		must(t, os.Symlink("..1", filepath.Join(dir, "..data")))
		must(t, os.Symlink("..data/a.hcl", filepath.Join(dir, "a.hcl")))
		s := follow(t, dir)
		until(t, s, "1")
		for i := 2; i < 6; i++ {
			write(t, filepath.Join(dir, fmt.Sprint("..", i), "a.hcl"), fmt.Sprint(i))
			turn(filepath.Join(dir, "..data"), fmt.Sprint("..", i))
			must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprint("..", i-1))))
			until(t, s, fmt.Sprint(i))
		}
	})
	t.Run("above", func(t *testing.T) {
		link := filepath.Join(parent, "current")
		for i := range 4 {
			write(t, filepath.Join(parent, "releases", fmt.Sprint(i), "specs", "a.hcl"), fmt.Sprint(i))
		}
		turn(link, "releases/0")
		s := follow(t, filepath.Join(link, "specs"))
		until(t, s, "0")
		for i := 1; i < 4; i++ {
			turn(link, fmt.Sprint("releases/", i))
			until(t, s, fmt.Sprint(i))
		}
		write(t, filepath.Join(parent, "releases", "3", "specs", "a.hcl"), "new")
		until(t, s, "new")
	})
}

// What leaves the contents as they were wakes nobody; the change after it is
// the first to.
func TestTheSameWakesNobody(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a.hcl")
	write(t, a, "1")
	s := follow(t, dir)
	until(t, s, "1")
	write(t, a, "1")
	write(t, filepath.Join(dir, "notes.txt"), "x")
	write(t, filepath.Join(dir, ".hidden.hcl"), "x")
	must(t, os.Chmod(a, 0o600))
	looked, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	select {
	case <-s.Wake():
		t.Error("woken by nothing")
	case <-looked.Done():
	}
	write(t, a, "2")
	until(t, s, "2")
}

// A burst is one load: Fetch and Wake wait for its end.
func TestFetchWaitsForTheEndOfABurst(t *testing.T) {
	dir := t.TempDir()
	s, err := New(Options{Dir: dir, StateDir: t.TempDir(), Timing: Timing{Quiet: 200 * time.Millisecond, AtLast: patience}})
	must(t, err)
	write(t, filepath.Join(dir, "f0.hcl"), "0")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; i < 10; i++ {
			time.Sleep(20 * time.Millisecond)
			_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.hcl", i)), []byte(fmt.Sprint(i)), 0o644)
		}
	}()
	if got := texts(t, s); got != "0123456789" {
		t.Errorf("got %q, a part of a burst", got)
	}
	<-done
}

func TestFetchGivesUpOnFilesThatNeverRest(t *testing.T) {
	dir := t.TempDir()
	s, err := New(Options{Dir: dir, StateDir: t.TempDir(), Timing: Timing{Quiet: 50 * time.Millisecond, AtLast: 100 * time.Millisecond}})
	must(t, err)
	write(t, filepath.Join(dir, "a.hcl"), "1")
	must(t, os.Chtimes(filepath.Join(dir, "a.hcl"), time.Time{}, time.Now().Add(time.Hour)))
	if got := texts(t, s); got != "1" {
		t.Errorf("a file of tomorrow: got %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	write(t, filepath.Join(dir, "a.hcl"), "2")
	if _, err := s.Fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a fetch that was called off: %v", err)
	}
}

func TestBursts(t *testing.T) {
	timing := Timing{Quiet: 100 * time.Millisecond, AtLast: 2 * time.Second, Rescan: 30 * time.Second}
	for _, tt := range []struct {
		name   string
		events []time.Duration
		within time.Duration
		want   []time.Duration
	}{
		{"one", []time.Duration{0}, 10 * time.Second, []time.Duration{100 * time.Millisecond}},
		{"a burst", []time.Duration{0, 50 * time.Millisecond, 120 * time.Millisecond}, 10 * time.Second, []time.Duration{220 * time.Millisecond}},
		{"two", []time.Duration{0, time.Second}, 10 * time.Second, []time.Duration{100 * time.Millisecond, 1100 * time.Millisecond}},
		{"none", nil, 70 * time.Second, []time.Duration{30 * time.Second, 60 * time.Second}},
		{"one puts the rescan off", []time.Duration{20 * time.Second}, 55 * time.Second, []time.Duration{20100 * time.Millisecond, 50100 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { inBubble(t, timing, tt.events, tt.within, tt.want) })
		})
	}
	t.Run("without end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var events []time.Duration
			for at := time.Duration(0); at < 5*time.Second; at += 30 * time.Millisecond {
				events = append(events, at)
			}
			inBubble(t, timing, events, 4500*time.Millisecond, []time.Duration{2 * time.Second, 4010 * time.Millisecond})
		})
	})
}

func inBubble(t *testing.T, timing Timing, at []time.Duration, within time.Duration, want []time.Duration) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	events := make(chan struct{}, 1)
	go func() {
		for _, a := range at {
			time.Sleep(a - time.Since(start))
			select {
			case events <- struct{}{}:
			default:
			}
		}
	}()
	var got []time.Duration
	bursts(ctx, events, timing, func() { got = append(got, time.Since(start)) })
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("looked at %v, want %v", got, want)
	}
	time.Sleep(time.Hour) // until who sends events has ended
}

// Events beyond what the kernel holds are lost; the last change is seen all
// the same.
func TestOverflow(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.hcl"), "1")
	s, err := New(Options{Dir: dir, StateDir: t.TempDir(), Timing: fast()})
	must(t, err)
	w, err := fsnotify.NewBufferedWatcher(0)
	must(t, err)
	real := w.Errors
	w.Errors = make(chan error, 1)
	s.notify = func() (*fsnotify.Watcher, error) { return w, nil }
	start(t, s)
	until(t, s, "1")
	// The watches are taken away, so that only the overflow can tell.
	for _, d := range w.WatchList() {
		must(t, w.Remove(d))
	}
	write(t, filepath.Join(dir, "a.hcl"), "2")
	w.Errors <- fsnotify.ErrEventOverflow
	until(t, s, "2")
	select {
	case err := <-real:
		t.Error(err)
	default:
	}
}

// Where nothing can be watched it polls, and says why.
func TestPollsWhereNothingCanBeWatched(t *testing.T) {
	for err, want := range map[error]string{
		os.NewSyscallError("inotify_init1", syscall.EMFILE): "max_user_instances",
		syscall.ENOSPC: "max_user_watches",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.hcl"), "1")
		s, e := New(Options{Dir: dir, StateDir: t.TempDir(), Timing: fast()})
		must(t, e)
		s.notify = func() (*fsnotify.Watcher, error) { return nil, err }
		start(t, s)
		until(t, s, "1")
		write(t, filepath.Join(dir, "a.hcl"), "2")
		until(t, s, "2")
		if st := s.Status(); st.How != "polling every 20ms" || !strings.Contains(st.Note, want) {
			t.Errorf("status %+v, want a note on %s", st, want)
		}
	}
}

// The same with the kernel's own limits, which a user namespace has for
// itself.
func TestKernelLimits(t *testing.T) {
	limit := os.Getenv("CORDON_TEST_LIMIT")
	if limit == "" {
		kerneltest.Host(t)
		for _, limit := range []string{"max_inotify_instances", "max_inotify_watches"} {
			t.Run(limit, func(t *testing.T) {
				cmd := exec.Command("/proc/self/exe", "-test.run=^TestKernelLimits$", "-test.v")
				cmd.Env = append(os.Environ(), "CORDON_TEST_LIMIT="+limit)
				cmd.SysProcAttr = &syscall.SysProcAttr{
					Cloneflags:  syscall.CLONE_NEWUSER,
					UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
					GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
				}
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "--- PASS: TestKernelLimits") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		return
	}
	must(t, os.WriteFile("/proc/sys/user/"+limit, []byte("0"), 0o644))
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.hcl"), "1")
	s := follow(t, dir)
	until(t, s, "1")
	write(t, filepath.Join(dir, "a.hcl"), "2")
	until(t, s, "2")
	if st := s.Status(); !strings.HasPrefix(st.How, "polling") || !strings.Contains(st.Note, "fs.inotify.max_user_") {
		t.Errorf("status %+v", st)
	}
}

func TestUnreadable(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"no directory":    {func(dir string) error { return os.RemoveAll(dir) }, "no such directory; it is waited for"},
		"empty":           {func(string) error { return nil }, "no *.hcl file"},
		"FIFO":            {func(dir string) error { return syscall.Mkfifo(dir+"/x.hcl", 0o644) }, "x.hcl: a name that ends in .hcl must be a file"},
		"directory":       {func(dir string) error { return os.Mkdir(dir+"/x.hcl", 0o755) }, "x.hcl: a name that ends in .hcl must be a file"},
		"link to nothing": {func(dir string) error { return os.Symlink("gone", dir+"/x.hcl") }, "x.hcl: no such file"},
		"too large": {func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/x.hcl", nil, 0o644), os.Truncate(dir+"/x.hcl", source.MaxFile+1))
		}, "more than 10000000 bytes"},
		"one among others": {func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/a.hcl", nil, 0o644), os.Symlink("x.hcl", dir+"/x.hcl"))
		}, "too many levels"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, tt.make(dir))
			s, err := New(Options{Dir: dir, StateDir: t.TempDir(), Timing: fast()})
			must(t, err)
			r, err := s.Fetch(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || r.ID != "" {
				t.Errorf("got %q, %v, want %q", r.ID, err, tt.want)
			}
			if errors.Is(err, source.ErrRefused) == (name == "no directory") {
				t.Errorf("%v: is it refused, or away?", err)
			}
		})
	}
}

func TestKeep(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "a.hcl"), "1")
	open := func() *Source {
		s, err := New(Options{Dir: dir, StateDir: state, Timing: fast()})
		must(t, err)
		return s
	}
	s := open()
	if _, err := s.Last(); !errors.Is(err, source.ErrNothingKept) {
		t.Errorf("before the first: %v", err)
	}
	r, err := s.Fetch(t.Context())
	must(t, err)
	must(t, s.Keep(r))
	must(t, os.RemoveAll(dir))
	got, err := open().Last()
	if err != nil || got.ID != r.ID || string(got.Files[0].Bytes) != "1" {
		t.Errorf("got %+v, %v", got, err)
	}
	r.Files[0].Bytes = []byte("2")
	must(t, s.Keep(r))
	if got, err := open().Last(); err == nil || got.ID != "" {
		t.Errorf("files of another ID: got %+v, %v", got, err)
	}
}

func TestMain(m *testing.M) {
	if os.Getenv("CORDON_TEST_LIMIT") != "" {
		os.Exit(m.Run()) // on the host that the test before it made
	}
	kerneltest.Main(m)
}
