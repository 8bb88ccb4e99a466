// Package pair is the two files that a user installs: the program with all
// commands, and before it, under the name that users type, a small one that has
// the few commands that must be quick and hands over to the other for the rest.
// Each finds the other beside itself.
package pair

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// The names of the two, in one directory. The complete program does alone too,
// under whatever name.
const (
	Front    = "cordon"
	Complete = "cordon-full"
)

// handed is the variable by which the front tells its version to the complete
// program. It is gone before anything else sees the environment.
const handed = "CORDON_HANDED_OVER_BY"

// Beside returns the path of the complete program that belongs to this one.
func Beside() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), Complete)
	switch err := belongs(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s is missing: %s has a few commands alone and belongs beside it; make build makes both", path, self)
	case err != nil:
		return "", err
	}
	return path, nil
}

// HandOver replaces this process by the complete program, with the same
// arguments. It returns only an error. Nothing may have been started before.
func HandOver(version string) error {
	path, err := Beside()
	if err != nil {
		return err
	}
	if _, ok := os.LookupEnv(handed); ok {
		return fmt.Errorf("%s is not the complete program, but one that hands over to it: make build makes both", path)
	}
	if err := syscall.Exec(path, os.Args, append(os.Environ(), handed+"="+version)); err != nil {
		return &fs.PathError{Op: "exec", Path: path, Err: err}
	}
	return nil
}

// Taken returns an error when another version's front handed over to this
// process. It must be called before the environment is looked at.
func Taken(version string) error {
	front, ok := os.LookupEnv(handed)
	if !ok {
		return nil
	}
	if err := os.Unsetenv(handed); err != nil {
		return err
	}
	if front != version {
		return fmt.Errorf("%s is version %s, but %s beside it is version %s: install both of one build", self(), version, Front, front)
	}
	return nil
}

// Before returns the path of the front that lies before this, the complete
// program; "" when there is none. An error is of a file that is there and must
// not be used.
func Before() (string, error) {
	self, err := os.Executable()
	if err != nil || filepath.Base(self) != Complete {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), Front)
	err = belongs(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return path, err
}

// belongs returns an error unless whoever could change the file at path could
// change this program too: a directory may be one that others write in.
func belongs(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return owned(f)
}

func owned(f *os.File) error {
	var own, other unix.Stat_t
	if err := errors.Join(unix.Stat("/proc/self/exe", &own), unix.Fstat(int(f.Fd()), &other)); err != nil {
		return &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	const group, others = 0o020, 0o022
	switch {
	case other.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is no program", f.Name())
	case other.Uid != own.Uid && other.Uid != 0, other.Mode&others&^own.Mode != 0, other.Mode&group != 0 && other.Gid != own.Gid:
		return fmt.Errorf("%s: others can change it than this program, %s: it is not used", f.Name(), self())
	}
	return nil
}

// self is this program, for who reads about it.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return "this program"
	}
	return path
}
