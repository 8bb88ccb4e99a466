package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

// tables desires a resource for each fact, that tells of the set it is in.
type tables struct{ broken string }

func (e tables) Desired(set specs.Set) ([]Resource, error) {
	var out []Resource
	for _, t := range set.Tables {
		out = append(out, attrs{NewAddr("t", t.Name), map[string]any{"user": set.Projects[0].User}})
	}
	if len(set.Projects) > 0 && set.Projects[0].User == e.broken {
		return nil, errors.New("broken")
	}
	return out, nil
}

func (tables) Read(context.Context) ([]Resource, error) { return nil, errors.New("no host is read") }
func (tables) Apply(context.Context, Change) error      { return errors.New("nothing is applied") }

func (tables) Suppose(set, other specs.Set) specs.Set {
	if len(set.Projects)+len(other.Projects) > 0 {
		set.Tables = []specs.Table{{Name: "supposed"}}
	}
	return set
}

func (tables) ChangeNotes(list []Change) (notes []Note) {
	for _, c := range list {
		if c.Addr().Enforcer() == "t" {
			_, typed := c.Before.(attrs)
			notes = append(notes, Note{Addr: c.Addr(), Text: map[bool]string{true: "typed", false: "not"}[typed]})
		}
	}
	return notes
}

func (tables) Locate(set specs.Set, a Addr) specs.Range { return set.Projects[0].Range }

func project(user string) specs.Set {
	return specs.Set{
		Projects: []specs.Project{{Name: "shop", User: user, Range: specs.Range{File: user + ".hcl", Line: 1}}},
		Secrets:  []specs.Secret{{Name: "key", File: "/secret/place/" + user}},
	}
}

func TestPlanBetween(t *testing.T) {
	r := &Reconciler{Enforcers: []Named{{Name: "t", Enforcer: tables{broken: "bad"}}}}
	p, err := r.PlanBetween(project("ann"), project("ben"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := p.WriteText(&got, Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"~ declared.project.shop\n    user = \"ann\" -> \"ben\"", "~ declared.secret.key", "~ t.supposed\n    user = \"ann\" -> \"ben\"", "t.supposed: typed", "3 to change"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %q in\n%s", want, got.String())
		}
	}
	if strings.Contains(got.String(), "place/") {
		t.Errorf("where a secret is may be sensitive, and is shown:\n%s", got.String())
	}
	places := r.Places(p)
	if places["t.supposed"].File != "ben.hcl" || places["declared.project.shop"].File != "ben.hcl" || len(places) != 2 {
		t.Errorf("places %+v", places)
	}
	if f, err := p.File(); err != nil || !f.Notes[0].Effect {
		t.Errorf("what a change means is not told apart: %+v, %v", f, err)
	}

	// The facts of a host, where there are some.
	p, err = r.PlanBetween(project("ann"), project("ben"), &Snapshot{Tables: []specs.Table{{Name: "real"}}})
	if err != nil || len(p.Changes) != 3 || p.Changes[2].Addr() != "t.real" {
		t.Errorf("got %v, %v", p.Changes, err)
	}

	same, err := r.PlanBetween(project("ann"), project("ann"), nil)
	if err != nil || !same.Empty() {
		t.Errorf("got %+v, %v", same, err)
	}
	for _, sides := range [][2]string{{"bad", "ann"}, {"ann", "bad"}} {
		p, err := r.PlanBetween(project(sides[0]), project(sides[1]), nil)
		if err != nil || len(p.Failures) != 1 || p.Failures[0].Enforcer != "t" || len(p.Changes) != 2 {
			t.Errorf("%s: got %+v, %v", sides, p, err)
		}
	}
}

// Every kind of block is compared.
func TestDeclaredLeavesNothingOut(t *testing.T) {
	set := specs.Set{
		Secrets: []specs.Secret{{Name: "x"}}, Environments: []specs.Environment{{Name: "x"}}, Proxies: []specs.Proxy{{Name: "x"}},
		Networks: []specs.Network{{Name: "x"}}, Seccomps: []specs.Seccomp{{Name: "x"}}, Sandboxes: []specs.Sandbox{{Name: "x"}},
		Databases: []specs.Database{{Name: "x"}}, Gateways: []specs.Gateway{{Name: "x"}}, Projects: []specs.Project{{Name: "x"}},
	}
	b, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	var lists map[string]json.RawMessage
	if err := json.Unmarshal(b, &lists); err != nil {
		t.Fatal(err)
	}
	list, err := declared{}.Desired(set)
	if err != nil || len(list) != len(lists) {
		t.Errorf("%d resources of %d kinds, %v", len(list), len(lists), err)
	}
	// When a kind is added, it must be added above and in blocks.
	facts := 4
	if fields := fieldsOf(specs.Set{}); len(lists) != fields-facts {
		t.Errorf("a Set has %d lists of blocks, the test %d", fields-facts, len(lists))
	}
}

func TestBetweenIsNotApplied(t *testing.T) {
	r := &Reconciler{Enforcers: []Named{{Name: "t", Enforcer: tables{}}}}
	p, err := r.PlanBetween(project("ann"), project("ben"), nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Document{Plan: p, Base: "a", Head: "b"}.file()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Current(p); err == nil || !strings.Contains(err.Error(), "can't be applied") {
		t.Errorf("got %v", err)
	}
}

func fieldsOf(v any) int { return reflect.TypeOf(v).NumField() }
