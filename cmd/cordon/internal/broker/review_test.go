package broker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// returning is a user database that knows nobody until it is asked whether it
// answers.
type returning struct {
	db
	back *bool
}

func (r returning) now() db {
	d := r.db
	d.away = !*r.back
	return d
}
func (r returning) user(name string) (uint32, error)        { return r.now().user(name) }
func (r returning) group(name string) (uint32, error)       { return r.now().group(name) }
func (r returning) of(uid uint32) (string, []uint32, error) { return r.now().of(uid) }
func (r returning) answers() error                          { *r.back = true; return nil }

func TestReview(t *testing.T) {
	bob, eve, gone := uint32(1000), uint32(1001), uint32(4711)
	run := func(id, project, sandbox string, operator *uint32) Session {
		return Session{Status: session.Status{Lease: specs.Lease{ID: id, Project: project, Sandbox: sandbox, Operator: operator}}}
	}
	list := []Session{
		run("named", "shop", "shell", &bob), run("grouped", "shop", "shell", &eve), run("unknown", "shop", "shell", &gone),
		run("root", "shop", "shell", nil), run("unpaired", "shop", "agent", &bob), run("undeclared", "old", "shell", &bob),
	}
	d := db{
		users: map[string]uint32{"bob": bob, "eve": eve}, groups: map[string]uint32{"shop": 50},
		in: map[uint32][]uint32{eve: {1001, 50}}, // its process may have the group or not
	}
	for name, c := range map[string]struct {
		operators []string
		db        string
		want      []string // ended, with a word of why
	}{
		"permitted":             {[]string{"user:bob", "group:shop"}, "answers", []string{"undeclared: not declared", "unknown: user 4711", "unpaired: no sandbox agent"}},
		"a user less":           {[]string{"group:shop"}, "answers", []string{"named: user bob", "undeclared: not declared", "unknown: user 4711", "unpaired: user bob"}},
		"a group less":          {[]string{"user:bob"}, "answers", []string{"grouped: user eve", "undeclared: not declared", "unknown: user 4711", "unpaired: no sandbox agent"}},
		"nobody":                {nil, "answers", []string{"grouped: user eve", "named: user bob", "undeclared: not declared", "unknown: user 4711", "unpaired: user bob"}},
		"no user database":      {[]string{"user:bob", "group:shop"}, "broken", []string{"undeclared: not declared"}},
		"one that knows nobody": {[]string{"user:bob", "group:shop"}, "away", []string{"undeclared: not declared"}},
		"one that is back":      {[]string{"user:bob"}, "back", []string{"grouped: user eve", "undeclared: not declared", "unknown: user 4711", "unpaired: no sandbox agent"}},
		"no operators, and one that knows nobody": {nil, "away", []string{"grouped: user 1001", "named: user 1000", "undeclared: not declared", "unknown: user 4711", "unpaired: user 1000"}},
	} {
		var mu sync.Mutex
		var ended []string
		told := map[string]string{}
		s := New(Options{
			Set: func() (specs.Set, bool) {
				return specs.Set{Projects: []specs.Project{{Name: "shop", Operators: c.operators, Sandboxes: []string{"shell"}}}}, true
			},
			List: func(context.Context, specs.Set) ([]Session, error) { return list, nil },
			Stop: func(_ context.Context, id string, o session.Order) error {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, id+": "+o.Why)
				return nil
			},
			Emit: func(e loop.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == loop.SessionRevoked {
					told[e.Session] = e.Text
				}
			},
		})
		d.broken, d.away = c.db == "broken", c.db == "away"
		s.accounts = d
		if c.db == "back" {
			s.accounts = returning{d, new(bool)}
		}
		s.reviewAll(t.Context())
		s.ending.all.Wait()
		slices.Sort(ended)
		if len(ended) != len(c.want) {
			t.Errorf("%s: ended %q, want %q", name, ended, c.want)
			continue
		}
		for i, want := range c.want {
			id, why, _ := strings.Cut(want, ": ")
			if !strings.HasPrefix(ended[i], id+": ") || !strings.Contains(ended[i], why) || id+": "+told[id] != ended[i] {
				t.Errorf("%s: ended %q and told %q, want %q", name, ended[i], told[id], want)
			}
		}
	}
}

// A session that uses its grace period keeps no other from being ended, and is
// itself ended once.
func TestReviewGoesOnWhileOneEnds(t *testing.T) { synctest.Test(t, reviewGoesOn) }

func reviewGoesOn(t *testing.T) {
	bob := uint32(1000)
	var running []Session
	for _, id := range []string{"slow", "next"} {
		running = append(running, Session{Status: session.Status{Lease: specs.Lease{ID: id, Project: "shop", Sandbox: id, Operator: &bob}}})
	}
	told, asked := make(chan string, 8), make(chan string, 8)
	var set atomic.Value
	declare := func(sandboxes ...string) {
		set.Store(specs.Set{Projects: []specs.Project{{Name: "shop", Operators: []string{"user:bob"}, Sandboxes: sandboxes}}})
	}
	declare("next")
	s := New(Options{
		Set:  func() (specs.Set, bool) { return set.Load().(specs.Set), true },
		List: func(context.Context, specs.Set) ([]Session, error) { return running, nil },
		Stop: func(ctx context.Context, id string, _ session.Order) error {
			asked <- id
			<-ctx.Done() // it does not end
			return context.Cause(ctx)
		},
		Emit: func(e loop.Event) { told <- e.Session },
	})
	s.accounts = db{users: map[string]uint32{"bob": bob}}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.reviews(ctx) }()
	for _, want := range []string{"slow", "next"} {
		s.Review()
		if id := <-asked; id != want {
			t.Errorf("%s is ended where %s should be", id, want)
		}
		declare()
	}
	end()
	<-done // and with it what it began
	if len(told) != 2 || len(asked) != 0 {
		t.Errorf("%d events, %d more orders", len(told), len(asked))
	}
}

// What could not be known, and what could not be done, is tried again.
func TestReviewIsMadeAgain(t *testing.T) { synctest.Test(t, reviewAgain) }

func reviewAgain(t *testing.T) {
	bob := uint32(1000)
	list, stop := 0, 0
	ended := make(chan string)
	s := New(Options{
		Set: func() (specs.Set, bool) {
			return specs.Set{Projects: []specs.Project{{Name: "shop", Operators: []string{"user:bob"}}}}, true
		},
		List: func(context.Context, specs.Set) ([]Session, error) {
			if list++; list == 1 {
				return nil, errBroken
			}
			x := specs.Lease{ID: "it", Project: "shop", Sandbox: "shell", Operator: &bob}
			return []Session{{Status: session.Status{Lease: x}}}, nil
		},
		Stop: func(_ context.Context, id string, _ session.Order) error {
			if stop++; stop == 1 {
				return errBroken
			}
			ended <- id
			return nil
		},
		Emit: func(loop.Event) {},
	})
	s.accounts = &healing{db{users: map[string]uint32{"bob": bob}, broken: true}, 2}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.reviews(ctx) }()
	begun := time.Now()
	s.Review()
	<-ended
	// For the list, twice for the user database, and for the end.
	if took := time.Since(begun); took != 4*reviewPause {
		t.Errorf("after %s", took)
	}
	end()
	<-done
}

// healing is a user database that answers from the third question on.
type healing struct {
	db
	left int
}

func (h *healing) user(name string) (uint32, error) {
	h.broken = h.left > 0
	h.left--
	return h.db.user(name)
}
