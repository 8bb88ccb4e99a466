// Package enforcertest is the conformance suite of enforcers: what the
// contract in package reconciler promises, tried. Every enforcer runs it on
// its fake and on the real subsystem, with the same harness.
package enforcertest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Harness is one enforcer on one subsystem, fake or real. A test of the suite
// starts from a subsystem without anything of cordon's, and leaves it so.
type Harness struct {
	Name string // of the enforcer, the first part of its addresses
	// New returns an enforcer on the subsystem as it is now; a second one is
	// what a restarted process would have.
	New func(t *testing.T) reconciler.Enforcer
	// Sets are desired states to go between, facts included. There should be
	// several that differ in every attribute. The empty Set is always added.
	Sets []specs.Set
	// Foreign makes objects of others that are easily taken for cordon's, and
	// returns what checks that they are as they were. It may be nil.
	Foreign func(t *testing.T) (check func(t *testing.T))
	// Damage is what someone may do by hand to the state of Sets[0]. Each must
	// show in a plan and be repaired.
	Damage []Damage
	// Steps bounds the random walk; 0 is 30.
	Steps int

	single bool // one change at a time, also where the enforcer takes many
}

// Damage is one change by another hand.
type Damage struct {
	Name string
	Do   func(t *testing.T)
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Run("apply then plan is empty", h.converges)
	t.Run("apply twice", h.twice)
	t.Run("undo", h.undo)
	t.Run("orphans are deleted", h.orphans)
	t.Run("killed between any two changes", h.killed)
	t.Run("random walk", h.walk)
	if h.Foreign != nil {
		t.Run("foreign objects are untouched", h.foreign)
	}
	for _, d := range h.Damage {
		t.Run("repairs "+d.Name, func(t *testing.T) { h.repairs(t, d) })
	}
}

func (h Harness) all() []specs.Set { return append(slices.Clone(h.Sets), specs.Set{}) }

func (h Harness) reconciler(t *testing.T) *reconciler.Reconciler {
	t.Helper()
	e := h.New(t)
	var without reconciler.Enforcer = bare{e}
	if b, ok := e.(reconciler.Batcher); ok && !h.single {
		without = batching{bare{e}, b}
	}
	return &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: h.Name, Enforcer: without}}}
}

// bare hides Survey, so that the facts of a harness's sets stay as written.
type bare struct{ reconciler.Enforcer }

type batching struct {
	bare
	reconciler.Batcher
}

func (h Harness) plan(t *testing.T, set specs.Set) (*reconciler.Reconciler, *reconciler.Plan) {
	t.Helper()
	r := h.reconciler(t)
	p, err := r.Plan(context.Background(), set)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	for _, f := range p.Failures {
		t.Fatalf("plan: %s: %v", f.Enforcer, f.Err)
	}
	return r, p
}

// apply converges to set, checks that nothing is left to do, and returns the
// plan that says so.
func (h Harness) apply(t *testing.T, set specs.Set) *reconciler.Plan {
	t.Helper()
	r, p := h.plan(t, set)
	return h.finish(t, r, p, set)
}

// finish is apply with a plan that is there already.
func (h Harness) finish(t *testing.T, r *reconciler.Reconciler, p *reconciler.Plan, set specs.Set) *reconciler.Plan {
	t.Helper()
	if err := r.Apply(context.Background(), p, nil).Err(); err != nil {
		t.Fatalf("apply: %v", err)
	}
	return h.converged(t, set)
}

func (h Harness) converged(t *testing.T, set specs.Set) *reconciler.Plan {
	t.Helper()
	_, p := h.plan(t, set)
	if len(p.Changes) > 0 {
		t.Fatalf("the plan is not empty after apply:\n%s", Describe(p.Changes))
	}
	for _, res := range p.Live {
		if res.Addr().Enforcer() != h.Name {
			t.Errorf("%s: the address does not begin with %q", res.Addr(), h.Name)
		}
	}
	h.partly(t, p.Live)
	return p
}

// partly checks that what is live is the same when it is read by addresses:
// those of all that is desired in any of the sets, too.
func (h Harness) partly(t *testing.T, live []reconciler.Resource) {
	t.Helper()
	e := h.New(t)
	reader, ok := e.(reconciler.PartReader)
	if !ok {
		return
	}
	seen := map[reconciler.Addr]bool{}
	for _, r := range live {
		seen[r.Addr()] = true
	}
	for _, set := range h.Sets {
		desired, err := e.Desired(set)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range desired {
			seen[r.Addr()] = true
		}
	}
	part, err := reader.ReadPart(context.Background(), slices.Collect(maps.Keys(seen)))
	if err != nil {
		t.Fatalf("read in part: %v", err)
	}
	if diff := cmp.Diff(forms(t, live), forms(t, part)); diff != "" {
		t.Errorf("read in part it is not what it is as a whole (-whole +part):\n%s", diff)
	}
}

// clear removes everything at the test's end too, so that one failure does
// not become many.
func (h Harness) clear(t *testing.T) {
	t.Helper()
	h.apply(t, specs.Set{})
	t.Cleanup(func() { h.sweep(t) })
}

func (h Harness) sweep(t *testing.T) {
	r, p := h.plan(t, specs.Set{})
	r.Apply(context.Background(), p, nil)
}

