package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

// memory is an enforcer whose subsystem is a map.
type memory struct {
	desired, live []Resource
	fail          map[Addr]error
	readErr       error
	surveyErr     error
	done          []string
}

func (m *memory) Desired(specs.Set) ([]Resource, error)                    { return m.desired, nil }
func (m *memory) Read(context.Context) ([]Resource, error)                 { return m.live, m.readErr }
func (m *memory) Survey(_ context.Context, s specs.Set) (specs.Set, error) { return s, m.surveyErr }

func (m *memory) Apply(_ context.Context, c Change) error {
	if err := m.fail[c.Addr()]; err != nil {
		return err
	}
	m.done = append(m.done, show([]Change{c}))
	return nil
}

func plan(t *testing.T, enforcers ...Named) (*Reconciler, *Plan) {
	t.Helper()
	r := &Reconciler{Enforcers: enforcers}
	p, err := r.Plan(context.Background(), specs.Set{})
	if err != nil {
		t.Fatal(err)
	}
	return r, p
}

func TestApplyFailureSkipsOnlyWhatNeedsIt(t *testing.T) {
	m := &memory{
		desired: parse("a b>a c>b d"),
		live:    parse("old>older older"),
		fail:    map[Addr]error{"x.a": errors.New("no space"), "x.old": errors.New("busy")},
	}
	r, p := plan(t, Named{Name: "x", Enforcer: m})
	var skipped []string
	report := r.Apply(context.Background(), p, func(e Event) {
		if e.Skipped {
			skipped = append(skipped, e.Err.Error())
		}
	})
	if got := strings.Join(m.done, " "); got != "+d" {
		t.Errorf("made %q, want only +d", got)
	}
	want := "x.older: not tried: it waits for x.old\nx.b: not tried: it waits for x.a\nx.c: not tried: it waits for x.b"
	if got := strings.Join(skipped, "\n"); got != want {
		t.Errorf("skipped:\n%s\nwant:\n%s", got, want)
	}
	err := report.Err()
	for _, s := range []string{"x.a: no space", "x.old: busy", "3 more not tried"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("error %v lacks %q", err, s)
		}
	}
}

func TestApplyStopsWhenToldTo(t *testing.T) {
	m := &memory{desired: parse("a b c")}
	r, p := plan(t, Named{Name: "x", Enforcer: m})
	ctx, cancel := context.WithCancel(context.Background())
	report := r.Apply(ctx, p, func(e Event) {
		if e.Done {
			cancel()
		}
	})
	if len(m.done) != 1 || !report.Results[1].Skipped || !errors.Is(report.Results[2].Err, context.Canceled) {
		t.Errorf("made %v, report %+v", m.done, report)
	}
}

// An enforcer that can't read has no changes; what needs it elsewhere waits.
func TestUnreadEnforcer(t *testing.T) {
	blind := &memory{live: []Resource{thing{A: "y.1"}}, desired: []Resource{thing{A: "y.2"}}, readErr: errors.New("dump interrupted")}
	other := &memory{desired: []Resource{thing{A: "x.a", N: []Addr{"y.2"}}, thing{A: "x.b"}}, live: parse("gone")}
	r, p := plan(t, Named{Name: "x", Enforcer: other}, Named{Name: "y", Enforcer: blind})
	if got := show(p.Changes); got != "-gone +a +b" {
		t.Errorf("plan %q", got)
	}
	if p.Empty() || len(p.Failures) != 1 || p.Failures[0].Enforcer != "y" {
		t.Errorf("failures %v", p.Failures)
	}
	r.Apply(context.Background(), p, nil)
	if got := strings.Join(other.done, " "); got != "-gone +b" {
		t.Errorf("made %q: x.a needs what is not known", got)
	}
	if len(blind.done) > 0 {
		t.Errorf("changed what was not read: %v", blind.done)
	}
}

