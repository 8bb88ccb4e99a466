package reconciler

import (
	"fmt"

	"github.com/aicodesit/cordon/specs"
)

// A Supposer is a [Surveyor] that knows what facts there would be on a host on
// which everything that is declared is used. Suppose returns set with those
// that it and other, which it is compared with, take for granted.
type Supposer interface {
	Suppose(set, other specs.Set) specs.Set
}

// A Locator is an Enforcer that can tell which declaration a resource is there
// for. Locate returns the zero Range when there is none in set.
type Locator interface {
	Locate(set specs.Set, addr Addr) specs.Range
}

// PlanBetween compares what two sets desire: what taking head would change on
// a host that is as base desires. It needs neither host nor privilege.
//
// Besides the enforcers' resources the blocks themselves are compared, as
// resources of the enforcer "declared": much of what they say is enforced when
// a session starts or asks for something, and is no resource until then.
//
// The facts are those of snap; when that is nil, what the enforcers suppose.
func (r *Reconciler) PlanBetween(base, head specs.Set, snap *Snapshot) (*Plan, error) {
	if snap != nil {
		base, head = snap.facts(base), snap.facts(head)
	} else {
		base, head = r.suppose(base, head), r.suppose(head, base)
	}
	both := r.withDeclared()
	live := map[string][]Resource{}
	var failures []Failure
	for _, e := range both.Enforcers {
		desired, err := e.Desired(base)
		if err != nil {
			failures = append(failures, Failure{Enforcer: e.Name, Err: fmt.Errorf("at the base: %w", err)})
			continue
		}
		live[e.Name] = desired
	}
	return both.compare(head, both.desire(head, failures), live, failures)
}

func (r *Reconciler) withDeclared() *Reconciler {
	all := append([]Named{{Name: declaredName, Enforcer: declared{}}}, r.Enforcers...)
	return &Reconciler{Enforcers: all, Log: r.Log}
}

func (r *Reconciler) suppose(set, other specs.Set) specs.Set {
	for _, e := range r.Enforcers {
		if s, ok := e.Enforcer.(Supposer); ok {
			set = s.Suppose(set, other)
		}
	}
	return set
}

// Places tells where in the files the declarations stand that p's changes and
// notes are about. What has no declaration, or one that is gone, is not in it.
func (r *Reconciler) Places(p *Plan) map[Addr]specs.Range {
	locators := map[string]Locator{}
	for _, e := range r.withDeclared().Enforcers {
		if l, ok := e.Enforcer.(Locator); ok {
			locators[e.Name] = l
		}
	}
	places := map[Addr]specs.Range{}
	add := func(a Addr) {
		if l, ok := locators[a.Enforcer()]; ok {
			if at := l.Locate(p.Set, a); at.File != "" {
				places[a] = at
			}
		}
	}
	for _, c := range p.Changes {
		add(c.Addr())
	}
	for _, n := range p.Notes {
		add(n.Addr)
	}
	for _, name := range p.Set.NotEnforced() {
		add(declaredAddr(name))
	}
	return places
}
