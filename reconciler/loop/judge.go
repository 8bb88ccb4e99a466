package loop

import (
	"fmt"
	"slices"
	"time"

	"github.com/aicodesit/cordon/reconciler"
)

// judge compares what is planned with what was known before: what has drifted,
// what failed, and what is to be made now. sure is whether nobody else changes
// the host meanwhile: only then is a difference told of that is about to be
// repaired, for a session that starts or ends is none a moment later.
func (g *group) judge(p *reconciler.Plan, sure bool) (due bool) {
	now := time.Now()
	g.unread(p.Failures, now)
	paused, over := g.loop.paused(), g.overBudget(p)
	differs := make(map[reconciler.Addr]bool, len(p.Changes))
	settled := g.settled(p.Changes, now)
	for _, c := range p.Changes {
		differs[c.Addr()] = true
		t := g.track(c, now)
		t.why, t.until = hold(t, settled, now)
		switch {
		case t.why != "":
		case paused != nil:
			t.why = "paused: " + paused.Reason
		case over != "" && c.Action() == reconciler.Delete && !c.IsEphemeral() && !g.target.granted[c.Addr()]:
			t.why = over
		}
		due = due || t.why == ""
		if t.drift && !t.told && (sure || t.why != "") {
			t.told = true
			g.drifted(c, now)
		}
	}
	for addr, t := range g.tracks {
		if differs[addr] || g.part(addr).unread != nil {
			continue
		}
		peace, done := t.clean(now)
		if peace {
			g.loop.Emit(Event{Kind: FightEnded, Part: g.part(addr).Name, Addr: addr, Text: fmt.Sprintf("it stayed as it is for %s", fightWindow)})
		}
		if done {
			delete(g.tracks, addr)
		}
	}
	g.learn(p, differs)
	g.sessions(p)
	return due
}

// unread notes which parts could not be read.
func (g *group) unread(failures []reconciler.Failure, now time.Time) {
	for _, p := range g.parts {
		var failure *reconciler.Failure
		for i := range failures {
			if failures[i].Enforcer == p.enforcer {
				failure = &failures[i]
			}
		}
		switch {
		case failure == nil:
			p.readable(now)
		case now.Before(p.retry): // it was not asked
		case p.unreadable(failure.Err, failure.Survey, now):
			g.loop.Emit(Event{Kind: ChangeFailed, Part: p.Name, Error: failure.Err.Error()})
		}
	}
}

// track is what is known of c's resource. What is new about it is decided when
// it is first seen to differ.
func (g *group) track(c reconciler.Change, now time.Time) *track {
	addr := c.Addr()
	t := g.tracks[addr]
	if t == nil {
		t = &track{}
		g.tracks[addr] = t
	}
	if t.seen.IsZero() {
		t.seen = now
		reached := g.part(addr).reached
		t.settling = reached && c.IsEphemeral() && c.Action() != reconciler.Update && !(c.Action() == reconciler.Create && g.known[addr])
		t.drift = reached && (t.unsure || g.strange(c))
	}
	return t
}

// strange tells whether c undoes what somebody did to something that was as
// desired. Sessions that come and go, and what applications make, are facts
// that others are the result of.
func (g *group) strange(c reconciler.Change) bool {
	switch {
	case c.IsEphemeral() && c.Action() == reconciler.Delete:
		return false
	case g.known == nil: // it had converged before this process began
		return !c.IsEphemeral()
	case c.Action() == reconciler.Delete:
		return !g.known[c.Addr()]
	}
	return g.known[c.Addr()]
}

// settled is until when what comes and goes with sessions is left alone: all of
// it as long as the first of it.
func (g *group) settled(changes []reconciler.Change, now time.Time) time.Time {
	first := now
	for _, c := range changes {
		if t := g.track(c, now); t.settling && t.seen.Before(first) {
			first = t.seen
		}
	}
	at, latest := first.Add(settle), first.Add(longSettle)
	if later := g.moved.Add(settle); later.After(at) {
		at = later
	}
	if at.After(latest) {
		at = latest
	}
	return at
}

// hold is why a change is not to be made now, and until when.
func hold(t *track, settled, now time.Time) (why string, until time.Time) {
	switch {
	case t.retry.After(now):
		return "it failed, and is tried again later", t.retry
	case t.fight != nil && t.fight.Next.After(now):
		return "something else keeps changing it back, so it is repaired less often", t.fight.Next
	case t.settling && settled.After(now):
		return "a session comes or goes", settled
	}
	return "", time.Time{}
}

// overBudget is why deletions that were not granted are held back; "": they are
// not.
func (g *group) overBudget(p *reconciler.Plan) string {
	g.loop.mu.Lock()
	allowed := g.loop.settings.AllowDeletes
	g.loop.mu.Unlock()
	// What was granted is neither held back nor counted: it makes no room for more.
	others := reconciler.Plan{Live: p.Live, Changes: slices.DeleteFunc(slices.Clone(p.Changes), func(c reconciler.Change) bool {
		return c.Action() == reconciler.Delete && g.target.granted[c.Addr()]
	})}
	why := ""
	if err := others.CheckBudget(); err != nil && !allowed {
		why = err.Error()
	}
	if why != "" && why != g.held {
		g.loop.Emit(Event{Kind: ChangeFailed, Part: g.name, Error: "nothing is removed: " + why})
	}
	g.held = why
	return why
}

// drifted tells of c and notes it in its part.
func (g *group) drifted(c reconciler.Change, now time.Time) {
	p := g.part(c.Addr())
	if p.LastDrift == nil || !p.LastDrift.Repaired.IsZero() {
		p.LastDrift = &Drift{At: now}
	}
	change := Pending{Addr: c.Addr(), Action: c.Action()}
	if !slices.Contains(p.LastDrift.Changes, change) { // it may drift again while others stay unrepaired
		p.LastDrift.Changes = append(p.LastDrift.Changes, change)
	}
	text := c.Describe()
	switch c.Action() {
	case reconciler.Create:
		text = "it is gone"
	case reconciler.Delete:
		text = "it is there and should not be"
	}
	g.loop.Emit(Event{Kind: DriftSeen, Part: p.Name, Addr: c.Addr(), Action: c.Action(), Text: text})
}

func (g *group) part(addr reconciler.Addr) *part {
	name := addr.Enforcer()
	for _, p := range g.parts {
		if p.enforcer == name {
			return p
		}
	}
	return &part{enforcer: name, unread: &unread{}} // an address of none: it is left alone
}

// learn remembers what is as desired.
func (g *group) learn(p *reconciler.Plan, differs map[reconciler.Addr]bool) {
	known := make(map[reconciler.Addr]bool, len(p.Desired))
	for addr := range g.known {
		if g.part(addr).unread != nil {
			known[addr] = true
		}
	}
	for _, r := range p.Desired {
		if !differs[r.Addr()] {
			known[r.Addr()] = true
		}
	}
	g.known = known
}