func (h Harness) converges(t *testing.T) {
	for i, set := range h.Sets {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			h.clear(t)
			h.apply(t, set)
			if _, p := h.plan(t, set); len(p.Desired) == 0 {
				t.Error("the set desires nothing: it tests nothing")
			}
		})
	}
}

// twice makes each change two times: what exists may be created and what is
// gone deleted.
func (h Harness) twice(t *testing.T) {
	h.clear(t)
	for _, set := range h.all() {
		r, p := h.plan(t, set)
		for range 2 {
			if err := r.Apply(context.Background(), p, nil).Err(); err != nil {
				t.Fatal(err)
			}
		}
		h.converged(t, set)
	}
}

func (h Harness) undo(t *testing.T) {
	h.clear(t)
	for i, from := range h.all() {
		for j, to := range h.all() {
			if i == j {
				continue
			}
			h.apply(t, from)
			r, p := h.plan(t, to)
			if err := r.Apply(context.Background(), p, nil).Err(); err != nil {
				t.Fatal(err)
			}
			back, err := p.Invert()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Apply(context.Background(), back, nil).Err(); err != nil {
				t.Fatalf("undo of %d → %d: %v", i, j, err)
			}
			h.converged(t, from)
		}
	}
}

func (h Harness) orphans(t *testing.T) {
	h.clear(t)
	for _, set := range h.Sets {
		h.apply(t, set)
		h.apply(t, specs.Set{})
		if _, p := h.plan(t, specs.Set{}); len(p.Live) > 0 {
			t.Fatalf("left behind: %v", p.Live)
		}
	}
}

// killed abandons an apply after every number of changes and lets a fresh
// enforcer go on from what it finds. It goes round the sets: where one apply
// ends the next one begins.
func (h Harness) killed(t *testing.T) {
	h.single = true
	h.clear(t)
	round := h.all() // from nothing to the last, and from the first to nothing
	slices.Reverse(round[:len(h.Sets)])
	for n, left := 0, true; left; n++ {
		left = false
		for _, set := range round {
			r, p := h.plan(t, set)
			left = left || n < len(p.Changes)
			ctx, cancel := context.WithCancel(context.Background())
			done := 0
			if n == 0 {
				cancel()
			}
			r.Apply(ctx, p, func(e reconciler.Event) {
				if e.Done && !e.Skipped {
					if done++; done == n {
						cancel()
					}
				}
			})
			cancel()
			h.apply(t, set)
		}
	}
}

func (h Harness) walk(t *testing.T) {
	h.single = true
	h.clear(t)
	steps := h.Steps
	if steps == 0 {
		steps = 30
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	sets := h.all()
	for range steps {
		set := sets[rnd.IntN(len(sets))]
		if rnd.IntN(3) > 0 {
			h.apply(t, set)
			continue
		}
		// Some of the changes only, in their order.
		r, p := h.plan(t, set)
		ctx, cancel := context.WithCancel(context.Background())
		stop := rnd.IntN(len(p.Changes) + 1)
		r.Apply(ctx, p, func(e reconciler.Event) {
			if e.Done {
				if stop--; stop <= 0 {
					cancel()
				}
			}
		})
		cancel()
	}
	h.apply(t, specs.Set{})
}

func (h Harness) foreign(t *testing.T) {
	h.clear(t)
	check := h.Foreign(t)
	for _, set := range h.all() {
		h.apply(t, set)
		check(t)
	}
	_, p := h.plan(t, specs.Set{})
	if len(p.Live) > 0 {
		t.Errorf("foreign objects are read as cordon's: %v", p.Live)
	}
}

// repairs goes from nothing to the first set, and back from what became of it.
func (h Harness) repairs(t *testing.T, d Damage) {
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			h.sweep(t)
		}
	})
	before := h.apply(t, h.Sets[0])
	d.Do(t)
	r, p := h.plan(t, h.Sets[0])
	if len(p.Changes) == 0 {
		t.Fatal("the damage does not show in the plan")
	}
	after := h.finish(t, r, p, h.Sets[0])
	if diff := cmp.Diff(forms(t, before.Live), forms(t, after.Live)); diff != "" {
		t.Errorf("not as it was (-before +after):\n%s", diff)
	}
	h.apply(t, specs.Set{})
}

func forms(t *testing.T, list []reconciler.Resource) map[reconciler.Addr]string {
	t.Helper()
	out := map[reconciler.Addr]string{}
	for _, r := range list {
		rec, err := reconciler.Record(r)
		if err != nil {
			t.Fatal(err)
		}
		out[rec.Address] = string(rec.Attributes)
	}
	return out
}

// Describe is the changes as text, for failure messages.
func Describe(changes []reconciler.Change) string {
	var out string
	for _, c := range changes {
		out += fmt.Sprintf("%s %s\n", c.Action(), c.Addr())
		for _, side := range []struct {
			sign string
			res  reconciler.Resource
		}{{"-", c.Before}, {"+", c.After}} {
			if side.res == nil {
				continue
			}
			rec, err := reconciler.Record(side.res)
			if err != nil {
				return err.Error()
			}
			out += fmt.Sprintf("  %s %s\n", side.sign, rec.Attributes)
		}
	}
	return out
}
