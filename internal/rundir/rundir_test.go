package rundir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "run"))
	unlock, err := d.Lock(context.Background(), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The second one says that it waits, and gives up when told to.
	ctx, cancel := context.WithCancel(context.Background())
	waited := 0
	if _, err := d.Lock(ctx, true, func() { waited++; cancel() }); !errors.Is(err, context.Canceled) || waited != 1 {
		t.Errorf("waited %d times, got %v", waited, err)
	}
	// And gets it when the first lets go.
	second, err := d.Lock(context.Background(), false, unlock)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := d.Lock(context.Background(), false, func() { t.Error("two shared locks exclude each other") })
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := d.Lock(short, true, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("exclusive beside shared: %v", err)
	}
	second()
	shared()
}

// Sessions that start one after the other share the lock without a moment in
// which nobody has it: who needs it alone gets it all the same.
func TestLockIsNotKeptForEver(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "run"))
	ctx, cancel := context.WithCancel(t.Context())
	var sharing sync.WaitGroup
	held, err := d.Lock(ctx, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	sharing.Go(func() {
		for ctx.Err() == nil {
			letGo := sync.OnceFunc(held)
			next, err := d.Lock(ctx, false, letGo)
			letGo()
			if err != nil {
				return
			}
			held = next
		}
		held()
	})
	asked, giveUp := context.WithTimeout(t.Context(), 30*time.Second)
	defer giveUp()
	var alone func()
	sharing.Go(func() { alone, err = d.Lock(asked, true, nil); cancel() })
	sharing.Wait()
	if err != nil {
		t.Fatalf("not within 30 s: %v", err)
	}
	alone()
}

func TestMakeRefusesWhatOthersCanWrite(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"writable by all": func(dir string) error { return os.Chmod(dir, 0o777) },
		"another owner": func(dir string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(dir, 0o770)
			}
			return os.Chown(dir, 12345, 12345)
		},
		"a symbolic link": func(dir string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.Symlink(filepath.Dir(dir), dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			if path, err := Dir(dir).Make("sessions"); err == nil {
				t.Errorf("made %s", path)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "a", "run")
	path, err := Dir(dir).Make("sessions", "x")
	if err != nil || path != filepath.Join(dir, "sessions", "x") {
		t.Errorf("got %s, %v", path, err)
	}
}

func TestPins(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "run"))
	if pins, err := d.Pins(); err != nil || len(pins) > 0 {
		t.Errorf("without a directory: %v, %v", pins, err)
	}
	if _, err := d.Make("netns"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{d.Netns("llm", 0), d.Netns("llm-2", 4711), d.Netns("llm", 7) + ".new", filepath.Join(string(d), "netns", "x")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pins, err := d.Pins()
	if want := []Pin{{"llm-2", 4711}, {"llm", 0}}; err != nil || !slices.Equal(pins, want) {
		t.Errorf("got %v, %v, want %v", pins, err, want)
	}
}

func TestNamesCannotMeet(t *testing.T) {
	d := Dir("/run/cordon")
	if d.Seccomp("") == d.Seccomp("container") {
		t.Error("a block named container has the file of the base")
	}
}
