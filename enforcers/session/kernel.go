package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/atomicfile"
	"github.com/aicodesit/cordon/internal/rundir"
)

// kernel is the host as the enforcer needs it.
type kernel interface {
	// list is every session's directory, get one of them.
	list() ([]entry, error)
	get(id string) (e entry, ok bool, err error)
	// write makes a session that nobody holds, or changes its record.
	write(r record) error
	// remove forgets a session.
	remove(id string) error
	// end asks the process that runs a session to end it, or to start it
	// again, and waits until it did.
	end(ctx context.Context, e entry, order Order) error
	// unfinished are the directories of half-made sessions that nobody is making,
	// and sweep removes them.
	unfinished() ([]string, error)
	sweep() error
}

// linux is the run directory of this host.
type linux struct{ dir rundir.Dir }

func (l linux) sessions() sessions { return sessions(filepath.Dir(l.dir.Session("x"))) }

func (l linux) list() ([]entry, error)             { return l.sessions().list() }
func (l linux) get(id string) (entry, bool, error) { return l.sessions().get(id) }
func (l linux) remove(id string) error             { return l.sessions().remove(id) }
func (l linux) make() (sessions, error)            { d, err := l.dir.Make("sessions"); return sessions(d), err }
func (l linux) sweep() error                       { return l.sessions().sweep() }

func (l linux) unfinished() (names []string, err error) {
	err = l.sessions().unfinished(func(path string) error {
		names = append(names, filepath.Base(path))
		return nil
	})
	return names, err
}

func (l linux) write(r record) error {
	s, err := l.make()
	if err != nil {
		return err
	}
	_, err = s.write(r, false)
	return err
}

// How long after its grace period a session's process may take to end it.
const endMargin = 5 * time.Second

// defaultGrace is what a sandbox that says nothing has.
const defaultGrace = 10 * time.Second

func (l linux) end(ctx context.Context, e entry, order Order) error {
	if err := l.leaveOrder(e, order); err != nil {
		return err
	}
	if err := signalHolder(e, unix.SIGTERM); err != nil {
		return err
	}
	grace := cmp.Or(e.Grace, defaultGrace)
	if order.Grace != nil {
		grace = *order.Grace
	}
	ctx, cancel := context.WithTimeout(ctx, grace+endMargin)
	defer cancel()
	for {
		now, ok, err := l.get(e.ID)
		switch {
		case err != nil:
			return err
		case !ok || !now.held || (order.restart && now.broken == nil && now.Digest != e.Digest):
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the process that runs it (%d) did not end it: %w", e.PID, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// leaveOrder writes down what the signal can't say.
func (l linux) leaveOrder(e entry, order Order) error {
	dir := l.dir.Session(e.ID)
	if order.restart {
		return os.WriteFile(filepath.Join(dir, restartFile), nil, 0o600)
	}
	if order == (Order{}) {
		return nil
	}
	b, err := json.Marshal(leftOrder{order, order.Why})
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, stopFile), b, 0o600)
}

// signalHolder sends a signal to the process that holds a session's lease.
// That the lease is held after the process was pinned shows that it is the one.
func signalHolder(e entry, sig unix.Signal) error {
	if e.PID <= 1 {
		return fmt.Errorf("%s: the lease names no process", Addr(e.ID))
	}
	fd, err := unix.PidfdOpen(e.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", e.PID, err)
	}
	defer unix.Close(fd)
	if !holds(e.PID, e.ID) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", e.PID, err)
	}
	return nil
}

// holds tells whether the process has the lock of the session open.
func holds(pid int, id string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	for _, f := range fds {
		to, err := os.Readlink(filepath.Join(dir, f.Name()))
		if err == nil && filepath.Base(to) == lockFile && filepath.Base(filepath.Dir(to)) == id {
			return true
		}
	}
	return false
}
