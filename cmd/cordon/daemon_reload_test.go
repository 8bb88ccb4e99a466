package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A file is followed through all ways to replace it.
func TestWatchFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "settings.yaml")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	changed := make(chan struct{}, 1)
	watch, err := watchFile(path, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	do(err)
	go watch(t.Context())
	for _, change := range []func(){
		func() { write("settings.yaml", "a") },
		func() {
			write("new", "b")
			do(os.Rename(filepath.Join(dir, "new"), path))
		},
		func() {
			do(os.Remove(path))
			write("settings.yaml", "longer")
		},
		func() {
			write("elsewhere", "c")
			do(os.Symlink("elsewhere", filepath.Join(dir, "link")))
			do(os.Rename(filepath.Join(dir, "link"), path))
		},
	} {
		change()
		<-changed
	}
	if _, err := watchFile(filepath.Join(dir, "none", "x"), func() {}); !missing(err) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
