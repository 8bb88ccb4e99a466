package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Deletions beyond both of these stop an apply, unless allowed: a source that
// came up short must not empty a host.
const (
	budgetPercent = 30
	budgetAtLeast = 10
)

// CheckBudget returns an error when p deletes more than it may without being
// told to. What comes and goes with sessions does not count, nor what only opens.
func (p *Plan) CheckBudget() error {
	total, deletes, free := 0, 0, 0
	counts := func(r Resource) bool { return !ephemeral(r) && !excess(r) }
	for _, r := range p.Live {
		if counts(r) {
			total++
		}
	}
	for _, c := range p.Changes {
		switch {
		case c.Action() != Delete:
		case counts(c.Before):
			deletes++
		default:
			free++
		}
	}
	if deletes > budgetAtLeast && deletes*100 > total*budgetPercent {
		besides := "" // the plan itself counts them
		if free > 0 {
			besides = fmt.Sprintf(" (and %d that don't count: sessions', warm slots, or what only opens)", free)
		}
		return fmt.Errorf("the plan removes %d of %d resources%s, more than %d %%: if that is meant, say --allow-deletes", deletes, total, besides, budgetPercent)
	}
	return nil
}

// Event tells of one change: that it begins (Done false), or how it ended.
type Event struct {
	Change   Change
	Done     bool
	Err      error // nil: made
	Skipped  bool  // not tried, because of Err
	Duration time.Duration
}

// Result is how one change ended.
type Result struct {
	Change  Change
	Err     error
	Skipped bool
}

// Report is how an apply ended, in the order of the plan.
type Report struct{ Results []Result }

// Err is nil when every change was made; otherwise it names those that failed
// and counts those that were skipped.
func (r Report) Err() error {
	var failed []error
	skipped := 0
	for _, res := range r.Results {
		switch {
		case res.Skipped:
			skipped++
		case res.Err != nil:
			failed = append(failed, res.Err)
		}
	}
	if len(failed) == 0 && skipped == 0 {
		return nil
	}
	if skipped > 0 {
		failed = append(failed, fmt.Errorf("%d more not tried", skipped))
	}
	return errors.Join(failed...)
}

// Apply makes the plan's changes one after the other and tells progress of
// each, before and after. A change that fails skips what needs it; everything
// else proceeds. When ctx ends, the change in hand is finished or abandoned by
// its enforcer, and the rest is skipped.
func (r *Reconciler) Apply(ctx context.Context, p *Plan, progress func(Event)) Report {
	if progress == nil {
		progress = func(Event) {}
	}
	enforcers := make(map[string]Enforcer, len(r.Enforcers))
	for _, e := range r.Enforcers {
		enforcers[e.Name] = e.Enforcer
	}
	g := newGraph(p.Changes)
	report := Report{Results: make([]Result, len(p.Changes))}
	for i := 0; i < len(p.Changes); i++ {
		c, res := p.Changes[i], &report.Results[i]
		if n := r.batch(ctx, enforcers, p, g, i, report.Results, progress); n > 0 {
			i += n - 1
			continue
		}
		res.Change = c
		if err := ctx.Err(); err != nil {
			res.Skipped, res.Err = true, err
		} else if on, ok := blocked(c, g.after[i], report.Results, p.Failures); ok {
			res.Skipped, res.Err = true, fmt.Errorf("%s: not tried: it waits for %s", c.Addr(), on)
		}
		if res.Skipped {
			progress(Event{Change: c, Done: true, Err: res.Err, Skipped: true})
			continue
		}
		progress(Event{Change: c})
		start := time.Now()
		res.Err = r.applyOne(ctx, enforcers, c)
		progress(Event{Change: c, Done: true, Err: res.Err, Duration: time.Since(start)})
	}
	return report
}

// batch makes the changes from i on that are of one enforcer which takes them
// together, and returns how many; 0: not one.
func (r *Reconciler) batch(ctx context.Context, enforcers map[string]Enforcer, p *Plan, g graph, i int, results []Result, progress func(Event)) int {
	name := p.Changes[i].Addr().Enforcer()
	b, ok := enforcers[name].(Batcher)
	n := i
	for ok && ctx.Err() == nil && n < len(p.Changes) && p.Changes[n].Addr().Enforcer() == name {
		if _, stuck := blocked(p.Changes[n], g.after[n], results, p.Failures); stuck {
			break
		}
		n++
	}
	if n == i {
		return 0
	}
	changes, after := p.Changes[i:n], make([][]int, n-i)
	for k, c := range changes {
		results[i+k].Change = c
		for _, j := range g.after[i+k] {
			if j >= i {
				after[k] = append(after[k], j-i)
			}
		}
		progress(Event{Change: c})
	}
	start := time.Now()
	errs := b.ApplyAll(ctx, changes, after)
	share := time.Since(start) / time.Duration(len(changes))
	for k, c := range changes {
		res := &results[i+k]
		res.Err, res.Skipped = errs[k], errors.Is(errs[k], ErrNotTried)
		switch on, waits := blocked(c, g.after[i+k], results, p.Failures); {
		case res.Skipped && waits:
			res.Err = fmt.Errorf("%s: not tried: it waits for %s", c.Addr(), on)
		case res.Err != nil && ctx.Err() != nil:
			res.Skipped, res.Err = true, ctx.Err()
		default:
			res.Err = at(c, res.Err)
		}
		progress(Event{Change: c, Done: true, Err: res.Err, Skipped: res.Skipped, Duration: share})
	}
	return n - i
}

// blocked returns what c waits for in vain: a change that failed or was
// skipped, or something in an enforcer whose state is not known.
func blocked(c Change, after []int, results []Result, failures []Failure) (on Addr, ok bool) {
	for _, j := range after {
		if results[j].Err != nil {
			return results[j].Change.Addr(), true
		}
	}
	if c.After == nil {
		return "", false
	}
	for _, n := range c.After.Needs() {
		if failed(failures, n.Enforcer()) {
			return n, true
		}
	}
	return "", false
}

func (r *Reconciler) applyOne(ctx context.Context, enforcers map[string]Enforcer, c Change) error {
	e, ok := enforcers[c.Addr().Enforcer()]
	if !ok {
		return fmt.Errorf("%s: no enforcer of that name", c.Addr())
	}
	return at(c, e.Apply(ctx, c))
}

// at puts the change's address before the error, unless its enforcer did.
func at(c Change, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), string(c.Addr())+":") {
		return err
	}
	return fmt.Errorf("%s: %w", c.Addr(), err)
}
