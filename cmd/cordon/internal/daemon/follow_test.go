package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aicodesit/cordon/internal/source"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// shelf is a source whose answer is what a test puts there.
type shelf struct {
	bell source.Bell
	mu   sync.Mutex
	rev  source.Revision
	err  error
	kept source.Revision
	full error  // why nothing can be kept
	keep func() // is called when something is to be kept; nil: nothing
	last error
}

func (s *shelf) Follow(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (s *shelf) Wake() <-chan struct{}            { return s.bell }
func (s *shelf) Ring()                            { s.bell.Ring() }
func (s *shelf) Status() source.Status            { return source.Status{How: "by hand"} }
func (s *shelf) Keep(r source.Revision) error {
	if s.keep != nil {
		s.keep()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full == nil {
		s.kept = r
	}
	return s.full
}
func (s *shelf) Last() (source.Revision, error) { return s.kept, s.last }

func (s *shelf) Fetch(context.Context) (source.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rev, s.err
}

// put makes a revision with a network of that name the newest.
func (s *shelf) put(id string, err error) {
	s.mu.Lock()
	s.rev, s.err = revision(id), err
	s.mu.Unlock()
	s.Ring()
	synctest.Wait()
}

func revision(id string) source.Revision {
	return source.Revision{ID: id, Author: "ann", Files: []source.File{{Name: "a.hcl", Bytes: []byte(id)}}}
}

// many is an enforcer that has as many resources as desired, or as it is told.
type many struct{ live, desired int }

func (m many) Desired(specs.Set) ([]reconciler.Resource, error)    { return list(m.desired), nil }
func (m many) Read(context.Context) ([]reconciler.Resource, error) { return list(m.live), nil }
func (m many) Apply(context.Context, reconciler.Change) error      { return nil }

func list(n int) []reconciler.Resource {
	var out []reconciler.Resource
	for i := range n {
		out = append(out, reconciler.Recorded{Address: reconciler.Addr(fmt.Sprint("x.", i)), Attributes: []byte("{}")})
	}
	return out
}

type rig struct {
	*Follower
	shelf  *shelf
	size   int // of what a new set desires, of 40
	target int // that were closed
	used   []string

	mu     sync.Mutex
	events []string
}

func follow(t *testing.T, s *shelf, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		s.bell = source.NewBell()
		r := &rig{shelf: s, size: 40}
		l := loop.New(loop.Options{Emit: func(e loop.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Kind, e.Revision, e.Error)))
		}})
		r.Follower = &Follower{
			Source: s, Loop: l, Log: slog.New(slog.DiscardHandler),
			Load: func(files []source.File) (specs.Set, []string) {
				text := string(files[0].Bytes)
				if strings.HasPrefix(text, "broken") {
					return specs.Set{}, []string{"a.hcl:1:1: " + text, "a.hcl:2:1: more"}
				}
				return specs.Set{Networks: []specs.Network{{Name: text}}}, nil
			},
			Target: func(specs.Set) loop.Target {
				e := reconciler.Named{Name: "x", Enforcer: many{40, r.size}}
				return loop.Target{Groups: []loop.Group{{
					Name: "x", Reconciler: &reconciler.Reconciler{Enforcers: []reconciler.Named{e}}, Close: func() { r.target++ },
				}}}
			},
			Used: func(set specs.Set) { r.used = append(r.used, set.Networks[0].Name) },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx, func() {}) }()
		synctest.Wait()
		f(r)
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("ended with %v", err)
		}
	})
}

// What could not be kept, for a disk that is full, is kept once it can be: a
// restart would go back otherwise.
func TestKeptLater(t *testing.T) {
	s := &shelf{last: source.ErrNothingKept, rev: revision("one")}
	follow(t, s, func(r *rig) {
		s.put("one", nil)
		s.full = errors.New("no space left on device")
		s.put("two", nil)
		if id := s.kept.ID; id != "one" {
			t.Fatalf("kept %q on a full disk", id)
		}
		s.full = nil
		s.put("two", nil)
		if id := s.kept.ID; id != "two" {
			t.Errorf("kept %q when there was room again", id)
		}
	})
}

