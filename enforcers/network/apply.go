package network

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Apply implements [reconciler.Enforcer].
func (e *Enforcer) Apply(ctx context.Context, c reconciler.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if c.After == nil {
		err = e.delete(ctx, c.Before)
	} else {
		err = e.put(ctx, c.Before, c.After)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Addr(), err)
	}
	return nil
}

func (e *Enforcer) put(ctx context.Context, old, want reconciler.Resource) error {
	switch w := want.(type) {
	case Chain:
		return e.putChain(ctx, old, w)
	case Hook:
		return e.moveHook(ctx, w, true)
	case Set:
		return e.putSet(ctx, w)
	case Member:
		return e.putMember(ctx, old, w)
	case Forwarding:
		return e.kernel.setForwarding(ctx, true)
	}
	return fmt.Errorf("%T is nothing of %s", want, Name)
}

func (e *Enforcer) delete(ctx context.Context, old reconciler.Resource) error {
	switch o := old.(type) {
	case Chain:
		// Declared first, so that a chain that is gone already is no error.
		return e.kernel.restore(ctx, o.Family, script(o.Table, ":"+o.Name+" - [0:0]", "-X "+o.Name))
	case Hook:
		return e.moveHook(ctx, o, false)
	case Set:
		return e.kernel.changeSet(ctx, setChange{verb: "destroy", set: o.name()})
	case Member:
		return e.kernel.changeSet(ctx, setChange{verb: "del", set: Set{Network: o.Network}.name(), element: o.element()})
	case Forwarding:
		return e.kernel.setForwarding(ctx, false)
	}
	return fmt.Errorf("%T is nothing of %s", old, Name)
}

// script is the input of one iptables-restore, which is one change.
func script(table string, lines ...string) string {
	return "*" + table + "\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
}

// script empties the chain, or makes it, and fills it.
func (c Chain) script() string {
	lines := []string{":" + c.Name + " - [0:0]"}
	for _, r := range c.Rules {
		lines = append(lines, "-A "+c.Name+" "+r)
	}
	return script(c.Table, lines...)
}

// moveHook removes all jumps of cordon's from the built-in chain and, if it is
// to stay, puts the right one first, in one change. Then the table is
// dormant no more.
func (e *Enforcer) moveHook(ctx context.Context, h Hook, stay bool) error {
	rules, err := e.rules(ctx, h.Family, false)
	if err != nil {
		return err
	}
	var lines []string
	for _, r := range rules.chain(h.Table, h.Chain) {
		if ours(r) {
			lines = append(lines, "-D "+h.Chain+" "+r)
		}
	}
	if stay {
		lines = append(lines, "-I "+h.Chain+" 1 "+newHook(h.Family, h.Table, h.Chain).Rule)
	}
	if len(lines) == 0 {
		return nil
	}
	if err := e.kernel.restore(ctx, h.Family, script(h.Table, lines...)); err != nil || !stay {
		return err
	}
	return e.wake(h.Family, h.Table)
}

// putSet makes the set, and removes from one that is there what is no member.
func (e *Enforcer) putSet(ctx context.Context, w Set) error {
	found, err := e.kernel.sets(ctx, w.name())
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return e.kernel.changeSet(ctx, setChange{verb: "create", set: w.name()})
	}
	s := found[0]
	if s.kind != setType || s.family != setFamily {
		return e.remakeSet(ctx, w.name(), nil)
	}
	members, strays := s.split(w.Network)
	if len(s.options) > 0 {
		return e.remakeSet(ctx, w.name(), members)
	}
	for _, el := range strays {
		if err := e.kernel.changeSet(ctx, setChange{verb: "del", set: w.name(), element: el}); err != nil {
			return err
		}
	}
	return nil
}

// remakeSet replaces a set by one of the right type. A set's type can't
// change, a swap wants two of one type, and what a rule asks can't be
// destroyed. So the rules of ours that ask it give way to ones that refuse
// everything, and come back when the members have.
func (e *Enforcer) remakeSet(ctx context.Context, name string, members []Member) error {
	var asking []Chain
	for _, family := range e.families {
		rules, err := e.rules(ctx, family, false)
		if err != nil {
			return err
		}
		for _, r := range rules.resources(family) {
			if c, ok := r.(Chain); ok && c.asks(name) {
				asking = append(asking, c)
			}
		}
	}
	for _, c := range asking {
		shut := c
		shut.Rules = slices.Clone(c.Rules)
		for i, r := range shut.Rules {
			shut.Rules[i] = refuse(c, r, name)
		}
		if err := e.kernel.restore(ctx, c.Family, shut.script()); err != nil {
			return err
		}
	}
	for _, verb := range []string{"destroy", "create"} {
		if err := e.kernel.changeSet(ctx, setChange{verb: verb, set: name}); err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := e.kernel.changeSet(ctx, setChange{verb: "add", set: name, element: m.element()}); err != nil {
			return err
		}
	}
	for _, c := range asking {
		if err := e.kernel.restore(ctx, c.Family, c.script()); err != nil {
			return err
		}
	}
	return nil
}

func (c Chain) asks(set string) bool {
	return slices.ContainsFunc(c.Rules, func(r string) bool { return refuse(c, r, set) != r })
}

// refuse is what stands in for a rule that asks the set: of a chain for one
// network, a refusal of everything; of a shared one, a refusal of the same
// interface.
func refuse(c Chain, rule, set string) string {
	if !slices.Contains(setsOf(rule), strings.TrimPrefix(set, specs.SetPrefix)) {
		return rule
	}
	refusal := "-j DROP"
	if i := strings.Index(rule, " -m set "); i > 0 && c.Name == chainForward {
		return rule[:i] + " " + refusal
	}
	return refusal
}

// putMember takes away another element of the slot before it adds the right
// one.
func (e *Enforcer) putMember(ctx context.Context, old reconciler.Resource, w Member) error {
	name := Set{Network: w.Network}.name()
	o, ok := old.(Member)
	if old != nil && !ok {
		return fmt.Errorf("%T is no member", old)
	}
	if old != nil && o != w {
		if err := e.kernel.changeSet(ctx, setChange{verb: "del", set: name, element: o.element()}); err != nil {
			return err
		}
	}
	return e.kernel.changeSet(ctx, setChange{verb: "add", set: name, element: w.element()})
}
