// Package rundir is the layout of the run directory: where enforcers leave
// what others find by name. All of it vanishes at reboot, as the kernel state
// that it describes does.
package rundir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/specs"
)

// Dir is a run directory, /run/cordon by default.
type Dir string

// Netns is where the network namespace of a slot is pinned.
func (d Dir) Netns(network string, slot int) string {
	return filepath.Join(d.netns(), specs.SlotName(network, slot))
}

func (d Dir) netns() string { return filepath.Join(string(d), "netns") }

// Pin is a slot whose network namespace is pinned.
type Pin struct {
	Network string
	Slot    int
}

// Pins are the slots that [Dir.Netns] has a file for, sorted by name, whether
// a namespace is on it or not; none without a run directory.
func (d Dir) Pins() ([]Pin, error) {
	entries, err := os.ReadDir(d.netns())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pins []Pin
	for _, e := range entries {
		if network, slot, ok := specs.ParseSlot(e.Name()); ok {
			pins = append(pins, Pin{Network: network, Slot: slot})
		}
	}
	return pins, nil
}

// Root is where the mount tree of a sandbox is.
func (d Dir) Root(sandbox string) string { return filepath.Join(string(d), "roots", sandbox) }

// Seccomp is the compiled filter of a seccomp block; the name "" is the base
// as it is.
func (d Dir) Seccomp(name string) string {
	if name == "" {
		name = specs.BaseFilter
	}
	return filepath.Join(string(d), "seccomp", name+".bpf")
}

// Forwarding remembers what IPv4 forwarding was before cordon switched it on.
func (d Dir) Forwarding() string { return filepath.Join(string(d), "forwarding") }

// Session is the directory of a session's lease.
func (d Dir) Session(id string) string { return filepath.Join(string(d), "sessions", id) }

// Rules is the text of a family's firewall rules as last read.
func (d Dir) Rules(family string) string { return filepath.Join(string(d), "rules."+family) }

// Socket is where the daemon answers.
func (d Dir) Socket() string { return filepath.Join(string(d), "daemon.sock") }

// Make makes the run directory and a directory below it, for root alone to
// write. It refuses one that someone else could write to.
func (d Dir) Make(below ...string) (string, error) {
	path := string(d)
	for _, next := range append([]string{""}, below...) {
		path = filepath.Join(path, next)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return "", err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return "", &os.PathError{Op: "stat", Path: path, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
			return "", fmt.Errorf("%s: must be a directory that only its owner, the user cordon runs as, can write to", path)
		}
	}
	return path, nil
}

// Lock takes the host's lock: exclusive for who changes resources of many,
// shared for who only needs them to stay as they are. While another process
// has it, Lock calls waiting once and tries again until ctx ends. The lock
// ends with unlock, or with the process.
//
// Whoever waits for it keeps those out that come later, or sessions that start
// one after the other, each sharing it, would keep an exclusive one out for ever.
func (d Dir) Lock(ctx context.Context, exclusive bool, waiting func()) (unlock func(), err error) {
	if _, err := d.Make(); err != nil {
		return nil, err
	}
	if waiting != nil {
		waiting = sync.OnceFunc(waiting)
	}
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	next, err := d.lockFile(ctx, "lock.next", how, waiting)
	if err != nil {
		return nil, err
	}
	defer next.Close() //nolint:errcheck // nothing was written
	f, err := d.lockFile(ctx, "lock", how, waiting)
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func (d Dir) lockFile(ctx context.Context, name string, how int, waiting func()) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Flock(ctx, f, how, waiting); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("another cordon is changing this host: %w", err)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Flock takes a lock (unix.LOCK_SH or LOCK_EX) on f, which the caller closes
// when that fails. While another open of the file has it, Flock calls waiting
// once, unless it is nil, and waits until ctx ends; the error then wraps ctx's
// cause.
func Flock(ctx context.Context, f *os.File, how int, waiting func()) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK || err == unix.EINTR {
		if waiting != nil {
			waiting()
		}
		err = waitLock(ctx, f, how)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// waitLock waits in the kernel, which lets in one after the other; hundreds who
// wait cost nothing. Nothing can interrupt flock(2): when ctx ends, the thread
// that waits is left to do so with a descriptor of its own, and what it then
// gets is given back at once.
func waitLock(ctx context.Context, f *os.File, how int) error {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	got := make(chan error)
	go func() {
		err := error(unix.EINTR)
		for err == unix.EINTR {
			err = unix.Flock(fd, how)
		}
		select {
		case got <- err:
		case <-ctx.Done():
		}
		_ = unix.Close(fd)
	}()
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
