package atomicfile

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/aicodesit/cordon/internal/killtest"
)

func TestWrite(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, path); err != nil { // a link is replaced, not followed
		t.Fatal(err)
	}
	for i, mode := range []os.FileMode{0o644, 0o600, 0o666} {
		if err := Write(path, []byte{byte(i)}, mode); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(b, []byte{byte(i)}) {
			t.Errorf("holds %q, %v", b, err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
			t.Errorf("mode %v, %v, want %v", info.Mode(), err, mode)
		}
	}
	killtest.Left(t, dir, "x")
}

func TestFailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if err := Write(filepath.Join(dir, "none", "x"), nil, 0o600); err == nil {
		t.Error("written into no directory")
	}
	killtest.Left(t, dir, "x")
}

func TestReplaceRemovesWhatWasLeft(t *testing.T) {
	dir := t.TempDir()
	tmp, path := filepath.Join(dir, ".x"), filepath.Join(dir, "x")
	victim := filepath.Join(dir, "victim")
	for _, err := range []error{os.WriteFile(victim, []byte("v"), 0o600), os.Symlink(victim, tmp)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Replace(tmp, path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "v" {
		t.Errorf("wrote through a link: %q, %v", b, err)
	}
	killtest.Left(t, dir, "victim", "x")
}

// What a killed process leaves goes, and nothing else that has such a name.
func TestTidy(t *testing.T) {
	dir := killtest.Writing(t, "x", func(dir string) error {
		return Write(filepath.Join(dir, "x"), make([]byte, killtest.Large), 0o600)
	})
	others := []string{".x", ".x.", ".x.AAAAAAAAAAAAAAAAAAAAAAAAAA.b", ".x.aaaaaaaaaaaaaaaaaaaaaaaaaa", ".x.json", ".xx.AAAAAAAAAAAAAAAAAAAAAAAAAA", "x"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Tidy(filepath.Join(dir, "x")); err != nil {
		t.Error(err)
	}
	killtest.Left(t, dir, others...)
	if err := Tidy(filepath.Join(dir, "none", "x")); err != nil {
		t.Errorf("no directory: %v", err)
	}
}
