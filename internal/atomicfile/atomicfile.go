// Package atomicfile replaces files as a whole: whoever opens one meanwhile,
// or finds it after a crash, has the old content or the new.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Write replaces the file at path, whatever it is, by one with this content
// and mode, which no umask changes. The new file is made in the same
// directory, under a hidden name of its own; it is gone when Write fails. A
// process that is killed leaves it: see [Tidy].
func Write(path string, content []byte, mode os.FileMode) error {
	dir, prefix := unfinished(path)
	return Replace(filepath.Join(dir, prefix+rand.Text()), path, content, mode)
}

// unfinished is where the files that Write makes are until they are whole, and
// how their names begin.
func unfinished(path string) (dir, prefix string) {
	dir, base := filepath.Split(path)
	return filepath.Clean(dir), "." + base + "."
}

// Tidy removes what processes left that were killed while they wrote the file at
// path by [Write]. It is for who writes it next, when nobody else does.
func Tidy(path string) error {
	dir, prefix := unfinished(path)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), prefix)
		if ok && len(text) == len(rand.Text()) && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "" {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// Replace is Write for who knows what to do with what a killed process leaves:
// the new file is made at tmp, which is removed if it is there.
func Replace(tmp, path string, content []byte, mode os.FileMode) error {
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode)); err == nil {
		err = f.Sync() // or a crash could leave the name with nothing behind it
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}
