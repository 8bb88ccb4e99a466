package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/aicodesit/cordon/specs"
)

// Named is an Enforcer with the name that its addresses begin with.
type Named struct {
	Name string
	// Needs names the enforcers whose resources its own may need. What it
	// could not read may need any of theirs.
	Needs []string
	Enforcer
}

// Reconciler holds the enforcers of one host.
type Reconciler struct {
	Enforcers []Named
	Log       *slog.Logger
}

// Plan is what would be done, and all that was known when it was computed.
type Plan struct {
	Changes  []Change
	Notes    []Note
	Failures []Failure
	Desired  []Resource
	Live     []Resource
	Set      specs.Set // with the facts
}

// Failure is an enforcer that could not tell what is desired or live. A Plan
// has no changes for it: nothing is pruned from ignorance.
type Failure struct {
	Enforcer string
	Err      error
	Survey   bool // it was the facts that could not be found
}

// Empty tells whether desired and live are known to be the same.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 && len(p.Failures) == 0 }

// Survey adds to set what the enforcers find. An enforcer that fails is in
// the failures and must be left out of the plan.
func (r *Reconciler) Survey(ctx context.Context, set specs.Set) (specs.Set, []Failure) {
	var failures []Failure
	for _, e := range r.Enforcers {
		s, ok := e.Enforcer.(Surveyor)
		if !ok {
			continue
		}
		found, err := s.Survey(ctx, set)
		if err != nil {
			failures = append(failures, Failure{Enforcer: e.Name, Err: err, Survey: true})
			continue
		}
		set = found
	}
	return set, failures
}

// Plan surveys and reads the host, and compares it with set.
//
// It returns an error only when the resources contradict each other; what an
// enforcer could not read is in the Plan's Failures: nothing of it is changed,
// and nothing deleted that it may need. When facts could not be found, what
// comes and goes with them is not deleted in any enforcer.
func (r *Reconciler) Plan(ctx context.Context, set specs.Set) (*Plan, error) {
	set, failures := r.Survey(ctx, set)
	// What is desired takes as long to tell as what is there, and needs nothing
	// of it.
	desired := make(chan []desire, 1)
	go func(failures []Failure) { desired <- r.desire(set, failures) }(slices.Clip(failures))
	live := map[string][]Resource{}
	for _, e := range r.Enforcers {
		if failed(failures, e.Name) {
			continue
		}
		read, err := e.Read(ctx)
		if err != nil {
			failures = append(failures, Failure{Enforcer: e.Name, Err: err})
			continue
		}
		live[e.Name] = read
	}
	return r.compare(set, <-desired, live, failures)
}

// PlanRecorded compares set with a recorded snapshot: no host, no privilege.
func (r *Reconciler) PlanRecorded(set specs.Set, snap *Snapshot) (*Plan, error) {
	set = snap.facts(set)
	live := map[string][]Resource{}
	var failures []Failure
	for _, e := range r.Enforcers {
		if why, ok := snap.Failed[e.Name]; ok {
			failures = append(failures, Failure{Enforcer: e.Name, Err: fmt.Errorf("not in the snapshot: %s", why)})
		}
		live[e.Name] = nil
	}
	for _, rec := range snap.Resources {
		live[rec.Address.Enforcer()] = append(live[rec.Address.Enforcer()], rec)
	}
	return r.compare(set, r.desire(set, failures), live, failures)
}

// desire is what one enforcer wants and notes.
type desire struct {
	resources []Resource
	notes     []Note
	err       error
}

// desire asks the enforcers that have not failed, in their order.
func (r *Reconciler) desire(set specs.Set, failures []Failure) []desire {
	out := make([]desire, len(r.Enforcers))
	for i, e := range r.Enforcers {
		if failed(failures, e.Name) {
			continue
		}
		out[i].resources, out[i].err = e.Desired(set)
		if n, ok := e.Enforcer.(Noter); ok && out[i].err == nil {
			out[i].notes = n.Notes(set)
		}
	}
	return out
}

func (r *Reconciler) compare(set specs.Set, desired []desire, live map[string][]Resource, failures []Failure) (*Plan, error) {
	p := &Plan{Set: set, Failures: failures}
	for i, e := range r.Enforcers {
		if failed(p.Failures, e.Name) {
			continue
		}
		if err := desired[i].err; err != nil {
			p.Failures = append(p.Failures, Failure{Enforcer: e.Name, Err: err})
			continue
		}
		p.Desired = append(p.Desired, desired[i].resources...)
		p.Live = append(p.Live, live[e.Name]...)
		p.Notes = append(p.Notes, desired[i].notes...)
	}
	var err error
	p.Changes, err = Diff(p.Desired, p.Live)
	if err != nil {
		return nil, err
	}
	for _, e := range r.Enforcers {
		if n, ok := e.Enforcer.(ChangeNoter); ok {
			for _, note := range n.ChangeNotes(p.Changes) {
				note.Effect = true
				p.Notes = append(p.Notes, note)
			}
		}
	}
	slices.SortStableFunc(p.Notes, func(a, b Note) int { return compareAddr(a.Addr, b.Addr) })
	if len(p.Failures) > 0 {
		r.keepNeeded(p)
	}
	return p, nil
}

