package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/specs"
)

// Enter prepares that the next process started by the calling thread, with
// attr, begins its life in the session's group. The caller must have locked
// the thread, and must call leave right after the start, on the same thread;
// it takes the thread out again. When leave fails the thread must not live on.
//
// On v2 the child is cloned into the group (CLONE_INTO_CGROUP). On v1 the
// thread itself joins: writing one's own thread to tasks needs no wait for all
// other CPUs, as moving a process does.
func (e *Enforcer) Enter(id string, attr *syscall.SysProcAttr) (leave func() error, err error) {
	if !specs.ValidSessionID(id) {
		return nil, fmt.Errorf("cgroup: %q is not a session's id", id)
	}
	hs, err := e.kernel.hierarchies()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Addr(id), err)
	}
	var undo []func() error
	leave = func() error {
		var failed []error
		for _, u := range undo {
			failed = append(failed, u())
		}
		undo = nil
		return errors.Join(failed...)
	}
	own, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Addr(id), err)
	}
	for _, h := range hs {
		u, err := enter(h, e.path(id), string(own), attr)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: join: %w", Addr(id), err), leave())
		}
		undo = append(undo, u)
	}
	return leave, nil
}

// enter joins one hierarchy. own is the thread's /proc/thread-self/cgroup.
func enter(h hierarchy, group, own string, attr *syscall.SysProcAttr) (undo func() error, err error) {
	dir := filepath.Join(h.path, group)
	if h.v2 {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: dir, Err: err}
		}
		attr.UseCgroupFD, attr.CgroupFD = true, fd
		return func() error { return unix.Close(fd) }, nil
	}
	// Open now: by then the thread may have another root.
	back, err := os.OpenFile(filepath.Join(h.path, ownGroup(own, h.controllers[0]), "tasks"), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	to, err := os.OpenFile(filepath.Join(dir, "tasks"), os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(err, back.Close())
	}
	_, err = to.WriteString("0")
	if err = errors.Join(err, to.Close()); err != nil {
		return nil, errors.Join(err, back.Close())
	}
	return func() error {
		_, err := back.WriteString("0")
		return errors.Join(err, back.Close())
	}, nil
}

// ownGroup is the path of a controller's group in a /proc/PID/cgroup
// (cgroups(7)): lines "id:controllers:path". It is / when there is none.
func ownGroup(text, controller string) string {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2]
		}
	}
	return "/"
}

// Kill ends every process of the session and waits until they are gone or
// ctx ends. The group stays, but is of no use any more: it may let no process start, and
// Linux (seen with 6.18) kills what is cloned into a group that was killed
// before. Delete it before it is to be entered again.
func (e *Enforcer) Kill(ctx context.Context, id string) error {
	hs, err := e.session(id)
	if err != nil {
		return err
	}
	if err := kill(ctx, hs, e.path(id)); err != nil {
		return fmt.Errorf("%s: %w", Addr(id), err)
	}
	return nil
}

// Procs are the host's pids of the session's processes.
func (e *Enforcer) Procs(id string) ([]int, error) {
	hs, err := e.session(id)
	if err != nil {
		return nil, err
	}
	list, err := procs(hs, e.path(id))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Addr(id), err)
	}
	return list, nil
}

// OOMKilled tells whether the kernel killed a process of the session for
// having reached its memory limit.
func (e *Enforcer) OOMKilled(id string) (bool, error) {
	hs, err := e.session(id)
	if err != nil {
		return false, err
	}
	for _, h := range hs {
		if !h.has(memory) {
			continue
		}
		file := "memory.oom_control" // "oom_kill N" since Linux 4.13
		if h.v2 {
			file = "memory.events"
		}
		b, err := os.ReadFile(filepath.Join(h.path, e.path(id), file))
		if err != nil {
			return false, fmt.Errorf("%s: %w", Addr(id), err)
		}
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok && strings.TrimSpace(n) != "0" {
				return true, nil
			}
		}
	}
	return false, nil
}

func (e *Enforcer) session(id string) ([]hierarchy, error) {
	if !specs.ValidSessionID(id) {
		return nil, fmt.Errorf("cgroup: %q is not a session's id", id)
	}
	hs, err := e.kernel.hierarchies()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Addr(id), err)
	}
	return hs, nil
}

// Inside tells whether a process is in a group below parent, in any hierarchy:
// whether it belongs to a session.
func Inside(parent string, pid int) (bool, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false, err
	}
	return below(string(text), parent), nil
}

// below tells whether a /proc/PID/cgroup has a path with a session's group. The
// paths may begin above parent, as this process's cgroup namespace shows them.
func below(text, parent string) bool {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		path := parts[2] + "/"
		for i := range path { // what is above may have the parent's name, too
			rest, ok := strings.CutPrefix(path[i:], "/"+parent+"/")
			id, _, _ := strings.Cut(rest, "/")
			if ok && specs.ValidSessionID(id) {
				return true
			}
		}
	}
	return false
}

// Look finds where the hierarchies are mounted, which takes the longer the more
// mounts there are, so that who asks next need not. What is wrong then, that one
// is told.
func (e *Enforcer) Look() { _, _ = e.kernel.hierarchies() }
