package reconciler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// thing is a resource for tests.
type thing struct {
	A        Addr   `json:"-"`
	N        []Addr `json:"-"`
	V        int    `json:"v"`
	Fleeting bool   `json:"-"`
}

func (t thing) Addr() Addr      { return t.A }
func (t thing) Needs() []Addr   { return t.N }
func (t thing) Ephemeral() bool { return t.Fleeting }

// parse reads "a:1>b,c d" as thing a of value 1 that needs b and c, and d.
func parse(text string) []Resource {
	var out []Resource
	for _, f := range strings.Fields(text) {
		head, needs, _ := strings.Cut(f, ">")
		name, value, _ := strings.Cut(head, ":")
		t := thing{A: Addr("x." + name)}
		_, _ = fmt.Sscan(value, &t.V)
		for n := range strings.SplitSeq(needs, ",") {
			if n != "" {
				t.N = append(t.N, Addr("x."+n))
			}
		}
		out = append(out, t)
	}
	return out
}

func show(changes []Change) string {
	var parts []string
	for _, c := range changes {
		parts = append(parts, Style{}.Sign(c.Action())+strings.TrimPrefix(string(c.Addr()), "x."))
	}
	return strings.Join(parts, " ")
}

func TestDiff(t *testing.T) {
	for _, tt := range []struct{ name, desired, live, want string }{
		{"nothing", "", "", ""},
		{"same", "a:1 b:2", "b:2 a:1", ""},
		{"create by address", "b a", "", "+a +b"},
		{"numbers by value", "s10 s9 s1", "", "+s1 +s9 +s10"},
		{"needs first", "a>b b>c c", "", "+c +b +a"},
		{"update", "a:2", "a:1", "~a"},
		{"needs alone are no change", "a>b b", "a b", ""},
		{"deletes in reverse", "", "a>b b>c c", "-a -b -c"},
		{"deletes before creates", "z", "a", "-a +z"},
		{"a delete waits for the update that lets go", "a:2", "a:1>b b", "~a -b"},
		{"an update waits for what it will need", "a:2>c c", "a:1>b b", "+c ~a -b"},
		{"what exists already is not waited for", "a>b b", "b", "+a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Diff(parse(tt.desired), parse(tt.live))
			if err != nil {
				t.Fatal(err)
			}
			if show(got) != tt.want {
				t.Errorf("got %q, want %q", show(got), tt.want)
			}
		})
	}
}

func TestDiffErrors(t *testing.T) {
	for _, tt := range []struct{ name, desired, live, want string }{
		{"circle", "a>b b>a", "", "circle: x.a, x.b"},
		{"desired twice", "a a", "", "x.a: desired twice"},
		{"read twice", "", "a a", "x.a: read twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Diff(parse(tt.desired), parse(tt.live))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestDiffProperties walks random states: the order is one of the possible
// ones, does not depend on the order of the inputs, and leads to desired.
func TestDiffProperties(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		desired, live := random(rnd), random(rnd)
		changes, err := Diff(desired, live)
		if err != nil {
			t.Fatal(err)
		}
		state := map[Addr]Resource{}
		for _, r := range live {
			state[r.Addr()] = r
		}
		wanted := map[Addr]bool{}
		for _, r := range desired {
			wanted[r.Addr()] = true
		}
		for _, c := range changes {
			if c.After == nil {
				delete(state, c.Addr())
				for _, r := range state {
					if slices.Contains(r.Needs(), c.Addr()) && !wanted[c.Addr()] && changed(changes, r) {
						t.Fatalf("seed %d: %s deleted while %s needs it: %s", seed, c.Addr(), r.Addr(), show(changes))
					}
				}
				continue
			}
			for _, n := range c.After.Needs() {
				if _, ok := state[n]; !ok {
					t.Fatalf("seed %d: %s made before %s: %s", seed, c.Addr(), n, show(changes))
				}
			}
			state[c.Addr()] = c.After
		}
		if len(state) != len(desired) {
			t.Fatalf("seed %d: %d resources, want %d", seed, len(state), len(desired))
		}
		rnd.Shuffle(len(desired), func(i, j int) { desired[i], desired[j] = desired[j], desired[i] })
		rnd.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
		again, err := Diff(desired, live)
		if err != nil || show(again) != show(changes) {
			t.Fatalf("seed %d: not a function of the states: %q, then %q (%v)", seed, show(changes), show(again), err)
		}
	}
}

// changed tells whether r is still as it was before one of the changes.
func changed(changes []Change, r Resource) bool {
	return slices.ContainsFunc(changes, func(c Change) bool {
		return c.Addr() == r.Addr() && c.Before != nil && slices.Equal(c.Before.Needs(), r.Needs())
	})
}

// random is a state without circles: things need only those of lower number.
func random(rnd *rand.Rand) []Resource {
	var out []Resource
	var have []Addr
	for i := range 12 {
		if rnd.IntN(3) == 0 {
			continue
		}
		r := thing{A: Addr(fmt.Sprintf("x.%d", i)), V: rnd.IntN(2)}
		for _, a := range have {
			if rnd.IntN(3) == 0 {
				r.N = append(r.N, a)
			}
		}
		have = append(have, r.A)
		out = append(out, r)
	}
	return out
}

func TestNewAddr(t *testing.T) {
	for _, tt := range []struct {
		parts []string
		want  Addr
	}{
		{[]string{"slot", "llm-only", "7"}, "slot.llm-only.7"},
		{[]string{"postgres", "main", "shop", "Order Items"}, `postgres.main.shop."Order Items"`},
		{[]string{"postgres", "a.b", `c"d`}, `postgres."a.b"."c\"d"`},
		{[]string{"x", ""}, `x.""`},
		{[]string{`a"b.c`, "d", `.`}, `"a\"b.c".d."."`},
	} {
		got := NewAddr(tt.parts...)
		if got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		if parts := got.Parts(); !slices.Equal(parts, tt.parts) {
			t.Errorf("%s comes apart to %q", got, parts)
		}
	}
}