// keepNeeded takes the deletions out of p that ignorance could get wrong: of
// what comes with facts when those are not known, of what something that was
// not read may need, and so of what anything that stays needs.
func (r *Reconciler) keepNeeded(p *Plan) {
	unknown := map[string]bool{}
	facts := false
	for _, e := range r.Enforcers {
		if failed(p.Failures, e.Name) {
			for _, n := range e.Needs {
				unknown[n] = true
			}
		}
	}
	for _, f := range p.Failures {
		facts = facts || f.Survey
	}
	drop := func(c Change) bool { return unknown[c.Addr().Enforcer()] || facts && ephemeral(c.Before) }
	for before := -1; before != len(p.Changes); {
		before = len(p.Changes)
		p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool { return c.After == nil && drop(c) })
		needed := p.neededAfter()
		drop = func(c Change) bool { return needed[c.Addr()] }
	}
}

// neededAfter is what the resources need that are there when p is made.
func (p *Plan) neededAfter() map[Addr]bool {
	after := make(map[Addr]Resource, len(p.Live))
	for _, r := range p.Live {
		after[r.Addr()] = r
	}
	for _, c := range p.Changes {
		if c.After == nil {
			delete(after, c.Addr())
			continue
		}
		after[c.Addr()] = c.After
	}
	needed := map[Addr]bool{}
	for _, r := range after {
		for _, n := range r.Needs() {
			needed[n] = true
		}
	}
	return needed
}

func failed(failures []Failure, name string) bool {
	return slices.ContainsFunc(failures, func(f Failure) bool { return f.Enforcer == name })
}

func excess(r Resource) bool {
	e, ok := r.(Excess)
	return ok && e.Excess()
}

func ephemeral(r Resource) bool {
	e, ok := r.(Ephemeral)
	return ok && e.Ephemeral()
}

// PlanPart plans what the resources at roots need to be as set desires, and
// nothing else: the resources themselves and, by their needs, all below them,
// in the desired state and among what is live at the same addresses. It is
// how a session starts and ends without reading the whole host. Enforcers
// that are no PartReader are read whole if they have an address in the part.
//
// The set must hold its facts already.
func (r *Reconciler) PlanPart(ctx context.Context, set specs.Set, roots []Addr) (*Plan, error) {
	p := &Plan{Set: set}
	byAddr := map[Addr]Resource{}
	for _, e := range r.Enforcers {
		desired, err := e.Desired(set)
		if err != nil {
			p.Failures = append(p.Failures, Failure{Enforcer: e.Name, Err: err})
			continue
		}
		for _, d := range desired {
			byAddr[d.Addr()] = d
		}
	}
	part := map[Addr]bool{}
	var add func(Addr)
	add = func(a Addr) {
		if part[a] {
			return
		}
		part[a] = true
		if d, ok := byAddr[a]; ok {
			p.Desired = append(p.Desired, d)
			for _, n := range d.Needs() {
				add(n)
			}
		}
	}
	for _, a := range roots {
		add(a)
	}
	live, errs := make([][]Resource, len(r.Enforcers)), make([]error, len(r.Enforcers))
	var reading sync.WaitGroup
	for i, e := range r.Enforcers {
		if addrs := of(part, e.Name); len(addrs) > 0 {
			reading.Go(func() { live[i], errs[i] = readPart(ctx, e, addrs) })
		}
	}
	reading.Wait()
	for i, e := range r.Enforcers {
		if errs[i] != nil {
			p.Failures = append(p.Failures, Failure{Enforcer: e.Name, Err: errs[i]})
			continue
		}
		p.Live = append(p.Live, live[i]...)
	}
	if len(p.Failures) > 0 {
		return p, nil
	}
	var err error
	p.Changes, err = Diff(p.Desired, p.Live)
	return p, err
}

// of are the addresses in part that belong to one enforcer, sorted.
func of(part map[Addr]bool, enforcer string) []Addr {
	var addrs []Addr
	for a := range part {
		if a.Enforcer() == enforcer {
			addrs = append(addrs, a)
		}
	}
	slices.SortFunc(addrs, compareAddr)
	return addrs
}

func readPart(ctx context.Context, e Named, addrs []Addr) ([]Resource, error) {
	if pr, ok := e.Enforcer.(PartReader); ok {
		return pr.ReadPart(ctx, addrs)
	}
	all, err := e.Read(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r Resource) bool { return !slices.Contains(addrs, r.Addr()) }), nil
}

// Invert is the plan that undoes p.
func (p *Plan) Invert() (*Plan, error) {
	changes, err := Diff(p.Live, p.Desired)
	if err != nil {
		return nil, err
	}
	return &Plan{Changes: changes, Desired: p.Live, Live: p.Desired, Set: p.Set}, nil
}
