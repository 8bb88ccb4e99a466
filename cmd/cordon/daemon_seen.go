package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aicodesit/cordon/cmd/cordon/internal/eventlog"
	"github.com/aicodesit/cordon/cmd/cordon/internal/metrics"
	"github.com/aicodesit/cordon/cmd/cordon/internal/web"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// stuckAfter is how long a step may take until health says so.
const stuckAfter = 5 * time.Minute

// web is what the daemon shows by HTTP.
func (d *daemonProcess) web() http.Handler {
	return web.New(web.Options{
		State: d.state, Alive: d.alive, Events: d.seen.events.Last, Hosts: d.values.GetStringSlice("listen-name"), Log: d.Log(),
		Metrics: prometheus.Gatherers{d.seen.metrics, &d.proxies.metrics},
	})
}

// alive is an error when the loop does not go round.
func (d *daemonProcess) alive() error {
	if d.stuck(stuckAfter) {
		return fmt.Errorf("%s: at one step for more than %s", kernelGroup, stuckAfter)
	}
	return nil
}

// stuck tells whether the host has been at one step for longer than limit. A
// database or a repository that does not answer is its part's to tell: to start
// the daemon again would not help, and would hold up all others.
func (d *daemonProcess) stuck(limit time.Duration) bool {
	return slices.Contains(d.loop.Stuck(limit), kernelGroup)
}

// state is all that the daemon knows.
func (d *daemonProcess) state() loop.State {
	s := d.loop.State()
	s.Version, s.PID, s.Source = d.Version, os.Getpid(), d.shown
	d.follower.Describe(&s)
	s.Parts = append(s.Parts, d.proxies.services.Parts()...)
	slices.SortFunc(s.Parts, func(a, b loop.Part) int { return strings.Compare(a.Name, b.Name) })
	s.Notes = append(s.Notes, d.unwatched()...)
	s.Warm = d.warm(s.Sessions)
	return s
}

// warm is how many slots there are beside those of sessions.
func (d *daemonProcess) warm(sessions []loop.Session) int {
	pins, err := d.Rundir().Pins()
	if err != nil {
		return 0 // the part that reads them tells
	}
	n := len(pins)
	for _, s := range sessions {
		if s.Address != "" {
			n--
		}
	}
	return max(n, 0)
}

// tell tells of an event all who want to know.
func (d *daemonProcess) tell(e loop.Event) {
	logEvent(d.Log(), e)
	d.notifier.emit(e)
	d.seen.event(e)
}

// observer is what is seen of a daemon's events. They come one at a time.
type observer struct {
	log     *slog.Logger
	events  eventlog.Log
	metrics *metrics.Metrics
	failed  bool // the last could not be written
}

func newObserver(log *slog.Logger, events eventlog.Log, state func() loop.State) *observer {
	return &observer{log: log, events: events, metrics: metrics.New(version, state)}
}

func (o *observer) event(e loop.Event) {
	o.metrics.Event(e)
	switch {
	case o.told(e):
		return
	case e.Kind == loop.SessionEnded:
		e.By, e.Text = "daemon", "its process was killed"
	}
	err := o.events.Append(e)
	if err != nil {
		o.metrics.Lost()
	}
	switch {
	case err != nil && !o.failed:
		o.log.Error("what happens is not in the event log", "error", err)
	case err == nil && o.failed:
		o.log.Info("what happens is in the event log again")
	}
	o.failed = err != nil
}

// recent is how far back an event is looked for.
const recent = 500

// told tells whether a session wrote e itself, and knew more: each its start,
// and its end unless it was killed.
func (o *observer) told(e loop.Event) bool {
	switch e.Kind {
	case loop.SessionStarted:
		return true
	case loop.SessionEnded:
	default:
		return false
	}
	events, err := o.events.Last(recent)
	return err == nil && slices.ContainsFunc(events, func(x loop.Event) bool {
		return x.Kind == e.Kind && x.Session == e.Session
	})
}

// logEvent writes an event to the process's log.
func logEvent(log *slog.Logger, e loop.Event) {
	level := slog.LevelInfo
	switch e.Kind {
	case loop.RevisionRefused, loop.SourceFailed, loop.ChangeFailed, loop.FightBegan:
		level = slog.LevelError
	case loop.DriftSeen, loop.PauseBegan:
		level = slog.LevelWarn
	}
	attrs := []any{"kind", e.Kind}
	for _, a := range [][2]string{
		{"part", e.Part},
		{"address", string(e.Addr)},
		{"action", string(e.Action)},
		{"revision", e.Revision},
		{"session", e.Session},
		{"by", e.By},
		{"text", e.Text},
		{"error", e.Error},
	} {
		if a[1] != "" {
			attrs = append(attrs, a[0], a[1])
		}
	}
	log.Log(context.Background(), level, "event", attrs...)
}
