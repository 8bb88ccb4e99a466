package broker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

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
		broken    bool
		want      []string // ended, with a word of why
	}{
		"permitted":        {[]string{"user:bob", "group:shop"}, false, []string{"undeclared: not declared", "unknown: user 4711", "unpaired: no sandbox agent"}},
		"a user less":      {[]string{"group:shop"}, false, []string{"named: user bob", "undeclared: not declared", "unknown: user 4711", "unpaired: user bob"}},
		"a group less":     {[]string{"user:bob"}, false, []string{"grouped: user eve", "undeclared: not declared", "unknown: user 4711", "unpaired: no sandbox agent"}},
		"nobody":           {nil, false, []string{"grouped: user eve", "named: user bob", "undeclared: not declared", "unknown: user 4711", "unpaired: user bob"}},
		"no user database": {[]string{"user:bob", "group:shop"}, true, []string{"undeclared: not declared"}},
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
		d.broken = c.broken
		s.accounts = d
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
