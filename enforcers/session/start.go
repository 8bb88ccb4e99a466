package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/agent"
	"github.com/aicodesit/cordon/internal/bwrap"
	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// start makes all that the session needs and lets its command run. begin is
// called right before: signals are the command's from then on. The lease
// stands even when it fails; [running.finish] ends it.
func (s *running) start(ctx context.Context, p *plan, begin func()) (*bwrap.Process, error) {
	dead, err := s.allocate(ctx, p)
	if err != nil {
		return nil, err
	}
	unlock, err := s.RunDir.Lock(ctx, false, func() { s.say("waiting for another cordon that is changing this host") })
	if err != nil {
		return nil, err
	}
	defer unlock()
	if dead {
		if err := s.cleaner().all(ctx); err != nil {
			s.log().WarnContext(ctx, "remains of dead sessions are left for the next apply", "err", err)
		}
	}
	release, err := s.allocation(ctx, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.freshGroup(ctx); err != nil {
		return nil, err
	}
	proc, err := s.launch(ctx, p)
	var network *networkError
	if errors.As(err, &network) {
		proc, err = s.launchIsolated(ctx, p, network)
	}
	if err != nil {
		return nil, err
	}
	s.checkProxy(ctx, p)
	err = proc.Lookup()
	begin()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = proc.Release()
	}
	if err != nil {
		return nil, errors.Join(err, proc.Kill())
	}
	return proc, nil
}

// launchTries bounds how often what a session needs may be made anew while it starts.
const launchTries = 20

// freshGroup removes the control group of a session that is started again:
// Linux (6.18 at least) kills at once what is cloned into a group that
// cgroup.kill was ever written to.
func (s *running) freshGroup(ctx context.Context) error {
	if !s.again {
		return nil
	}
	_, err := s.converge(ctx, specs.Set{}, reconciler.NewAddr("cgroup", s.id))
	return err
}

// launchIsolated starts the session once more, without its network.
func (s *running) launchIsolated(ctx context.Context, p *plan, why *networkError) (*bwrap.Process, error) {
	n := specs.Find(p.set.Networks, s.lease.Network)
	if n == nil {
		return nil, why
	}
	if err := s.isolate(*n, why); err != nil {
		return nil, err
	}
	if err := s.writeLease(); err != nil {
		return nil, err
	}
	return s.launch(ctx, p)
}

// launch starts bubblewrap up to the gate and, meanwhile, makes or verifies
// all that the session needs; once more when that was made anew, by it or by
// another session, which found it changed. It returns a *networkError when that
// failed for the network alone.
func (s *running) launch(ctx context.Context, p *plan) (proc *bwrap.Process, err error) {
	for range launchTries {
		if proc, err = s.launchOnce(ctx, p); !errors.Is(err, bwrap.ErrReplaced) {
			break
		}
	}
	return proc, err
}

func (s *running) launchOnce(ctx context.Context, p *plan) (*bwrap.Process, error) {
	set, err := s.facts(p.set)
	if err != nil {
		return nil, err
	}
	group := s.makeGroup(ctx, set)
	defer func() { _ = group() }() // it must not be made any more when the caller cleans up
	spec, err := s.spec(p)
	if err != nil {
		return nil, err
	}
	check := sync.OnceValues(func() (moved bool, err error) { return s.converge(ctx, set, Addr(s.id)) })
	spec.Enter = func(attr *syscall.SysProcAttr) (func() error, error) {
		if err := group(); err != nil {
			return nil, err
		}
		// The tree, the sources and the namespace are taken: from now on a look
		// at them is one at what the session gets.
		go check()
		return s.Groups.Enter(s.id, attr)
	}
	// bubblewrap works by itself for a few milliseconds, up to the gate.
	var proc *bwrap.Process
	early := missing(spec)
	absent := early != nil
	if !absent {
		proc, early = bwrap.Start(spec)
	}
	if err := group(); err != nil {
		if proc != nil {
			err = errors.Join(err, proc.Kill())
		}
		return nil, err
	}
	moved, err := check()
	if proc != nil && (moved || err != nil) { // what it was started in is not there any more
		err = errors.Join(err, proc.Kill())
		proc = nil
	}
	switch {
	case err != nil:
		return nil, err
	case moved, absent && missing(spec) == nil: // it is to be looked at once it is taken
		return nil, fmt.Errorf("what the session needs: %w", bwrap.ErrReplaced)
	case early != nil:
		return nil, early
	}
	if err := proc.Verify(ctx); err != nil {
		return nil, errors.Join(err, proc.Kill())
	}
	return proc, nil
}

// makeGroup makes the session's control group meanwhile; the function that it
// returns waits for that.
func (s *running) makeGroup(ctx context.Context, set specs.Set) (wait func() error) {
	made := make(chan error, 1)
	go func() {
		_, err := s.converge(ctx, set, reconciler.NewAddr("cgroup", s.id))
		made <- err
	}()
	return sync.OnceValue(func() error { return <-made })
}

// missing is an error unless what bubblewrap itself needs is there.
func missing(spec bwrap.Spec) error {
	for _, path := range []string{spec.Root, spec.Filter, spec.Netns} {
		if _, err := os.Stat(path); path != "" && err != nil {
			return err
		}
	}
	return nil
}