// A revision is kept before anything of it is enforced: should the daemon be
// killed in between, the next one does not go back.
func TestKeptFirst(t *testing.T) {
	s := &shelf{last: source.ErrNothingKept, rev: revision("one")}
	follow(t, s, func(r *rig) {
		enforced := ""
		s.keep = func() { enforced = r.Loop.State().Revision.ID }
		s.put("two", nil)
		if enforced != "one" || s.kept.ID != "two" {
			t.Errorf("kept %q when %q was enforced", s.kept.ID, enforced)
		}
	})
}

func (r *rig) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := strings.Join(r.events, "; ")
	r.events = nil
	return out
}

func (r *rig) want(t *testing.T, told, enforced, refused string) {
	t.Helper()
	if got := r.told(); got != told {
		t.Errorf("told %q, want %q", got, told)
	}
	s := r.Loop.State()
	r.Describe(&s)
	id, why := "", ""
	if s.Revision != nil {
		id = s.Revision.ID
	}
	if s.Refused != nil {
		why = s.Refused.ID + ": " + s.Refused.Why
	}
	if id != enforced || !strings.HasPrefix(why, refused) || refused == "" && why != "" {
		t.Errorf("enforced %q, refused %q; want %q, %q", id, why, enforced, refused)
	}
}

func TestFollow(t *testing.T) {
	nothing := &shelf{last: source.ErrNothingKept, err: errors.New("away")}
	follow(t, nothing, func(r *rig) {
		r.want(t, "source.failed  away", "", "")
		nothing.put("r1", errors.New("away"))
		r.want(t, "", "", "")
		nothing.put("r1", nil)
		r.want(t, "source.back; revision r1", "r1", "")
		nothing.put("r1", nil)
		r.want(t, "", "r1", "")
		if nothing.kept.ID != "r1" || len(nothing.kept.Files) == 0 {
			t.Errorf("kept %+v", nothing.kept)
		}

		// What is broken changes nothing, and is told once.
		nothing.put("broken", nil)
		nothing.put("broken", nil)
		r.want(t, "refusal broken a.hcl:1:1: broken", "r1", "broken: a.hcl:1:1")
		if s := (loop.State{}); true {
			r.Describe(&s)
			if len(s.Refused.Diagnostics) != 2 || s.Source.How != "by hand" {
				t.Errorf("state %+v", s)
			}
		}
		// Going back to what is enforced is no refusal any more.
		nothing.put("r1", nil)
		r.want(t, "", "r1", "")

		// What is not trusted neither.
		nothing.put("", fmt.Errorf("unsigned: %w", source.ErrRefused))
		r.want(t, "refusal  unsigned: refused", "r1", ": unsigned")

		// Nor what removes too much, until that is allowed.
		r.size = 10
		nothing.put("r2", nil)
		r.want(t, "refusal r2 the plan removes 30 of 40 resources, more than 30 %: if that is meant, say --allow-deletes", "r1", "r2: the plan removes 30 of 40")
		if r.target != 1 || nothing.kept.ID != "r1" {
			t.Errorf("%d closed, kept %s", r.target, nothing.kept.ID)
		}
		r.Loop.Configure(loop.Settings{AllowDeletes: true})
		r.Again()
		synctest.Wait()
		r.want(t, "revision r2", "r2", "")
		// That the files are to be loaded again outlasts a source that is away.
		nothing.put("r2", errors.New("away"))
		r.Again()
		synctest.Wait()
		nothing.put("r2", nil)
		r.want(t, "source.failed r2 away; source.back r2; revision r2", "r2", "")
		if got := strings.Join(r.used, " "); got != "r1 r2 r2" {
			t.Errorf("used %s", got)
		}
	})
}

