// Package cordontest builds the program as users install it, for tests that run
// it.
package cordontest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build builds both files of the program into a directory of their own, which
// anybody may read, and returns the path of cordon in it.
func Build(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cordon-bin-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	Compile(t, filepath.Join(dir, "cordon-full"), "cmd/cordon")
	Compile(t, filepath.Join(dir, "cordon"), "cmd/cordon/front")
	return filepath.Join(dir, "cordon")
}

// Compile builds one program of the module, a folder of it, as make build does.
func Compile(t testing.TB, path, folder string, flags ...string) {
	t.Helper()
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, "github.com/aicodesit/cordon/"+folder)...)
	if folder == "cmd/cordon/front" {
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}