// facts is set with the leases that live now.
func (s *running) facts(set specs.Set) (specs.Set, error) {
	list, err := s.sessions().list()
	if err != nil {
		return set, err
	}
	set.Leases, err = leases(list)
	return set, err
}

// networkError is a failure of nothing but the network's parts.
type networkError struct{ err error }

func (e *networkError) Error() string { return e.err.Error() }
func (e *networkError) Unwrap() error { return e.err }

// converge makes the resources at roots, and what they need, as set desires.
// moved tells whether something changed that a process started before may
// have the old one of.
func (s *running) converge(ctx context.Context, set specs.Set, roots ...reconciler.Addr) (moved bool, err error) {
	plan, err := s.Reconciler.PlanPart(ctx, set, roots)
	if err != nil {
		return false, err
	}
	if changesShared(plan) {
		// One at a time makes what belongs to no session alone; who waited
		// looks again.
		unlock, err := s.lockFile(ctx, ".shared", unix.LOCK_EX)
		if err != nil {
			return false, err
		}
		defer unlock()
		moved = true
		if plan, err = s.Reconciler.PlanPart(ctx, set, roots); err != nil {
			return moved, err
		}
	}
	network, other := failures{}, failures{}
	sort := func(enforcer string, err error) {
		if enforcer == "network" || enforcer == "slot" {
			network = append(network, err)
		} else {
			other = append(other, err)
		}
	}
	for _, f := range plan.Failures {
		sort(f.Enforcer, f.Err)
	}
	if len(plan.Failures) == 0 {
		for _, r := range s.Reconciler.Apply(ctx, plan, s.changed).Results {
			if r.Err != nil && !r.Skipped {
				sort(r.Change.Addr().Enforcer(), r.Err)
			}
			if r.Skipped && ctx.Err() != nil {
				other = append(other, r.Err)
			}
			moved = moved || slices.Contains([]string{"root", "seccomp", "slot"}, r.Change.Addr().Enforcer())
		}
	}
	switch {
	case ctx.Err() != nil && len(other)+len(network) > 0: // each change says so, too
		return moved, context.Cause(ctx)
	case len(other) > 0:
		return moved, errors.Join(append(other, network...)...)
	case len(network) > 0:
		return moved, &networkError{errors.Join(network...)}
	}
	return moved, nil
}

// changed tells of changes to what others use too.
func (s *running) changed(e reconciler.Event) {
	if s.Told.Changed != nil && e.Done && !e.Skipped && !e.Change.IsEphemeral() {
		s.Told.Changed(e)
	}
}

// changesShared tells whether the plan changes something that other sessions
// use too, or will.
func changesShared(p *reconciler.Plan) bool {
	return slices.ContainsFunc(p.Changes, func(c reconciler.Change) bool { return !c.IsEphemeral() })
}

type failures []error

// spec is the sandbox as bubblewrap is to make it.
func (s *running) spec(p *plan) (bwrap.Spec, error) {
	program, err := lookup("bwrap")
	if err != nil {
		return bwrap.Spec{}, err
	}
	files, tty := s.relay.Files()
	if err := s.relay.Own(int(p.who.uid)); err != nil {
		return bwrap.Spec{}, err
	}
	spec := bwrap.Spec{
		Program: program, Root: s.RunDir.Root(p.sandbox.Name), UID: p.who.uid, GID: p.who.gid,
		Userns: s.userns(p.who.uid), Nested: agent.Nests(p.sandbox), Stage: s.RunDir.Session(s.id), Hostname: p.sandbox.Name,
		Namespaces: p.sandbox.Namespaces, Mounts: slices.Clone(p.mounts), Capabilities: p.sandbox.Capabilities,
		Filter: s.RunDir.Seccomp(agent.Filter(p.sandbox)), Logged: p.logged(), Dir: p.dir, Env: p.env, Command: p.command, Files: files, TTY: tty,
	}
	if !spec.Userns && spec.UID == 0 {
		return spec, fmt.Errorf("root in a sandbox needs user namespaces, and this host has none for it: it would be the host's root")
	}
	if !spec.Userns && len(spec.Capabilities) > 0 {
		return spec, fmt.Errorf("capabilities need user namespaces, and this host has none for users")
	}
	if !spec.Userns && spec.Nested {
		return spec, fmt.Errorf("hide needs user namespaces for the agent's own sandbox, and this host has none for users: leave hide out")
	}
	if s.lease.Slot >= 0 {
		spec.Netns = s.RunDir.Netns(s.lease.Network, s.lease.Slot)
		for i, m := range spec.Mounts {
			if m.To == "/etc/hosts" && m.Content != nil {
				spec.Mounts[i].Content = p.hosts(s.lease.Slot)
			}
		}
	}
	return spec, s.prepareAgent(p, &spec)
}

func (s *running) userns(uid uint32) bool {
	if s.Userns != nil {
		return s.Userns(uid)
	}
	return UserNamespaces(uid)
}

// lookup finds a program of the host's.
func lookup(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &run.Error{Argv: []string{name}, Err: err}
	}
	return path, nil
}
