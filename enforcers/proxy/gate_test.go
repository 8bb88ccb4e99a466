package proxy

import (
	"context"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/specs"
)

// enter has the gate admit a request.
func enter(t *testing.T, g *gate, request *ending.Context) {
	t.Helper()
	if bad := g.enter(request, time.Now()); bad != nil {
		t.Fatal(bad)
	}
}

// A request ends with its session or that one's token, for its reason, and no
// request of the session's next token does.
func TestRequestsEndWithTheirSession(t *testing.T) {
	lease := specs.Lease{ID: "aaaaaaaa"}
	for _, cause := range []error{errEnded, errExpired} {
		g := newGates(nil)
		alive, end := context.WithCancelCause(context.Background())
		old := g.of(&Session{Lease: lease, Alive: alive})
		before, through, after, next := new(ending.Context), new(ending.Context), new(ending.Context), new(ending.Context)
		enter(t, old, before)
		enter(t, old, through)
		old.leave(through)
		if g.of(&Session{Lease: lease, Alive: alive}) != old {
			t.Error("a session has two gates")
		}
		again, endAgain := context.WithCancel(context.Background())
		defer endAgain()
		fresh := g.of(&Session{Lease: lease, Alive: again})
		enter(t, fresh, next)
		end(cause)
		<-before.Done()
		enter(t, old, after)
		if context.Cause(before) != cause || context.Cause(after) != cause {
			t.Errorf("%v and %v, want %v", context.Cause(before), context.Cause(after), cause)
		}
		if through.Err() != nil || next.Err() != nil {
			t.Error("one that was through, or is of the next token, ended")
		}
		if fresh == old || g.of(&Session{Lease: lease, Alive: again}) != fresh {
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
func TestLeave(t *testing.T) {
	for leaves := range 3 {
		g := &gate{all: newGates(nil)}
		var all []*ending.Context
		for range 3 {
			all = append(all, new(ending.Context))
			enter(t, g, all[len(all)-1])
		}
		for range 2 { // the second time it is gone
			g.leave(all[leaves])
		}
		g.end(errEnded)
		for i, c := range all {
			if (c.Err() != nil) != (i != leaves) {
				t.Errorf("%d leaves, %d: %v", leaves, i, c.Err())
			}
			g.leave(c)
		}
		if len(g.running) != 0 {
			t.Errorf("%d are left", len(g.running))
		}
	}
}

// The account that is found is the one that its name is of, also when it was
// found before.
func TestAccounts(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	budgets := []specs.Budget{{Scope: specs.BudgetProxy}, {Scope: specs.BudgetProject}, {Scope: specs.BudgetSession}}
	for _, every := range []time.Duration{time.Minute, 24 * time.Hour, time.Millisecond} {
		for _, b := range budgets[:3] {
			b.Every = every
			budgets = append(budgets, b)
		}
	}
	l := newLedger(budgets)
	for round := range 3 { // it is made, found by its name, and known
		for _, project := range []string{"", "shop", "shop2"} {
			for _, id := range []string{"aaaaaaaa", "bbbbbbbb"} {
				for _, started := range []time.Duration{0, time.Second} {
					for _, after := range []time.Duration{0, time.Second, time.Minute, 25 * time.Hour} {
						s, now := &Session{Lease: specs.Lease{ID: id, Project: project, Started: begin.Add(-started)}}, begin.Add(after)
						for i := range budgets {
							name := key(&budgets[i], s, now)
							want := l.accounts[name]
							if want == nil && round > 0 {
								t.Fatalf("%s: there is none", name)
							}
							if got := l.account(i, s, now); got != want {
								t.Fatalf("%s: another one", name)
							}
							if got := l.open(i, s, now); got == nil || got != l.accounts[name] || want != nil && got != want {
								t.Fatalf("%s: another one is opened", name)
							}
						}
					}
				}
			}
		}
	}
	for i := range 2 * maxKnown {
		for _, budget := range []int{0, 2} {
			s := &Session{Lease: specs.Lease{Started: begin.Add(time.Duration(i) * time.Second)}}
			l.open(budget, s, begin)
			l.account(budget, s, begin)
		}
	}
	if len(l.known) > maxKnown {
		t.Errorf("%d accounts are known", len(l.known))
	}
}

// An account that was forgotten is not known either: what is spent next is
// written down. One of which something is reserved stays.
func TestForgottenAccounts(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := newLedger([]specs.Budget{{Scope: specs.BudgetSession, Requests: 2}})
	l.now = func() time.Time { return now }
	done, runs := Session{Lease: specs.Lease{ID: "aaaaaaaa"}}, Session{Lease: specs.Lease{ID: "bbbbbbbb"}}
	take := func(s Session) reservation {
		t.Helper()
		r, bad := l.reserve(nil, &s, amount{Requests: 1})
		if bad != nil {
			t.Fatal(bad)
		}
		return r
	}
	for range 2 {
		l.settle(take(done), amount{Requests: 1})
	}
	if _, bad := l.reserve(nil, &done, amount{Requests: 1}); bad == nil {
		t.Error("a third one is let through")
	}
	held := take(runs)
	now = now.Add(31 * 24 * time.Hour)
	l.tidy(now)
	if len(l.accounts) != 1 {
		t.Errorf("%d accounts, want that of the one that runs", len(l.accounts))
	}
	l.settle(held, amount{Requests: 1})
	l.settle(take(done), amount{Requests: 1})
	for _, s := range []Session{done, runs} {
		if a := l.accounts[key(&l.budgets[0], &s, now)]; a == nil || a.spent.Requests != 1 || a.reserved != (amount{}) {
			t.Errorf("%s: %+v", s.Lease.ID, a)
		}
	}
}

// Budgets of one scope and period share an account, and a request is charged
// to it once; who is refused by one of them opens none.
func TestSharedAccount(t *testing.T) {
	l := newLedger([]specs.Budget{{Scope: specs.BudgetSession, Requests: 9}, {Scope: specs.BudgetSession, InputTokens: 9}, {Scope: specs.BudgetProxy}, {Scope: specs.BudgetSession}})
	s := Session{Lease: specs.Lease{ID: "aaaaaaaa"}}
	if _, bad := l.reserve(nil, &s, amount{Requests: 1, Input: 10}); bad == nil || len(l.accounts) != 0 {
		t.Errorf("%v, and %d accounts", bad, len(l.accounts))
	}
	for i := int64(1); i <= 3; i++ {
		r, bad := l.reserve(nil, &s, amount{Requests: 1, Input: 2})
		if bad != nil {
			t.Fatal(bad)
		}
		l.settle(r, amount{Requests: 1, Input: 2})
		if len(l.accounts) != 2 {
			t.Errorf("%d accounts", len(l.accounts))
		}
		for name, a := range l.accounts {
			if a.spent != (amount{Requests: i, Input: 2 * i}) || a.reserved != (amount{}) {
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
}
