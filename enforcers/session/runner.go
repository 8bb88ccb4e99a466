package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/aicodesit/cordon/internal/bwrap"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/internal/terminal"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Failed is the exit code for all that cordon itself could not do.
const Failed = 125

// Runner runs sessions in the foreground, one with each call of Run.
type Runner struct {
	Set        specs.Set              // without facts
	Reconciler *reconciler.Reconciler // with the enforcers session, cgroup, seccomp, root, network and slot
	RunDir     rundir.Dir
	Groups     Groups
	Log        *slog.Logger

	Stdin, Stdout, Stderr *os.File
	Environ               []string        // the caller's
	Caller                terminal.Caller // nil: this process
	Messages              io.Writer       // what the caller is told; nil: Stderr

	// Admit waits until the session may be started, or ctx ends. nil: at once.
	Admit func(ctx context.Context) error

	Operator *uint32 // for whom the session is started; nil: for root itself

	StateDir string // of kept homes
	Tokens   Tokens // nil: agents get none
	// Scrub takes a session's traces out of its transcripts; nil leaves them.
	Scrub func(context.Context, Transcript) error

	// Reload reads the files again, for a session that is started again under
	// a changed profile. Without it such a session ends.
	Reload func(context.Context) (specs.Set, error)
	// Userns tells whether a user may make user namespaces on this host; nil
	// is [UserNamespaces].
	Userns func(uid uint32) bool

	Told Told
}

// Told is who is told of a session; each may be nil. A session waits for none
// but Ended.
type Told struct {
	// Changed is told how a change ended that the session's start needed, to
	// what is not the session's alone.
	Changed func(reconciler.Event)
	// Began is told when the session's command runs, and Ended when it has
	// ended or could not be started, while the lease still stands. Of a lease
	// that was not written it has what was asked for.
	Began func(specs.Lease)
	Ended func(l specs.Lease, code int, err error)
}

// Request is what to run.
type Request struct {
	Sandbox string
	Project string   // "" is outside any project
	Command []string // nil is the sandbox's own
}

// Run runs a session to its end and returns its exit code, which counts with
// an error too. Signals TERM, INT, HUP, QUIT, USR1 and USR2 to this process go
// to the session's command; after TERM, INT and HUP it has the sandbox's grace
// period to end.
//
// All descriptors of this process from 3 up become close-on-exec.
func (r *Runner) Run(ctx context.Context, q Request) (code int, err error) {
	s := &running{Runner: r, q: q, signals: listen(r.caller())}
	defer s.signals.close()
	s.relay, err = terminal.New(r.caller(), r.Stdin, r.Stdout, r.Stderr)
	if err != nil {
		return Failed, err
	}
	defer s.relay.Close()
	if s.id, err = newID(); err != nil {
		return Failed, err
	}
	set := r.Set
	for {
		code, err = s.once(ctx, set)
		if err != nil || !s.restarts() {
			break
		}
		if set, err = r.Reload(ctx); err != nil {
			code, err = Failed, fmt.Errorf("%s: start again: %w", Addr(s.id), err)
			break
		}
		s.again = true
		s.relay.Close()
		if s.relay, err = terminal.New(r.caller(), r.Stdin, r.Stdout, r.Stderr); err != nil {
			code = Failed
			break
		}
	}
	s.relay.Close() // before anything is said on the terminal
	code = exitCode(code, err)
	if s.Told.Ended != nil {
		s.Told.Ended(s.whatRan(), code, err)
	}
	s.finish(ctx)
	return code, err
}

func (r *Runner) caller() terminal.Caller {
	if r.Caller == nil {
		return terminal.Self{}
	}
	return r.Caller
}

// whatRan is the lease, or what it would have been.
func (s *running) whatRan() specs.Lease {
	if s.lock != nil {
		return s.lease.Lease
	}
	return specs.Lease{ID: s.id, Project: s.q.Project, Sandbox: s.q.Sandbox, Slot: -1}
}

// exitCode finds the code that an error stands for.
func exitCode(code int, err error) int {
	var command *bwrap.CommandError
	var stopped *stoppedError
	switch {
	case err == nil:
		return code
	case errors.As(err, &command):
		return command.Code
	case errors.As(err, &stopped):
		return 128 + int(stopped.signal)
	}
	return Failed
}

// running is a session that this process runs.
type running struct {
	*Runner
	q       Request
	id      string
	lock    *os.File // held while the lease lives; nil before
	lease   record
	again   bool      // it ran before, under another profile
	set     specs.Set // that it was last started with
	relay   *terminal.Relay
	signals *signals
	ended   string // why it was ended, for who runs it
}

// once starts the session and waits for its end.
func (s *running) once(ctx context.Context, set specs.Set) (int, error) {
	starting, stop := s.signals.interrupts(ctx)
	defer stop()
	p, err := s.prepare(starting, set, s.q, s.id) // a directory service may have it wait
	if err != nil {
		return Failed, interrupted(starting, err)
	}
	defer p.close()
	s.set = set
	proc, err := s.admitted(starting, p, stop)
	stop()
	err = interrupted(starting, err)
	var stopped *stoppedError
	if errors.As(err, &stopped) {
		return Failed, err
	}
	if err != nil {
		return Failed, fmt.Errorf("%s: %w", Addr(s.id), err)
	}
	if err := s.relay.Start(s.Stdin); err != nil {
		return Failed, errors.Join(err, proc.Kill())
	}
	if s.Told.Began != nil {
		s.Told.Began(s.lease.Lease)
	}
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() { defer close(watched); s.signals.forward(ctx, s, proc, done) }()
	code, err := proc.Wait()
	close(done)
	<-watched
	s.relay.Close()
	if s.ended != "" {
		s.say("the session was ended: %s", s.ended)
	}
	s.killGroup(context.WithoutCancel(ctx))
	return code, err
}

// interrupted is err, with what ended ctx before it.
func interrupted(ctx context.Context, err error) error {
	if why := context.Cause(ctx); err != nil && why != nil && !errors.Is(err, why) {
		err = errors.Join(why, err)
	}
	return err
}

// admitted is start, once the session may.
func (s *running) admitted(ctx context.Context, p *plan, begin func()) (*bwrap.Process, error) {
	if s.Admit != nil && !s.again {
		if err := s.Admit(ctx); err != nil {
			return nil, err
		}
	}
	return s.start(ctx, p, begin)
}

// killGroup ends what the command left behind, and says if memory was short.
func (s *running) killGroup(ctx context.Context) {
	if err := s.Groups.Kill(ctx, s.id); err != nil {
		s.log().Warn("processes of the session may be left", "session", s.id, "err", err)
	}
	oom, err := s.Groups.OOMKilled(s.id)
	if err == nil && oom {
		s.say("the session reached its memory limit of %d MiB, and the kernel ended a process of it", s.lease.Limits.Memory>>20)
	}
}

// restarts tells whether the session ended in order to be started again.
func (s *running) restarts() bool {
	mark := s.RunDir.Session(s.id) + "/" + restartFile
	if _, err := os.Lstat(mark); err != nil || s.Reload == nil {
		return false
	}
	return os.Remove(mark) == nil
}

func (s *running) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// say tells the person who runs the session.
func (s *running) say(format string, args ...any) {
	var to io.Writer = s.Stderr
	if s.Messages != nil {
		to = s.Messages
	}
	fmt.Fprintf(to, "cordon: "+format+"\n", args...)
}
