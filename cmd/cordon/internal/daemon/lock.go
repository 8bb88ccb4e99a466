package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rundir"
)

// lockPatience is for one that was killed: a program that it was about to start
// has its lock for a moment longer.
const lockPatience = time.Second

// Lock makes this process the daemon of the run directory, until release or
// its end. It returns an error that names the other one when there is one.
func Lock(dir rundir.Dir) (release func(), err error) {
	if _, err := dir.Make(); err != nil {
		return nil, err
	}
	path := filepath.Join(string(dir), "daemon.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	err = rundir.Flock(ctx, f, unix.LOCK_EX, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		pid, _ := io.ReadAll(io.LimitReader(f, 20)) // a hint for people
		err = fmt.Errorf("a daemon with process id %s runs for %s already: there is one for each run directory", strings.TrimSpace(string(pid)), dir)
	} else if err == nil {
		err = errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintln(os.Getpid())))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}
