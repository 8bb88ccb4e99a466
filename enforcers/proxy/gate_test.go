package proxy

import (
	"context"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/specs"
)

// A request ends with its session or that one's token, for its reason, and no
// request of the session's next token does.
func TestRequestsEndWithTheirSession(t *testing.T) {
	lease := specs.Lease{ID: "aaaaaaaa"}
	for _, cause := range []error{errEnded, errExpired} {
		g := newGates(nil)
		alive, end := context.WithCancelCause(context.Background())
		old := g.of(Session{Lease: lease, Alive: alive})
		before, through, after, next := ending.New(), ending.New(), ending.New(), ending.New()
		old.watch(before)
		old.watch(through)
		old.unwatch(through)
		if g.of(Session{Lease: lease, Alive: alive}) != old {
			t.Error("a session has two gates")
		}
		again, endAgain := context.WithCancel(context.Background())
		defer endAgain()
		fresh := g.of(Session{Lease: lease, Alive: again})
		fresh.watch(next)
		end(cause)
		<-before.Done()
		old.watch(after)
		if context.Cause(before) != cause || context.Cause(after) != cause {
			t.Errorf("%v and %v, want %v", context.Cause(before), context.Cause(after), cause)
		}
		if through.Err() != nil || next.Err() != nil {
			t.Error("one that was through, or is of the next token, ended")
		}
		if fresh == old || g.of(Session{Lease: lease, Alive: again}) != fresh {
			t.Error("the gate of the next token went with the old one's")
		}
		endAgain()
		<-next.Done()
		eventually(t, "its gate is gone", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return len(g.open) == 0
		})
	}
}

// Requests that are through let go of the gate in any order, and of nothing else.
func TestUnwatch(t *testing.T) {
	for leaves := range 3 {
		g := &gate{all: newGates(nil)}
		var all []*ending.Context
		for range 3 {
			all = append(all, ending.New())
			g.watch(all[len(all)-1])
		}
		for range 2 { // the second time it is gone
			g.unwatch(all[leaves])
		}
		g.end(errEnded)
		for i, c := range all {
			if (c.Err() != nil) != (i != leaves) {
				t.Errorf("%d leaves, %d: %v", leaves, i, c.Err())
			}
			g.unwatch(c)
		}
		if len(g.running) != 0 {
			t.Errorf("%d are left", len(g.running))
		}
	}
}

// The name of an account that is kept is the one that would be made.
func TestAccountNames(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	budgets := []specs.Budget{{Scope: specs.BudgetProxy}, {Scope: specs.BudgetProject}, {Scope: specs.BudgetSession}}
	for _, every := range []time.Duration{time.Minute, 24 * time.Hour, time.Millisecond} {
		for _, b := range budgets[:3] {
			b.Every = every
			budgets = append(budgets, b)
		}
	}
	l := newLedger(budgets)
	for range 2 { // the second time they are kept
		for _, project := range []string{"", "shop", "shop2"} {
			for _, id := range []string{"aaaaaaaa", "bbbbbbbb"} {
				for _, started := range []time.Duration{0, time.Second} {
					for _, now := range []time.Duration{0, time.Second, time.Minute, 25 * time.Hour} {
						s := Session{Lease: specs.Lease{ID: id, Project: project, Started: begin.Add(-started)}}
						for i, b := range budgets {
							if got, want := l.name(i, s, begin.Add(now)), key(b, s, begin.Add(now)); got != want {
								t.Fatalf("%q, want %q", got, want)
							}
						}
					}
				}
			}
		}
	}
	for i := range 2 * maxNames {
		l.name(0, Session{}, begin)
		l.name(2, Session{Lease: specs.Lease{Started: begin.Add(time.Duration(i) * time.Second)}}, begin)
	}
	if len(l.names) > maxNames {
		t.Errorf("%d names are kept", len(l.names))
	}
}
