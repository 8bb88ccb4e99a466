package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killTimeout bounds the wait for killed processes to be gone: the kernel has
// to free their memory.
const killTimeout = 10 * time.Second

// errBusy is a group that still holds processes after [killTimeout].
var errBusy = errors.New("processes that were killed are still there")

// gone tells whether err means that the group was removed meanwhile.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

func (*linux) remove(ctx context.Context, hs []hierarchy, group string) error {
	if err := kill(ctx, hs, group); err != nil {
		return err
	}
	var failed []error
	for _, h := range hs {
		dir := filepath.Join(h.path, group)
		if err := removeTree(ctx, dir); err != nil {
			failed = append(failed, err)
			continue
		}
		_ = os.Remove(filepath.Dir(dir)) // while other sessions run it is not empty
	}
	return errors.Join(failed...)
}

// kill ends every process in the group in any of the hierarchies and waits
// until none is left, or ctx ends.
func kill(ctx context.Context, hs []hierarchy, group string) error {
	for _, h := range hs {
		err := os.WriteFile(filepath.Join(h.path, group, "cgroup.kill"), []byte("1"), 0)
		// Kernels before 5.14 and all of v1 have no such file, and it can't be
		// made.
		if err != nil && !gone(err) && !errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	return killEach(ctx, hs, group)
}

// killEach kills one process after the other.
func killEach(ctx context.Context, hs []hierarchy, group string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, killTimeout, errBusy)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		list, err := procs(hs, group)
		if err != nil || len(list) == 0 {
			return err
		}
		stopForks(hs, group)
		for _, pid := range list {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
				return fmt.Errorf("kill %d: %w", pid, err)
			}
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w: %v", err, list)
		}
	}
}

// How long to wait before what takes the kernel a moment is looked at again.
const (
	minPause = 20 * time.Microsecond
	maxPause = 5 * time.Millisecond
)

// sleep returns ctx's cause when that ends first.
func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}

// stopForks lets no process be added, so that killing one after the other
// comes to an end.
func stopForks(hs []hierarchy, group string) {
	for _, h := range hs {
		if h.has(pids) {
			_ = os.WriteFile(filepath.Join(h.path, group, "pids.max"), []byte("0"), 0)
		}
	}
}

// procs are the processes in the group and those below it, in any hierarchy;
// never this process itself, whose thread may be joining.
func procs(hs []hierarchy, group string) ([]int, error) {
	found := map[int]bool{}
	for _, h := range hs {
		if err := addTree(found, filepath.Join(h.path, group)); err != nil {
			return nil, err
		}
	}
	delete(found, os.Getpid())
	delete(found, 0) // one of another pid namespace
	return slices.Sorted(maps.Keys(found)), nil
}

// addTree adds the processes of a group and those below it.
func addTree(found map[int]bool, dir string) error {
	if err := addProcs(found, dir); err != nil {
		return err
	}
	var st unix.Stat_t
	switch err := unix.Stat(dir, &st); {
	case gone(err):
		return nil
	case err != nil:
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	case st.Nlink == 2: // no group is below: kernfs counts one more link for each
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !gone(err) {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := addTree(found, filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func addProcs(found map[int]bool, dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return fmt.Errorf("%s/cgroup.procs: %w", dir, err)
		}
		found[pid] = true
	}
	return nil
}

// removeTree removes an empty group and those below it. A group stays busy
// for a moment after its last process has ended.
func removeTree(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := os.Remove(dir)
		if err == nil || gone(err) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if err := removeTree(ctx, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		if why := sleep(ctx, pause); why != nil {
			return fmt.Errorf("%w: %w", err, why)
		}
	}
}
