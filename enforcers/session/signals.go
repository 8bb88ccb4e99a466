package session

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/bwrap"
	"github.com/aicodesit/cordon/internal/terminal"
	"github.com/aicodesit/cordon/specs"
)

// stopFile, in a session's directory, is how `cordon stop` says more than a
// signal can.
const stopFile = "stop"

// Order says how a session is to end. The zero Order leaves all to its
// sandbox.
type Order struct {
	Signal string         `json:"signal,omitempty"` // name, with or without SIG
	Grace  *time.Duration `json:"grace,omitempty"`  // until all of it is killed
	Why    string         `json:"-"`                // what who runs the session is told; not for others to say

	restart bool // then it is to be started again
}

// leftOrder is an Order as it stands in the stopFile.
type leftOrder struct {
	Order
	Why string `json:"why,omitempty"`
}

// stoppedError is a session that was ended before it began.
type stoppedError struct{ signal unix.Signal }

func (e *stoppedError) Error() string {
	return "ended by " + unix.SignalName(e.signal) + " before it began"
}

// signals are those that the caller gets while it has a session.
type signals struct {
	got   chan os.Signal
	close func()
}

func listen(c terminal.Caller) *signals {
	s := &signals{got: make(chan os.Signal, 16)}
	s.close = c.Notify(s.got, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	return s
}

// interrupts returns a context that ends when this process is asked to end,
// until stop is called, once or more often.
func (s *signals) interrupts(ctx context.Context) (interrupted context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case got := <-s.got:
				if sig := got.(unix.Signal); sig != unix.SIGUSR1 && sig != unix.SIGUSR2 {
					cancel(&stoppedError{sig})
				}
			}
		}
	}()
	return ctx, sync.OnceFunc(func() { close(quit); <-done })
}

// forward hands signals to the command until done is closed. When this
// process is asked to end, by a signal or by ctx, the session has its grace
// period, then all of it is killed.
func (s *signals) forward(ctx context.Context, r *running, proc *bwrap.Process, done <-chan struct{}) {
	var kill <-chan time.Time
	ended := ctx.Done()
	for {
		var sig unix.Signal
		select {
		case <-done:
			return
		case <-kill:
			if err := r.Groups.Kill(context.WithoutCancel(ctx), r.id); err != nil {
				r.log().Warn("the session did not end", "session", r.id, "err", err)
			}
			kill = nil
			continue
		case <-ended:
			ended, sig = nil, unix.SIGTERM
		case got := <-s.got:
			sig = got.(unix.Signal)
		}
		send, grace := r.stopWith(sig)
		if err := proc.Signal(context.WithoutCancel(ctx), send); err != nil {
			r.log().Warn("signal", "session", r.id, "err", err)
		}
		if kill == nil && (sig == unix.SIGTERM || sig == unix.SIGINT || sig == unix.SIGHUP) {
			kill = time.After(grace)
		}
	}
}

// stopWith is what a signal to this process means for the command.
func (s *running) stopWith(sig unix.Signal) (send unix.Signal, grace time.Duration) {
	send, grace = sig, s.lease.Grace
	if sig != unix.SIGTERM {
		return send, grace
	}
	if n := signalNumber(s.stopSignal()); n != 0 {
		send = n
	}
	b, err := os.ReadFile(filepath.Join(s.RunDir.Session(s.id), stopFile))
	var order leftOrder
	if err != nil || json.Unmarshal(b, &order) != nil {
		return send, grace
	}
	s.ended = order.Why
	if n := signalNumber(order.Signal); n != 0 {
		send = n
	}
	if order.Grace != nil {
		grace = *order.Grace
	}
	return send, grace
}

func (s *running) stopSignal() string {
	if sb := specs.Find(s.set.Sandboxes, s.q.Sandbox); sb != nil && sb.StopSignal != "" {
		return sb.StopSignal
	}
	return "TERM"
}

// signalNumber is the signal called name, with or without SIG; 0 is none.
func signalNumber(name string) unix.Signal {
	if n := unix.SignalNum(name); n != 0 {
		return n
	}
	return unix.SignalNum("SIG" + name)
}