// What was kept is enforced before the source is asked, whatever is there now.
func TestFollowKept(t *testing.T) {
	s := &shelf{kept: revision("old"), err: errors.New("away")}
	follow(t, s, func(r *rig) {
		r.want(t, "revision old; source.failed old away", "old", "")
		s.put("old", nil)
		r.want(t, "source.back old", "old", "")
	})
	follow(t, &shelf{kept: revision("broken"), rev: revision("new")}, func(r *rig) {
		r.want(t, "refusal broken a.hcl:1:1: broken; revision new", "new", "")
	})
	follow(t, &shelf{last: errors.New("damaged"), err: errors.New("away")}, func(r *rig) {
		r.want(t, "source.failed  away", "", "")
		var state loop.State
		if r.Describe(&state); state.Source.Note != "damaged" || state.Source.Error != "away" {
			t.Errorf("source %+v", state.Source)
		}
		if _, ok := r.Set(); ok {
			t.Error("a set is enforced")
		}
	})
}

// shrinking has some resources left, and removes what is not desired.
type shrinking struct {
	many
	live map[reconciler.Addr]bool
}

func (s *shrinking) Read(context.Context) ([]reconciler.Resource, error) {
	return slices.DeleteFunc(list(s.many.live), func(r reconciler.Resource) bool { return !s.live[r.Addr()] }), nil
}

func (s *shrinking) Apply(_ context.Context, c reconciler.Change) error {
	delete(s.live, c.Addr())
	return nil
}

// A daemon that was killed while it removed what a revision does without had
// leave for that: the next one goes on, though it is too much for one part by
// itself. Where all was reached before, it is drift, and held back; so is what is
// too much for all parts together, which was allowed then and is not any more.
func TestKeptGoesOn(t *testing.T) {
	for _, tt := range []struct {
		reached bool
		beside  int // resources that stay
		want    int // are left of 12, of which one is desired
	}{
		{false, 40, 1},
		{true, 40, 12},
		{false, 2, 12},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{kept: revision("old"), err: errors.New("away"), bell: source.NewBell()}
			set := specs.Set{Networks: []specs.Network{{Name: "old"}}}
			var memory loop.Memory
			if tt.reached {
				memory.Reached = set.Digest()
			}
			small := &shrinking{many{12, 1}, map[reconciler.Addr]bool{}}
			for _, r := range list(12) {
				small.live[r.Addr()] = true
			}
			l := loop.New(loop.Options{Memory: memory, Log: slog.New(slog.DiscardHandler), Emit: func(loop.Event) {}})
			f := &Follower{
				Source: s, Loop: l, Log: slog.New(slog.DiscardHandler),
				Load: func([]source.File) (specs.Set, []string) { return set, nil },
				Target: func(specs.Set) loop.Target {
					var out loop.Target
					for name, e := range map[string]reconciler.Enforcer{"beside": many{tt.beside, tt.beside}, "small": small} {
						h := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: "x", Enforcer: e}}}
						out.Groups = append(out.Groups, loop.Group{Name: name, Reconciler: h})
					}
					return out
				},
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() { _ = l.Run(ctx) })
			all.Go(func() { _ = f.Run(ctx, func() {}) })
			time.Sleep(time.Minute)
			cancel()
			all.Wait()
			if len(small.live) != tt.want {
				t.Errorf("%+v: %d are left", tt, len(small.live))
			}
		})
	}
}

// hanging answers nobody.
type hanging struct{ many }

func (hanging) Read(ctx context.Context) ([]reconciler.Resource, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// What a database that hangs kept from being reached is enforced all the same,
// everywhere else.
func TestKeptBesideHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := specs.Set{Networks: []specs.Network{{Name: "old"}}}
		l := loop.New(loop.Options{Log: slog.New(slog.DiscardHandler), Emit: func(loop.Event) {}})
		f := &Follower{
			Source: &shelf{kept: revision("old"), err: errors.New("away"), bell: source.NewBell()},
			Loop:   l, Log: slog.New(slog.DiscardHandler),
			Load: func([]source.File) (specs.Set, []string) { return set, nil },
			Target: func(specs.Set) loop.Target {
				h := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: "x", Enforcer: hanging{}}}}
				return loop.Target{Groups: []loop.Group{{Name: "database", Reconciler: h}}}
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		begun := time.Now()
		all.Go(func() { _ = f.Run(ctx, cancel) })
		all.Wait()
		if took := time.Since(begun); took > time.Second || l.State().Revision == nil {
			t.Errorf("ready after %s, with %v", took, l.State().Revision)
		}
	})
}
