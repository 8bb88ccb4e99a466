package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/aicodesit/cordon/cmd/cordon/internal/eventlog"
	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// recorder writes what a command does into the event log. That it can't is
// told at the end, and stops nothing.
type recorder struct {
	events eventlog.Log
	by     func() string
	log    *slog.Logger

	mu   sync.Mutex
	lost int   // events
	err  error // why, the first time
}

func (a *app) events() eventlog.Log { return eventlog.In(a.StateDir) }

func (a *app) recorder() *recorder {
	return &recorder{events: a.events(), by: sync.OnceValue(eventlog.By), log: a.log()}
}

func (r *recorder) add(e loop.Event) {
	e.By = r.by()
	if err := r.events.Append(e); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lost++
		if r.err == nil {
			r.err = err
		}
	}
}

// change adds how a change ended; nothing of one that was not tried.
func (r *recorder) change(e reconciler.Event) {
	addr := e.Change.Addr()
	out := loop.Event{Kind: loop.ChangeMade, Part: addr.Enforcer(), Addr: addr, Action: e.Change.Action(), Text: e.Change.Describe()}
	switch {
	case e.Skipped:
		return
	case e.Err != nil:
		out.Kind, out.Error = loop.ChangeFailed, e.Err.Error()
	}
	r.add(out)
}

// session is for who runs one. Its command waits for no disk: the start is
// written beside it.
func (r *recorder) session() session.Told {
	var written chan struct{} // closed when the start is; nil before
	return session.Told{
		Changed: r.change,
		Began: func(l specs.Lease) {
			if written != nil { // it was started again
				return
			}
			written = make(chan struct{})
			go func() {
				defer close(written)
				r.add(sessionEvent(loop.SessionStarted, l, "as "+l.User))
			}()
		},
		Ended: func(l specs.Lease, code int, err error) {
			e := sessionEvent(loop.SessionFailed, l, "")
			if written != nil {
				<-written
				e = sessionEvent(loop.SessionEnded, l, fmt.Sprintf("exit code %d", code))
			}
			if err != nil {
				e.Error = err.Error()
			}
			r.add(e)
		},
	}
}

func sessionEvent(k loop.Kind, l specs.Lease, text string) loop.Event {
	return loop.Event{Kind: k, Session: l.ID, Project: l.Project, Sandbox: l.Sandbox, Text: text}
}

func (r *recorder) close(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		r.log.WarnContext(ctx, "what happened is not all in the event log", "lost", r.lost, "error", r.err)
	}
}
