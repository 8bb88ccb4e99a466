package seccomp

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/reconciler"
)

func TestExamine(t *testing.T) {
	for _, f := range New(Options{}).Examine(context.Background()) {
		if f.Status != reconciler.OK {
			t.Errorf("%s: %s", f.Subject, f.Text)
		}
	}
	silent := filepath.Join(t.TempDir(), "logged")
	if err := os.WriteFile(silent, []byte("kill_process kill_thread trap\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{silent, "/nonexistent"} {
		if f := logging(path); f.Status != reconciler.Warn || f.Remedy == "" {
			t.Errorf("%s: %+v", path, f)
		}
	}
	old := filepath.Join(t.TempDir(), "actions")
	if err := os.WriteFile(old, []byte("kill trap errno trace allow\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := kernel(old); f.Status != reconciler.Fail || !strings.Contains(f.Remedy, "kill_process") {
		t.Errorf("an old kernel: %+v", f)
	}
}

func TestNameOf(t *testing.T) {
	for _, name := range []string{"agent", "", "agent.nested"} {
		a := Addr(name)
		if got, err := nameOf(a); Addr(got) != a || err != nil {
			t.Errorf("%s: its name is %q, %v", a, got, err)
		}
	}
	if name, err := nameOf(reconciler.NewAddr("root", "agent")); err == nil {
		t.Errorf("a root is the filter %q", name)
	}
}
