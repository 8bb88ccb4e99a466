package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// setupTimeout bounds how long bubblewrap may take to set a sandbox up.
const setupTimeout = 20 * time.Second

// pause is the wait for the next look at what can only be looked at: a small
// part of the time that was waited so far, from 0.1 to 10 ms. Where hundreds
// start at once, they must not keep each other from it by looking. The
// runtime's timers have the granularity of epoll_wait(2), 1 ms, when nothing
// else is to do.
type pause struct{ waited time.Duration }

func (p *pause) wait() {
	d := min(max(p.waited/16, 100*time.Microsecond), 10*time.Millisecond)
	p.waited += d
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal may shorten it
}

// Verify waits until the sandbox is set up and returns an error unless it is
// what was asked for: the root and every bind are the very files that were
// pinned, the network namespace is the given one, and the process has the ids
// and no more capabilities than it should, and can't get more. The filter is the
// one that was there at the start.
func (p *Process) Verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	if err := p.findChild(ctx); err != nil {
		return err
	}
	if err := p.settled(ctx); err != nil {
		return err
	}
	if err := p.verifyNet(); err != nil {
		return err
	}
	for _, m := range p.spec.Mounts {
		if m.Source == nil {
			continue
		}
		if err := p.verifyBind(m); err != nil {
			return err
		}
	}
	return nil
}

// filterStands returns [ErrReplaced] when the filter is another by now: the one
// that was looked at since may not be the one that was taken.
func (p *Process) filterStands() error {
	var now, taken unix.Stat_t
	err := errors.Join(unix.Lstat(p.spec.Filter, &now), unix.Fstat(int(p.filter.Fd()), &taken))
	if err == nil && idOf(&now) != idOf(&taken) {
		err = ErrReplaced
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.spec.Filter, err)
	}
	return nil
}

// settled waits for the last step before the gate: the root is ours and the
// privileges are gone.
func (p *Process) settled(ctx context.Context) error {
	var last error
	var next pause
	for {
		var now unix.Stat_t
		root := p.proc("root")
		err := unix.Stat(root, &now)
		switch {
		case err != nil:
			return fmt.Errorf("bubblewrap ended while it set the sandbox up: %w", err)
		case idOf(&now) != p.spec.tree:
			last = fmt.Errorf("its root is not %s", p.spec.Root)
		default:
			last = p.verifyStatus()
		}
		if last == nil {
			return errors.Join(p.spec.stands(), p.filterStands(), p.openRoot(root))
		}
		switch why := context.Cause(ctx); {
		case errors.Is(why, context.DeadlineExceeded):
			return fmt.Errorf("the sandbox is not as it should be: %w", errors.Join(last, why))
		case why != nil:
			return why
		}
		next.wait()
	}
}

func (p *Process) openRoot(path string) error {
	if p.root != nil {
		return nil
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Flags&unix.ST_RDONLY == 0 {
		_ = unix.Close(fd)
		return errors.Join(errors.New("its root is writable"), err)
	}
	p.root = os.NewFile(uintptr(fd), path)
	return nil
}

func (p *Process) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(p.child), name)
}

// verifyStatus reads what the kernel says of the process's privileges, see
// proc_pid_status(5).
func (p *Process) verifyStatus() error {
	b, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return err
	}
	kept, err := capMask(p.spec.Capabilities)
	if err != nil {
		return err
	}
	want := map[string]string{
		"Uid": four(p.spec.UID), "Gid": four(p.spec.GID), "Groups": "", "NoNewPrivs": "1",
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.Join(strings.Fields(value), " ")
		if strings.HasPrefix(key, "Cap") {
			mask, err := strconv.ParseUint(value, 16, 64)
			if err != nil || mask&^kept != 0 {
				return fmt.Errorf("it has %s %s", key, value)
			}
		}
		if w, ok := want[key]; ok {
			if w != value {
				return fmt.Errorf("it has %s %q, not %q", key, value, w)
			}
			delete(want, key)
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("/proc says nothing of %v", want)
	}
	return nil
}

func four(id uint32) string {
	s := strconv.FormatUint(uint64(id), 10)
	return s + " " + s + " " + s + " " + s
}

// verifyNet tells whether the process is in the network namespace that is
// pinned now, or in one of its own.
func (p *Process) verifyNet() error {
	var got, want unix.Stat_t
	if err := unix.Stat(p.proc("ns/net"), &got); err != nil {
		return err
	}
	where := p.spec.Netns
	if where == "" {
		where = "/proc/self/ns/net"
	}
	if err := unix.Stat(where, &want); err != nil {
		return &os.PathError{Op: "stat", Path: where, Err: err}
	}
	if p.spec.Netns == "" && idOf(&got) == idOf(&want) {
		return errors.New("it is in the host's network namespace")
	}
	if p.spec.Netns != "" && idOf(&got) != idOf(&want) {
		return fmt.Errorf("it is not in the network namespace %s", p.spec.Netns)
	}
	return nil
}

// verifyBind tells whether a bind shows what was pinned. A symbolic link or
// another directory that took the source's place is found here.
func (p *Process) verifyBind(m Mount) error {
	fd, err := unix.Openat2(int(p.root.Fd()), strings.TrimPrefix(m.To, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: beneath,
	})
	if err != nil {
		return fmt.Errorf("%s inside: %w", m.To, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%s inside: %w", m.To, err)
	}
	if idOf(&st) != m.Source.id {
		return fmt.Errorf("%s inside is not %s: something took its place", m.To, m.Source.Path)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("%s inside: %w", m.To, err)
	}
	if !m.Writable && fs.Flags&unix.ST_RDONLY == 0 {
		return fmt.Errorf("%s inside is writable", m.To)
	}
	return nil
}
