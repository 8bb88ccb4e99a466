package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/aicodesit/cordon/internal/rundir"
)

// The parts that are woken: names of enforcers.
const (
	network = "network"
	slot    = "slot"
	root    = "root"
	seccomp = "seccomp"
	cgroup  = "cgroup"
	session = "session"
	git     = "git"
)

// Wake is told which parts may have changed. It returns at once, and may be
// called from several goroutines.
type Wake func(parts ...string)

// Watcher watches one kind of thing.
type Watcher interface {
	// Name is for people: "firewall".
	Name() string
	// Parts are those that Run may wake.
	Parts() []string
	// Run wakes parts until ctx ends, whose cause it then returns. Any other
	// error says why it can't watch: changes are then seen by whoever looks
	// from time to time. It may be called again.
	Run(ctx context.Context, wake Wake) error
}

// Options is what of the host is watched.
type Options struct {
	RunDir       rundir.Dir
	CgroupParent string // name of the group that sessions' groups are in
}

// Host returns what watches everything but projects, see [Projects], and
// databases.
func Host(o Options) []Watcher {
	return []Watcher{
		Links{}, Firewall{}, Sets{}, Mounts{o.RunDir}, Files{o.RunDir}, Groups{o.CgroupParent}, Processes{o.RunDir},
	}
}

// rest is how long a watcher waits after it woke somebody: it bounds what a
// storm of changes costs, and is far below what a person notices.
const rest = 50 * time.Millisecond

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// named runs a watcher and puts its name before what keeps it from watching.
func named(ctx context.Context, name string, run func() error) error {
	if err := run(); ctx.Err() == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return context.Cause(ctx)
}
