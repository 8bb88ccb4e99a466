package seccomp

import (
	"fmt"
	"slices"
	"sync"

	"github.com/aicodesit/cordon/enforcers/seccomp/base"
	"github.com/aicodesit/cordon/internal/agent"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Name is the first part of the enforcer's addresses.
const Name = "seccomp"

// Base is the only base there is.
const Base = "container"

// Options is what an [Enforcer] needs.
type Options struct {
	Dir      rundir.Dir
	Compiler Compiler
	// Recorded takes a filter for what its policy compiles to when its record
	// says so, instead of compiling that: see "Mark and privilege".
	Recorded bool
}

// Enforcer keeps the compiled filters. It implements [reconciler.Enforcer],
// [reconciler.PartReader] and [reconciler.Examiner].
type Enforcer struct {
	dir      rundir.Dir
	programs programs
	recorded bool
	rules    func() string // the digest of the base, computed once
}

// New returns an Enforcer.
func New(o Options) *Enforcer {
	return &Enforcer{dir: o.Dir, programs: programs{compiler: o.Compiler}, recorded: o.Recorded, rules: sync.OnceValue(base.Digest)}
}

// Resource is one filter: the policy, and what its file departs from it.
type Resource struct {
	Filter string   `json:"-"`               // name of the block, or of the base as it is
	Base   string   `json:"base,omitempty"`  // "" only when not even that is known
	Rules  string   `json:"rules,omitempty"` // digest of what this build means by the base
	Deny   []string `json:"deny,omitempty"`  // sorted
	Allow  []string `json:"allow,omitempty"` // sorted
	Errno  string   `json:"errno,omitempty"` // name
	Log    bool     `json:"log,omitempty"`   // what sessions do with it; the file is the same
	Drift  []string `json:"drift,omitempty"` // sorted; empty in what is desired
}

// Addr returns the address of the filter that a sandbox with this
// [specs.Sandbox.Seccomp] needs; "" is the base as it is.
func Addr(name string) reconciler.Addr {
	if name == "" {
		name = specs.BaseFilter
	}
	return reconciler.NewAddr(Name, name)
}

// Addr implements [reconciler.Resource].
func (r Resource) Addr() reconciler.Addr { return Addr(r.Filter) }

// Needs implements [reconciler.Resource].
func (r Resource) Needs() []reconciler.Addr { return nil }

// Desired implements [reconciler.Enforcer].
func (e *Enforcer) Desired(set specs.Set) ([]reconciler.Resource, error) {
	rules := e.rules()
	var out []reconciler.Resource
	for _, s := range set.Seccomps {
		r, err := desired(s, rules)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Addr(s.Name), err)
		}
		out = append(out, r)
	}
	for _, s := range extra(set) {
		r, err := desired(s, rules)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Addr(s.Name), err)
		}
		out = append(out, r)
	}
	return out, nil
}

// extra are the filters that no block declares and sandboxes need: the base as
// it is, and variants for agents that make sandboxes themselves.
func extra(set specs.Set) []specs.Seccomp {
	var out []specs.Seccomp
	for _, s := range set.Sandboxes {
		name := agent.Filter(s)
		filter := specs.Seccomp{Name: specs.BaseFilter, Base: Base}
		if block := specs.Find(set.Seccomps, s.Seccomp); block != nil {
			filter = *block
		}
		switch {
		case agent.Nests(s):
			filter.Name, filter.Allow = name, append(slices.Clone(filter.Allow), specs.NestingCalls()...)
		case name != "":
			continue // a block
		}
		if !slices.ContainsFunc(out, func(have specs.Seccomp) bool { return have.Name == filter.Name }) {
			out = append(out, filter)
		}
	}
	return out
}

func desired(s specs.Seccomp, rules string) (Resource, error) {
	r := Resource{Filter: s.Name, Base: s.Base, Rules: rules, Deny: sorted(s.Deny), Allow: sorted(s.Allow), Errno: s.Errno, Log: s.Log}
	if r.Errno == "" {
		r.Errno = "EPERM"
	}
	if r.Base != Base {
		return r, fmt.Errorf("there is no base %q, only %q", r.Base, Base)
	}
	for _, name := range r.Deny {
		if slices.Contains(r.Allow, name) {
			return r, fmt.Errorf("%s is both in deny and in allow", name)
		}
	}
	return r, nil
}

// CheckBase returns an error unless the policy means the same by its base as
// this build: by another one it would come to another program.
func CheckBase(r Resource) error {
	if rules := base.Digest(); r.Base != Base || r.Rules != rules {
		return fmt.Errorf("the policy is of base %q with rules %q, but this program has %q with %q: use programs of one build", r.Base, r.Rules, Base, rules)
	}
	return nil
}

func sorted(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// Locate implements [reconciler.Locator]. What no block declares has no place.
func (e *Enforcer) Locate(set specs.Set, addr reconciler.Addr) specs.Range {
	for _, s := range set.Seccomps {
		if Addr(s.Name) == addr {
			return s.Range
		}
	}
	return specs.Range{}
}
