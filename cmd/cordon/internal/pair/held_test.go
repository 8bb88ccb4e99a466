package pair

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/cordontest"
)

// TestMain is the complete program where a test calls it so.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != Complete {
		os.Exit(m.Run())
	}
	h, err := Hold(context.Background(), "1.0")
	if err != nil || h == nil {
		fmt.Println("none:", err)
		return
	}
	// Another one is installed meanwhile.
	if err := os.Remove(h.file.Name()); err != nil {
		fmt.Println(err)
		return
	}
	out, err := exec.Command(h.Path(), "version").CombinedOutput()
	fmt.Printf("held: %s %v\n", out, err)
}

// hold is what the complete program finds beside itself.
func hold(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, Complete)
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestHold(t *testing.T) {
	dir := t.TempDir()
	front := filepath.Join(dir, Front)
	if got := hold(t, dir); got != "none: <nil>\n" {
		t.Errorf("without a front: %s", got)
	}
	cordontest.Compile(t, front, "cmd/cordon/front", "-ldflags=-X main.version=2.0")
	if got := hold(t, dir); !strings.Contains(got, "is cordon 2.0, but this is cordon 1.0: install both of one build") {
		t.Errorf("another version's: %s", got)
	}
	cordontest.Compile(t, front, "cmd/cordon/front", "-ldflags=-X main.version=1.0")
	if err := os.Chmod(front, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := hold(t, dir); !strings.Contains(got, "others can change it") {
		t.Errorf("one that anybody can write: %s", got)
	}
	if err := os.Chmod(front, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(front, 65534, 0); err != nil {
			t.Fatal(err)
		}
		if got := hold(t, dir); !strings.Contains(got, "others can change it") {
			t.Errorf("another user's: %s", got)
		}
		if err := os.Chown(front, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := hold(t, dir); got != "held: cordon 1.0\n <nil>\n" {
		t.Errorf("its own: %s", got)
	}
}
