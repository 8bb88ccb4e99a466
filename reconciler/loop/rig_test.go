package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// thing is a resource with one attribute.
type thing struct {
	A        reconciler.Addr   `json:"-"`
	Value    string            `json:"value"`
	N        []reconciler.Addr `json:"-"`
	Fleeting bool              `json:"-"`
}

func (t thing) Addr() reconciler.Addr    { return t.A }
func (t thing) Needs() []reconciler.Addr { return t.N }
func (t thing) Ephemeral() bool          { return t.Fleeting }

// system is an enforcer whose subsystem is a map.
type system struct {
	mu            sync.Mutex
	desired, live map[reconciler.Addr]thing
	leases        []specs.Lease
	fail          map[reconciler.Addr]error
	readErr       error
	surveyErr     error
	readTakes     time.Duration
	block         chan struct{} // Apply waits for it, or for the end of its context
	forgetful     bool          // what is made does not stay
	reads, tries  int
}

func newSystem(things ...thing) *system {
	s := &system{desired: map[reconciler.Addr]thing{}, live: map[reconciler.Addr]thing{}, fail: map[reconciler.Addr]error{}}
	for _, t := range things {
		s.desired[t.A] = t
	}
	return s
}

func (s *system) Desired(specs.Set) ([]reconciler.Resource, error) { return s.list(s.desired), nil }

func (s *system) list(m map[reconciler.Addr]thing) []reconciler.Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []reconciler.Resource
	for _, a := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[a])
	}
	return out
}

func (s *system) Read(context.Context) ([]reconciler.Resource, error) {
	s.mu.Lock()
	s.reads++
	err, takes := s.readErr, s.readTakes
	s.mu.Unlock()
	time.Sleep(takes)
	if err != nil {
		return nil, err
	}
	return s.list(s.live), nil
}

func (s *system) Survey(_ context.Context, set specs.Set) (specs.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases != nil {
		set.Leases = s.leases
	}
	return set, s.surveyErr
}

func (s *system) Apply(ctx context.Context, c reconciler.Change) error {
	if s.block != nil {
		select {
		case <-s.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if err := s.fail[c.Addr()]; err != nil {
		return err
	}
	if c.After == nil {
		delete(s.live, c.Addr())
	} else if !s.forgetful {
		s.live[c.Addr()] = c.After.(thing)
	}
	return nil
}

// damage changes what lives, by hand; a zero value takes it away.
func (s *system) damage(addr reconciler.Addr, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.live[addr]
	if !ok {
		t = thing{A: addr}
	}
	t.Value = value
	s.live[addr] = t
	if value == "" {
		delete(s.live, addr)
	}
}

// looked is how often it was read.
func (s *system) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *system) is(addr reconciler.Addr) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[addr].Value
}

func (s *system) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// rig is a Loop in a bubble of its own time.
type rig struct {
	*Loop
	t      *testing.T
	memory Memory

	mu     sync.Mutex
	events []Event
	locked int // who has the lock
	locks  int // how often it was taken
}

// inBubble runs f with a Loop that runs.
func inBubble(t *testing.T, memory Memory, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, memory: memory}
		r.Loop = New(Options{
			Memory:   memory,
			Remember: func(m Memory) error { r.memory = m; return nil },
			Emit: func(e Event) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.events = append(r.events, e)
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		f(r)
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("the loop ended with %v", err)
		}
	})
}

// group makes a group of enforcers named by their systems' order.
func (r *rig) group(name string, enforcers ...reconciler.Named) Group {
	return Group{
		Name: name, Reconciler: &reconciler.Reconciler{Enforcers: enforcers},
		Lock: func(context.Context) (func(), error) {
			r.count(1)
			return func() { r.count(-1) }, nil
		},
	}
}

func (r *rig) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.locked += n
	r.locks += max(n, 0)
}

// taken is how often the lock was taken.
func (r *rig) taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.locks
}

func named(name string, s *system, needs ...string) reconciler.Named {
	return reconciler.Named{Name: name, Enforcer: s, Needs: needs}
}

// use enforces groups at a revision, and waits until a pass is over.
func (r *rig) use(id string, groups ...Group) {
	r.Use(Target{Revision: Revision{ID: id, Digest: "digest of " + id}, Groups: groups})
	r.after(longRest)
}

// after lets time pass, and what it brings come to rest.
func (r *rig) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// told returns the events since it was called last, as "kind part address".
func (r *rig) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.events {
		out = append(out, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", e.Kind, e.Part, e.Addr)), " "))
	}
	r.events = nil
	return strings.Join(out, "; ")
}

func (r *rig) wantTold(want ...string) {
	r.t.Helper()
	if got := r.told(); got != strings.Join(want, "; ") {
		r.t.Errorf("told  %s\nwant %s", got, strings.Join(want, "; "))
	}
}

// part is a part's state.
func (r *rig) part(name string) Part {
	r.t.Helper()
	for _, p := range r.State().Parts {
		if p.Name == name {
			return p
		}
	}
	r.t.Fatalf("no part %s", name)
	return Part{}
}

func (r *rig) want(name string, c Condition, why string) {
	r.t.Helper()
	p := r.part(name)
	if p.Condition != c || !strings.Contains(p.Why, why) || why == "" && p.Why != "" {
		r.t.Errorf("%s is %s (%s), want %s (%s)", name, p.Condition, p.Why, c, why)
	}
}
