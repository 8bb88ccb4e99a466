package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// systemd tells systemd, if it started the daemon, how the daemon stands, see
// sd_notify(3).
func (d *daemonProcess) systemd(state ...string) {
	if _, err := systemd.SdNotify(false, strings.Join(state, "\n")); err != nil {
		d.Log().Debug("systemd can't be told", "error", err)
	}
}

// reloading is told before settings are read again; READY=1 ends it.
func (d *daemonProcess) reloading() {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return
	}
	d.systemd(systemd.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// watchdog tells systemd that the daemon lives, for as long as it gets on: one
// that hangs is started again.
func (d *daemonProcess) watchdog(ctx context.Context) {
	limit, err := systemd.SdWatchdogEnabled(false)
	if err != nil || limit <= 0 {
		return
	}
	tick := time.NewTicker(limit / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if d.stuck(limit) {
			d.Log().Error("no step forward for as long as the watchdog waits", "group", kernelGroup)
			continue
		}
		d.systemd(systemd.SdNotifyWatchdog, "STATUS="+d.status())
	}
}

// status is a line for `systemctl status`.
func (d *daemonProcess) status() string {
	s := d.state()
	switch {
	case s.Revision == nil:
		return "nothing is enforced yet"
	case s.Paused != nil:
		return "paused by " + s.Paused.By + " at " + s.Revision.ID
	case s.Converged():
		return "converged at " + s.Revision.ID
	}
	return "not converged at " + s.Revision.ID + ", see cordon status"
}
