package broker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// Options is what a [Server] works with.
type Options struct {
	// Set is what is enforced, without facts; false: nothing yet.
	Set func() (specs.Set, bool)
	// List are the sessions that run, Stop ends one and waits for its end.
	List func(context.Context, specs.Set) ([]Session, error)
	Stop func(ctx context.Context, id string, order session.Order) error
	// Inside tells whether a process belongs to a session.
	Inside func(pid int) (bool, error)
	// Emit is told of refusals.
	Emit func(loop.Event)
	// State is what the daemon knows; nil: nobody may ask.
	State func() loop.State

	// Settings is what each runner gets as [Job.Settings].
	Settings any
	// Program is the path of what is executed as "cordon runner"; nil: this
	// program.
	Program func() string
	Log     *slog.Logger
}

// Who may make requests of a kind.
type Who int

// The groups of callers, each within the next.
const (
	Root      Who = iota
	Operators     // of at least one project, and root
)

// String names who may.
func (w Who) String() string {
	if w == Operators {
		return "root and projects' operators"
	}
	return "root"
}

// Handler answers a request. body is strict JSON, nil if there was none. What
// it returns becomes JSON; a *[RefusedError] is told as one. ctx ends with the
// daemon and when the client hangs up.
type Handler func(ctx context.Context, c Caller, body json.RawMessage) (any, error)

type route struct {
	who    Who
	handle Handler
}

// Server answers requests.
type Server struct {
	Options
	accounts accounts
	routes   map[string]route
	entrance turnstile
	hush     hush
	turns    turns
	review   chan struct{}
	again    chan struct{} // a review, later
	ending   endings
}

// New returns a Server that answers the kinds of this package.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Program == nil {
		o.Program = func() string { return "/proc/self/exe" }
	}
	s := &Server{Options: o, accounts: system{}, routes: map[string]route{}, turns: newTurns(max(4, 2*runtime.NumCPU())), review: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	s.Handle(KindPS, Operators, s.ps)
	s.Handle(KindStop, Operators, s.stop)
	s.Handle(kindSet, Root, s.set)
	s.Handle(kindReview, Root, func(context.Context, Caller, json.RawMessage) (any, error) { s.Review(); return nil, nil })
	if o.State != nil {
		s.Handle(KindState, Operators, s.state)
	}
	return s
}

// Handle answers requests of a kind, for who may make them. It must not be
// called once the Server serves.
func (s *Server) Handle(kind string, who Who, h Handler) { s.routes[kind] = route{who, h} }

// How long a client may take to say what it wants, and to take the answer.
const (
	requestTimeout = 5 * time.Second
	answerTimeout  = 10 * time.Second
)

// acceptPause is how long Serve waits when it can't take a connection: for
// lack of descriptors, others must end first.
const acceptPause = 50 * time.Millisecond

// Serve answers on l until ctx ends. Sessions go on. The socket stays, as that
// of a daemon that was killed does: clients find that nobody answers.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { s.reviews(ctx) })
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			s.Log.WarnContext(ctx, "daemon socket", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		all.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			s.serve(ctx, c)
			_ = c.Close()
		})
	}
}
