package cli

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

// Recorder writes what a command does into the event log. That it can't is
// told at the end, and stops nothing.
type Recorder struct {
	events eventlog.Log
	by     func() string
	log    *slog.Logger

	mu   sync.Mutex
	lost int   // events
	err  error // why, the first time
}

func (a *App) Events() eventlog.Log { return eventlog.In(a.StateDir) }

func (a *App) Recorder() *Recorder {
	return &Recorder{events: a.Events(), by: sync.OnceValue(eventlog.By), log: a.Log()}
}

func (r *Recorder) Add(e loop.Event) {
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

// Change adds how a change ended; nothing of one that was not tried.
func (r *Recorder) Change(e reconciler.Event) {
	addr := e.Change.Addr()
	out := loop.Event{Kind: loop.ChangeMade, Part: addr.Enforcer(), Addr: addr, Action: e.Change.Action(), Text: e.Change.Describe()}
	switch {
	case e.Skipped:
		return
	case e.Err != nil:
		out.Kind, out.Error = loop.ChangeFailed, e.Err.Error()
	}
	r.Add(out)
}

// session is for who runs one. Its command waits for no disk: the start is
// written beside it.
func (r *Recorder) session() session.Told {
	var written chan struct{} // closed when the start is; nil before
	return session.Told{
		Changed: r.Change,
		Began: func(l specs.Lease) {
			if written != nil { // it was started again
				return
			}
			written = make(chan struct{})
			go func() {
				defer close(written)
				r.Add(sessionEvent(loop.SessionStarted, l, "as "+l.User))
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
			r.Add(e)
		},
	}
}

func sessionEvent(k loop.Kind, l specs.Lease, text string) loop.Event {
	return loop.Event{Kind: k, Session: l.ID, Project: l.Project, Sandbox: l.Sandbox, Text: text}
}

func (r *Recorder) Close(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		r.log.WarnContext(ctx, "what happened is not all in the event log", "lost", r.lost, "error", r.err)
	}
}
