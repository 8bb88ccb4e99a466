package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

const (
	// readTimeout bounds one look at a group.
	readTimeout = 30 * time.Second
	// stepTimeout bounds the time from one change to the next: a database that
	// does not answer any more is a failure, and is reached anew.
	stepTimeout = 5 * time.Minute
)

// pass looks once and makes what is to be made. It tells whether something
// was: then it is to be looked at again.
func (g *group) pass(ctx context.Context) (again bool) {
	p := g.plan(ctx)
	if p == nil {
		return false
	}
	if !g.judge(p, false) {
		g.show(p)
		return false
	}
	if g.target.Lock != nil {
		g.show(p)
		g.at(time.Time{}) // whom it waits for is not its own step
		unlock, err := g.target.Lock(ctx)
		if err != nil {
			g.fail(ctx, fmt.Errorf("the host's lock: %w", err))
			return false
		}
		defer unlock()
		if p = g.plan(ctx); p == nil { // it may have moved meanwhile
			return false
		}
	}
	due := g.judge(p, true)
	g.show(p)
	if !due {
		return false
	}
	rest := *p
	rest.Hold(func(c reconciler.Change) bool { return g.tracks[c.Addr()].why != "" })
	for _, r := range g.apply(ctx, &rest) {
		again = g.record(r) || again
	}
	if !again { // else it is the next look that tells what came of it
		g.show(p)
	}
	return again
}

// apply makes the changes, and returns how they ended. One that takes too long
// fails, and those that had to wait for it were not tried.
func (g *group) apply(ctx context.Context, p *reconciler.Plan) []reconciler.Result {
	applying, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(stepTimeout, cancel)
	defer late.Stop()
	results := g.target.Reconciler.Apply(applying, p, func(reconciler.Event) {
		g.at(time.Now())
		late.Reset(stepTimeout)
	}).Results
	if applying.Err() == nil || ctx.Err() != nil {
		return results
	}
	var first error
	for i := range results {
		r := &results[i]
		if !errors.Is(r.Err, context.Canceled) {
			continue
		}
		r.Skipped = first != nil
		if first == nil {
			first = fmt.Errorf("%s: came to no end within %s", r.Change.Addr(), stepTimeout)
		}
		r.Err = first
	}
	return results
}

// plan looks at the group; nil: ctx ended, or nothing could be compared.
func (g *group) plan(ctx context.Context) *reconciler.Plan {
	now := time.Now()
	g.at(now)
	r := *g.target.Reconciler
	r.Enforcers = make([]reconciler.Named, len(g.parts))
	for i, e := range g.target.Reconciler.Enforcers {
		r.Enforcers[i] = g.parts[i].rested(e, now)
	}
	reading, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("not read within %s", readTimeout))
	defer cancel()
	p, err := r.Plan(reading, g.target.Set)
	if ctx.Err() != nil {
		return nil
	}
	g.at(time.Now())
	if err != nil {
		g.fail(ctx, err)
		return nil
	}
	return p
}

// fail notes an error that keeps the whole group from being changed.
func (g *group) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	for _, p := range g.parts {
		if p.unreadable(err, false, now) {
			g.loop.Emit(Event{Kind: ChangeFailed, Part: p.Name, Error: err.Error()})
		}
		p.failed = true
		p.settle(Failing, err.Error(), now)
	}
	g.publish(nil)
}

// record notes how a change ended, and tells whether it was made.
func (g *group) record(r reconciler.Result) (made bool) {
	now := time.Now()
	addr := r.Change.Addr()
	t := g.tracks[addr]
	e := Event{Part: g.target.part(addr.Enforcer()), Addr: addr, Action: r.Change.Action()}
	switch {
	case r.Err == nil:
		e.Kind, e.Text = ChangeMade, r.Change.Describe()
		g.loop.Emit(e)
		if t.made(addr, now) {
			e.Kind, e.Text = FightBegan, fmt.Sprintf("repaired %d times within %s: something else keeps changing it back", fightAfter, fightWindow)
			g.loop.Emit(e)
		}
		return true
	case r.Skipped:
		t.waits = r.Err.Error()
		return false
	}
	if t.failed(r.Err, now) {
		e.Kind, e.Error = ChangeFailed, r.Err.Error()
		g.loop.Emit(e)
	}
	return false
}

// sessions tells of those that came and went since the last look.
func (g *group) sessions(p *reconciler.Plan) {
	for _, f := range p.Failures {
		if f.Survey {
			return
		}
	}
	before := g.leases
	g.leases = make(map[string]specs.Lease, len(p.Set.Leases))
	for _, l := range p.Set.Leases {
		g.leases[l.ID] = l
		if _, ran := before[l.ID]; before != nil && !ran {
			g.moved = time.Now()
			g.loop.Emit(sessionEvent(SessionStarted, l))
		}
	}
	for id, l := range before {
		if _, runs := g.leases[id]; !runs {
			g.moved = time.Now()
			g.loop.Emit(sessionEvent(SessionEnded, l))
		}
	}
}

func sessionEvent(k Kind, l specs.Lease) Event {
	return Event{Kind: k, By: "user:" + l.User, Session: l.ID, Project: l.Project, Sandbox: l.Sandbox}
}

// running is the sessions of a set with its facts.
func running(set specs.Set) []Session {
	var out []Session
	digest := set.SandboxDigests()
	for _, l := range set.Leases {
		s := Session{
			ID: l.ID, Project: l.Project, Sandbox: l.Sandbox, User: l.User, Started: l.Started,
			Stale: digest(l.Sandbox) != l.Digest,
		}
		if n := specs.Find(set.Networks, l.Network); n != nil && l.Slot >= 0 {
			_, addr := n.SlotAddrs(l.Slot)
			s.Address = addr.Addr().String()
		}
		out = append(out, s)
	}
	return out
}
