package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// together is a memory that takes changes in batches, as [Batcher] says.
type together struct {
	memory
	calls []string // the changes of each, with what they wait for
	until Addr     // the change before which cancel is called
	end   context.CancelFunc
}

func (b *together) ApplyAll(ctx context.Context, changes []Change, after [][]int) []error {
	var call []string
	errs := make([]error, len(changes))
	for i, c := range changes {
		call = append(call, fmt.Sprint(show(changes[i:i+1]), after[i]))
		if c.Addr() == b.until {
			b.end()
		}
		switch {
		case ctx.Err() != nil:
			errs[i] = ctx.Err()
		case slices.ContainsFunc(after[i], func(j int) bool { return errs[j] != nil }):
			errs[i] = ErrNotTried
		default:
			errs[i] = b.Apply(ctx, c)
		}
	}
	b.calls = append(b.calls, strings.Join(call, " "))
	return errs
}

func elsewhere(name string, needs ...Addr) Resource { return thing{A: Addr(name), N: needs} }

func TestBatches(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name    string
		alone   []Resource // of an enforcer y that takes changes one by one
		fail    map[Addr]error
		batch   []Resource // of x
		failing map[Addr]error
		until   Addr
		calls   string // of ApplyAll, one a line
		results string // in the order of the plan
	}{
		{
			name: "all in one, in the plan's order", batch: parse("c b>a a d>b,c"),
			calls:   "+a[] +b[0] +c[] +d[1 2]",
			results: "x.a made; x.b made; x.c made; x.d made",
		},
		{
			name: "what fails skips what needs it, and no more", batch: parse("a b>a c>b d"), failing: map[Addr]error{"x.a": boom},
			calls:   "+a[] +b[0] +c[1] +d[]",
			results: "x.a failed: x.a: boom; x.b skipped: x.b: not tried: it waits for x.a; x.c skipped: x.c: not tried: it waits for x.b; x.d made",
		},
		{
			name: "an address that is there is not put there twice", batch: parse("a"), failing: map[Addr]error{"x.a": errors.New("x.a: boom")},
			calls: "+a[]", results: "x.a failed: x.a: boom",
		},
		{
			name: "what was made before the end stays made", batch: parse("a b c"), until: "x.b",
			calls:   "+a[] +b[] +c[]",
			results: "x.a made; x.b skipped: context canceled; x.c skipped: context canceled",
		},
		{
			name: "what waits for a failure elsewhere is in no batch", batch: []Resource{elsewhere("x.b", "y.a"), elsewhere("x.c"), elsewhere("x.d", "x.b")},
			alone: []Resource{elsewhere("y.a")}, fail: map[Addr]error{"y.a": boom},
			calls:   "+c[]",
			results: "x.c made; y.a failed: y.a: boom; x.b skipped: x.b: not tried: it waits for y.a; x.d skipped: x.d: not tried: it waits for x.b",
		},
		{
			name: "what needs elsewhere comes in a batch behind it", batch: []Resource{elsewhere("x.a"), elsewhere("x.b", "y.a"), elsewhere("x.c", "x.a", "x.b")},
			alone:   []Resource{elsewhere("y.a")},
			calls:   "+a[]\n+b[] +c[0]", // what was made before does not count
			results: "x.a made; y.a made; x.b made; x.c made",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			x := &together{memory: memory{desired: tt.batch, fail: tt.failing}, until: tt.until, end: cancel}
			y := &memory{desired: tt.alone, fail: tt.fail}
			r, p := plan(t, Named{Name: "x", Enforcer: x}, Named{Name: "y", Enforcer: y})
			var begun, ended []Addr
			report := r.Apply(ctx, p, func(e Event) {
				if e.Done {
					ended = append(ended, e.Change.Addr())
				} else {
					begun = append(begun, e.Change.Addr())
				}
			})
			var results []string
			for _, res := range report.Results {
				switch {
				case res.Skipped:
					results = append(results, fmt.Sprintf("%s skipped: %v", res.Change.Addr(), res.Err))
				case res.Err != nil:
					results = append(results, fmt.Sprintf("%s failed: %v", res.Change.Addr(), res.Err))
				default:
					results = append(results, fmt.Sprintf("%s made", res.Change.Addr()))
				}
			}
			if got := strings.Join(results, "; "); got != tt.results {
				t.Errorf("ended:\n%s\nwant:\n%s", got, tt.results)
			}
			if got := strings.Join(x.calls, "\n"); got != tt.calls {
				t.Errorf("calls:\n%s\nwant:\n%s", got, tt.calls)
			}
			for _, a := range begun {
				if !slices.Contains(ended, a) {
					t.Errorf("%s begins and does not end", a)
				}
			}
			if len(ended) != len(p.Changes) {
				t.Errorf("%d ends are told of %d changes", len(ended), len(p.Changes))
			}
		})
	}
}

// One that was told to stop before it began tries nothing.
func TestBatchAfterTheEnd(t *testing.T) {
	x := &together{memory: memory{desired: parse("a b")}}
	r, p := plan(t, Named{Name: "x", Enforcer: x})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report := r.Apply(ctx, p, nil)
	if len(x.calls) != 0 || !report.Results[0].Skipped || !report.Results[1].Skipped || report.Err() == nil {
		t.Errorf("calls %q, results %+v", x.calls, report.Results)
	}
}

// surplus only ever opens something.
type surplus struct{ thing }

func (surplus) Excess() bool { return true }

// However many there are of what only opens, taking it away needs no leave.
func TestBudgetIsNotForExcess(t *testing.T) {
	m := &memory{}
	for i := range 50 {
		m.live = append(m.live, surplus{thing{A: Addr(fmt.Sprint("x.", i))}})
	}
	if _, p := plan(t, Named{Name: "x", Enforcer: m}); len(p.Changes) != 50 || p.CheckBudget() != nil {
		t.Errorf("%d changes, %v", len(p.Changes), p.CheckBudget())
	}
}
