package network

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Read implements [reconciler.Enforcer].
func (e *Enforcer) Read(ctx context.Context) ([]reconciler.Resource, error) {
	out, err := e.readRules(ctx, e.families, false)
	if err != nil {
		return nil, err
	}
	sets, err := e.kernel.sets(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	for _, s := range sets {
		out = append(out, s.resources()...)
	}
	return e.addForwarding(ctx, out)
}

// ReadPart implements [reconciler.PartReader].
func (e *Enforcer) ReadPart(ctx context.Context, addrs []reconciler.Addr) ([]reconciler.Resource, error) {
	var families, networks []string
	forwarding := false
	for _, a := range addrs {
		parts := a.Parts()
		switch {
		case len(parts) == 5 && (parts[1] == "chain" || parts[1] == "hook"):
			if slices.Contains(e.families, parts[2]) { // there is nothing of a family that the kernel lacks
				families = append(families, parts[2])
			}
		case len(parts) == 3 && parts[1] == "set", len(parts) == 4 && parts[1] == "member":
			networks = append(networks, parts[2])
		case a == Forwarding{}.Addr():
			forwarding = true
		default:
			return nil, fmt.Errorf("%s: not an address of %s", a, Name)
		}
	}
	slices.Sort(families)
	slices.Sort(networks)
	out, err := e.readRules(ctx, slices.Compact(families), true)
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Compact(networks) {
		sets, err := e.kernel.sets(ctx, Set{Network: n}.name())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Set{Network: n}.Addr(), err)
		}
		for _, s := range sets {
			out = append(out, s.resources()...)
		}
	}
	if forwarding {
		if out, err = e.addForwarding(ctx, out); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(out, func(r reconciler.Resource) bool { return !slices.Contains(addrs, r.Addr()) }), nil
}

// readRules reads the families side by side.
func (e *Enforcer) readRules(ctx context.Context, families []string, known bool) ([]reconciler.Resource, error) {
	type answer struct {
		resources []reconciler.Resource
		err       error
	}
	answers := make(chan answer, len(families))
	for _, f := range families {
		go func() {
			rules, err := e.rules(ctx, f, known)
			answers <- answer{rules.resources(f), err}
		}()
	}
	var out []reconciler.Resource
	var failed error
	for range families {
		a := <-answers
		out = append(out, a.resources...)
		if a.err != nil {
			failed = a.err
		}
	}
	return out, failed
}

func (e *Enforcer) rules(ctx context.Context, family string, known bool) (ruleset, error) {
	text, err := e.kernel.save(ctx, family, known)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", Name, family, err)
	}
	rules, err := parseSave(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", Name, family, err)
	}
	return rules, nil
}

func (e *Enforcer) addForwarding(ctx context.Context, out []reconciler.Resource) ([]reconciler.Resource, error) {
	value, held, err := e.kernel.forwarding(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Forwarding{}.Addr(), err)
	}
	if held {
		out = append(out, Forwarding{Value: value})
	}
	return out, nil
}

// resources are the set, if it is one of cordon's, and its members.
func (s set) resources() []reconciler.Resource {
	network, ok := strings.CutPrefix(s.name, specs.SetPrefix)
	if !ok || network == "" {
		return nil
	}
	r := Set{Network: network, Type: s.kind, Family: s.family, Drift: s.options}
	if s.kind != setType || s.family != setFamily {
		return []reconciler.Resource{r} // it is made anew, empty
	}
	members, strays := s.split(network)
	for _, e := range strays {
		r.Drift = append(r.Drift, "element "+e.String())
	}
	out := []reconciler.Resource{r}
	for _, m := range members {
		out = append(out, m)
	}
	return out
}

// split tells the members of a network from what else is in its set. Of two
// elements for one slot the first is the member.
func (s set) split(network string) (members []Member, strays []Element) {
	slices.SortFunc(s.elements, Element.compare)
	seen := map[int]bool{}
	for _, e := range s.elements {
		slot, ok := slotOf(network, e)
		if !ok || seen[slot] {
			strays = append(strays, e)
			continue
		}
		seen[slot] = true
		members = append(members, Member{Network: network, Slot: slot, Address: e.Prefix.Addr(), Interface: e.Interface})
	}
	return members, strays
}

// slotOf is the slot that an element admits.
func slotOf(network string, e Element) (int, bool) {
	of, slot, ok := specs.ParseInterface(e.Interface)
	return slot, ok && of == network && e.Prefix.IsSingleIP() && e.Flags == 0
}
