package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/epoll"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/specs"
)

// Processes watches those that run sessions: what is left of a session whose
// process was killed is to go at once.
type Processes struct{ Dir rundir.Dir }

// Name implements [Watcher].
func (Processes) Name() string { return "processes" }

// Parts implements [Watcher].
func (Processes) Parts() []string { return ofSessions() }

// Run implements [Watcher].
func (p Processes) Run(ctx context.Context, wake Wake) error {
	return named(ctx, p.Name(), func() error { return p.run(ctx, wake) })
}

func (p Processes) run(ctx context.Context, wake Wake) error {
	t, err := newTree(p.Parts(), p.tops())
	if err != nil {
		return err
	}
	defer t.close()
	poll, err := epoll.New(ctx)
	if err != nil {
		return err
	}
	defer poll.Close()
	if err := poll.Add(t.fd, unix.EPOLLIN); err != nil {
		return err
	}
	if _, err := t.rescan(); err != nil {
		return err
	}
	alive := runners{poll: poll, fds: map[int]int{}}
	defer alive.close()
	parts := set(p.Parts())
	ready, buf := make([]unix.EpollEvent, 64), make([]byte, 64<<10)
	for {
		// Leases come and go with a change of the directory, and are looked
		// for when one of the processes has ended, too.
		if len(parts) > 0 {
			gone, err := alive.follow(filepath.Dir(p.Dir.Session("x")))
			if err != nil {
				return err
			}
			if gone {
				parts.add(p.Parts()...)
			}
		}
		if err := parts.wake(ctx, wake, rest); err != nil {
			return err
		}
		parts = nil
		events, err := poll.Wait(ready)
		if err != nil {
			return err
		}
		for _, e := range events {
			if int(e.Fd) == t.fd {
				came, err := t.read(buf)
				if err != nil {
					return err
				}
				parts.add(came...)
				continue
			}
			alive.ended(int(e.Fd))
			parts.add(p.Parts()...)
		}
	}
}

func (p Processes) tops() []place {
	sessions := filepath.Dir(p.Dir.Session("x"))
	return []place{{
		path:  filepath.Dir(string(p.Dir)),
		parts: only(filepath.Base(string(p.Dir)), p.Parts()...),
		below: func(string) []place {
			return []place{{
				path:  string(p.Dir),
				parts: only(filepath.Base(sessions), p.Parts()...),
				below: func(string) []place {
					return []place{{path: sessions, parts: func(name string) []string {
						if name != "" && !specs.ValidSessionID(name) {
							return nil
						}
						return p.Parts()
					}}}
				},
			}}
		},
	}}
}

// runners are the processes that are waited for.
type runners struct {
	poll *epoll.Poller
	fds  map[int]int // pidfd by process id
}

// follow waits for the processes of the leases in dir. It tells whether one of
// them had ended before.
func (r runners) follow(dir string) (gone bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	named := map[int]bool{}
	for _, e := range entries {
		pid := 0
		if specs.ValidSessionID(e.Name()) {
			pid = pidOf(filepath.Join(dir, e.Name(), leaseFile))
		}
		if pid <= 1 {
			continue
		}
		named[pid] = true
		if _, known := r.fds[pid]; known {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			gone = true
			continue
		}
		if err != nil {
			return false, fmt.Errorf("process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
		}
		r.fds[pid] = fd
		if err := r.poll.Add(fd, unix.EPOLLIN); err != nil {
			return false, err
		}
	}
	for pid, fd := range r.fds {
		if !named[pid] {
			delete(r.fds, pid)
			_ = unix.Close(fd)
		}
	}
	return gone, nil
}

// ended forgets a process that has.
func (r runners) ended(fd int) {
	for pid, of := range r.fds {
		if of == fd {
			delete(r.fds, pid)
			_ = unix.Close(fd)
		}
	}
}

func (r runners) close() {
	for _, fd := range r.fds {
		_ = unix.Close(fd)
	}
}

// leaseFile is where a session's directory says who runs it.
const leaseFile = "lease.json"

// pidOf is the process that a lease names; 0 when it names none.
func pidOf(lease string) int {
	b, err := os.ReadFile(lease)
	var l specs.Lease
	if err != nil || json.Unmarshal(b, &l) != nil {
		return 0
	}
	return l.PID
}