// What an enforcer that can't read may need stays, and all that this needs.
func TestUnreadEnforcerKeepsWhatItMayNeed(t *testing.T) {
	slots := &memory{readErr: errors.New("dump interrupted")}
	firewall := &memory{live: []Resource{thing{A: "net.hook", N: []Addr{"net2.chain"}}}}
	chains := &memory{live: []Resource{thing{A: "net2.chain", N: []Addr{"net2.set"}}, thing{A: "net2.set"}, thing{A: "net2.other"}}}
	other := &memory{live: []Resource{thing{A: "db.role"}}}
	_, p := plan(t, Named{Name: "slot", Needs: []string{"net"}, Enforcer: slots}, Named{Name: "net", Enforcer: firewall},
		Named{Name: "net2", Enforcer: chains}, Named{Name: "db", Enforcer: other})
	if got := show(p.Changes); got != "-db.role -net2.other" {
		t.Errorf("plan %q: slots that were not seen may need the hook", got)
	}
}

// Facts that can't be found delete nothing that comes with them.
func TestUnknownFactsDeleteNothing(t *testing.T) {
	sessions := &memory{surveyErr: errors.New("lease unreadable")}
	cgroups := &memory{live: []Resource{thing{A: "x.1", Fleeting: true}, thing{A: "x.2"}}}
	_, p := plan(t, Named{Name: "x", Enforcer: cgroups}, Named{Name: "s", Enforcer: sessions})
	if got := show(p.Changes); got != "-2" {
		t.Errorf("plan %q, want only the one that no fact carries", got)
	}
}

func TestBudget(t *testing.T) {
	many := func(n int, fleeting bool) []Resource {
		var out []Resource
		for i := range n {
			out = append(out, thing{A: Addr(fmt.Sprintf("x.%t%d", fleeting, i)), Fleeting: fleeting})
		}
		return out
	}
	for _, tt := range []struct {
		name            string
		live, remaining int
		fleeting        bool
		ok              bool
	}{
		{"ten of ten", 10, 0, false, true},
		{"eleven of eleven", 11, 0, false, false},
		{"thirty of a hundred", 100, 70, false, true},
		{"thirty-one of a hundred", 100, 69, false, false},
		{"sessions do not count", 100, 0, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			live := many(tt.live, tt.fleeting)
			_, p := plan(t, Named{Name: "x", Enforcer: &memory{live: live, desired: live[:tt.remaining]}})
			if err := p.CheckBudget(); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The plan shows another number than what is held against the budget.
func TestBudgetNamesWhatDoesNotCount(t *testing.T) {
	var live []Resource
	for i := range 15 {
		live = append(live, thing{A: Addr(fmt.Sprintf("x.%d", i)), Fleeting: i >= 11})
	}
	_, p := plan(t, Named{Name: "x", Enforcer: &memory{live: live}})
	const want = "removes 11 of 11 resources (and 4 that don't count: sessions', warm slots, or what only opens), more than 30 %"
	if err := p.CheckBudget(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestPlanPart(t *testing.T) {
	m := &memory{desired: parse("s>c,n c n>h h other"), live: parse("h:9 stray")}
	r := &Reconciler{Enforcers: []Named{{Name: "x", Enforcer: m}}}
	p, err := r.PlanPart(context.Background(), specs.Set{}, []Addr{"x.s"})
	if err != nil {
		t.Fatal(err)
	}
	if got := show(p.Changes); got != "+c ~h +n +s" {
		t.Errorf("start: %q", got)
	}
	m.desired, m.live = parse("h other"), parse("s>c,n c n>h h stray")
	p, err = r.PlanPart(context.Background(), specs.Set{}, []Addr{"x.s", "x.c", "x.n", "x.h"})
	if err != nil {
		t.Fatal(err)
	}
	if got := show(p.Changes); got != "-s -c -n" {
		t.Errorf("end: %q", got)
	}
}

func TestInvert(t *testing.T) {
	_, p := plan(t, Named{Name: "x", Enforcer: &memory{desired: parse("a:1 b>a c:2"), live: parse("c:1 d")}})
	back, err := p.Invert()
	if err != nil {
		t.Fatal(err)
	}
	if got := show(back.Changes); got != "-b -a ~c +d" {
		t.Errorf("got %q", got)
	}
}
