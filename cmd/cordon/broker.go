package main

import (
	"context"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/cmd/cordon/internal/pair"
	"github.com/aicodesit/cordon/enforcers/cgroup"
	"github.com/aicodesit/cordon/specs"
)

// requests is what answers on the daemon's socket. Its sessions are run by the
// front, if there is one: as long as one lasts, its process does.
func (d *daemonProcess) requests(ctx context.Context) *broker.Server {
	var program func() string
	front, err := pair.Hold(ctx, d.Version)
	switch {
	case err != nil:
		d.Log().WarnContext(ctx, "sessions are run by the complete program, which takes more memory", "error", err)
	case front != nil:
		program = front.Path // which holds the file
	}
	return broker.New(broker.Options{
		Program: program,
		Set:     d.follower.Set, Emit: d.loop.Emit, State: d.state, Log: d.Log(), Settings: &d.Settings,
		List: func(ctx context.Context, set specs.Set) ([]broker.Session, error) {
			list, err := d.Sessions().List(ctx, set)
			return d.WithTokens(list), err
		},
		Stop:   d.Sessions().Stop,
		Inside: func(pid int) (bool, error) { return cgroup.Inside(d.CgroupParent, pid) },
	})
}
