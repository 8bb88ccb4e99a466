package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/killtest"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler/loop"
)

func TestLock(t *testing.T) {
	dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
	release, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process id %d ", os.Getpid())) {
		t.Errorf("a second one: %v", err)
	}
	release()
	if release, err = Lock(dir); err != nil {
		t.Fatal(err)
	}
	release()
}

func TestMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory")
	if m, err := LoadMemory(path); err != nil || m != (loop.Memory{}) {
		t.Errorf("nothing is %+v, %v", m, err)
	}
	if err := SaveMemory(path, loop.Memory{}); err != nil {
		t.Error(err)
	}
	want := loop.Memory{Reached: "d", Paused: &loop.Pause{Reason: "why", Until: time.Unix(1, 0).UTC()}}
	if err := SaveMemory(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := LoadMemory(path)
	if err != nil || got.Reached != "d" || *got.Paused != *want.Paused {
		t.Errorf("%+v, %v", got, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-3] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadMemory(path); err == nil {
		t.Error("a damaged file is read")
	}
}

func TestLoadMemoryTidies(t *testing.T) {
	dir := killtest.Writing(t, "memory", func(dir string) error {
		return SaveMemory(filepath.Join(dir, "memory"), loop.Memory{Reached: strings.Repeat("d", killtest.Large)})
	})
	if m, err := LoadMemory(filepath.Join(dir, "memory")); err != nil || m != (loop.Memory{}) {
		t.Errorf("nothing is %+v, %v", m, err)
	}
	killtest.Left(t, dir)
}
