package loop

import (
	"context"
	"slices"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// part is one enforcer of a group.
type part struct {
	Part
	enforcer string
	reached  bool // everything of it was as desired, at this revision
	announce bool // that, when it is
	failed   bool // since it had converged last
	unread   *unread
	failures int
	retry    time.Time // when it is read again
}

// unread is why a part is not known.
type unread struct {
	err    error
	survey bool
}

// unreadable notes that the part could not be read, and tells whether that is
// news.
func (p *part) unreadable(err error, survey bool, now time.Time) (news bool) {
	news = p.unread == nil || p.unread.err.Error() != err.Error()
	p.unread = &unread{err, survey}
	p.failures++
	p.retry = now.Add(backoff(p.failures))
	return news
}

// readable notes that it could.
func (p *part) readable(now time.Time) {
	p.unread, p.failures, p.retry = nil, 0, time.Time{}
	p.Checked = now
}

// rested is e, or in its place one that fails as e did, until e is to be read
// again: an enforcer that takes long to fail must not hold the others up.
func (p *part) rested(e reconciler.Named, now time.Time) reconciler.Named {
	if p.unread == nil || !now.Before(p.retry) {
		return e
	}
	r := resting{e.Enforcer, *p.unread}
	e.Enforcer = r
	if s, ok := r.Enforcer.(reconciler.Surveyor); ok {
		e.Enforcer = restingSurveyor{r, s}
	}
	return e
}

// resting is an enforcer that is not read.
type resting struct {
	reconciler.Enforcer
	unread unread
}

func (r resting) Read(context.Context) ([]reconciler.Resource, error) { return nil, r.unread.err }

// restingSurveyor is one whose facts others need: they are looked for, unless
// it was they that could not be found.
type restingSurveyor struct {
	resting
	reconciler.Surveyor
}

func (r restingSurveyor) Survey(ctx context.Context, set specs.Set) (specs.Set, error) {
	if r.unread.survey {
		return specs.Set{}, r.unread.err
	}
	return r.Surveyor.Survey(ctx, set)
}

// settle sets the condition.
func (p *part) settle(c Condition, why string, now time.Time) {
	if p.Condition != c {
		p.Condition, p.Since = c, now
	}
	p.Why = why
}

// show brings what others see up to the plan and to how its changes ended, and
// tells of parts that converged.
func (g *group) show(plan *reconciler.Plan) {
	now := time.Now()
	resources := map[string]int{}
	for _, r := range plan.Desired {
		resources[r.Addr().Enforcer()]++
	}
	for _, p := range g.parts {
		if p.unread == nil {
			p.Resources = resources[p.enforcer]
		}
		g.describe(p, plan, now)
		p.failed = p.failed || p.Condition == Failing
		if p.Condition != Converged {
			continue
		}
		if p.failed {
			g.loop.Emit(Event{Kind: PartRecovered, Part: p.Name})
		}
		if !p.reached && p.announce {
			g.loop.Emit(Event{Kind: PartConverged, Part: p.Name})
		}
		p.reached, p.announce, p.failed = true, false, false
	}
	g.publish(plan)
	if g.view().reached {
		g.target.granted = nil
		g.loop.arrived()
	}
}

// describe fills in what a part is to be shown as.
func (g *group) describe(p *part, plan *reconciler.Plan, now time.Time) {
	p.Pending, p.Fights = nil, nil
	p.Failures, p.NextRetry = p.failures, p.retry
	condition, why := Converged, ""
	drifts := false
	for _, c := range plan.Changes {
		t := g.tracks[c.Addr()]
		if c.Addr().Enforcer() != p.enforcer || t == nil || t.seen.IsZero() || t.settling && t.until.After(now) {
			continue
		}
		drifts = drifts || t.drift
		p.Pending = append(p.Pending, Pending{Addr: c.Addr(), Action: c.Action(), Error: t.err})
		switch {
		case t.err != "" && condition != Failing:
			condition, why = Failing, t.err
		case condition == Converged:
			condition = Drifted
		}
		if condition == Drifted && why == "" {
			why = t.why
			if why == "" {
				why = t.waits
			}
		}
		if t.failures > p.Failures {
			p.Failures = t.failures
		}
		if t.retry.After(now) && (p.NextRetry.IsZero() || t.retry.Before(p.NextRetry)) {
			p.NextRetry = t.retry
		}
	}
	for _, t := range g.tracks {
		if t.fight != nil && t.fight.Addr.Enforcer() == p.enforcer {
			p.Fights = append(p.Fights, *t.fight)
		}
	}
	slices.SortFunc(p.Fights, func(a, b Fight) int { return a.Since.Compare(b.Since) })
	if p.unread != nil {
		condition, why = Failing, p.unread.err.Error()
	} else if p.LastDrift != nil && p.LastDrift.Repaired.IsZero() && !drifts {
		p.LastDrift.Repaired = now
	}
	p.settle(condition, why, now)
}

// publish lets others see the parts; a nil plan leaves the rest as it was.
func (g *group) publish(plan *reconciler.Plan) {
	v := view{reached: true}
	for _, p := range g.parts {
		s := p.Part
		s.Pending, s.Fights = slices.Clone(s.Pending), slices.Clone(s.Fights)
		if s.LastDrift != nil {
			d := *s.LastDrift
			d.Changes = slices.Clone(d.Changes)
			s.LastDrift = &d
		}
		v.parts = append(v.parts, s)
		v.reached = v.reached && p.reached
	}
	if plan != nil {
		v.notes, v.sessions = plan.Notes, running(plan.Set)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if plan == nil {
		v.notes, v.sessions = g.shown.notes, g.shown.sessions
	}
	v.reached = v.reached && (g.next == nil || g.next.same)
	v.busy = g.shown.busy
	g.shown = v
}
