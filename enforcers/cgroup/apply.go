package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
)

// Apply makes, changes or ends a session's group, or removes the empty parent.
func (e *Enforcer) Apply(ctx context.Context, c reconciler.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	hs, err := e.kernel.hierarchies()
	if err != nil {
		return fmt.Errorf("%s: %w", c.Addr(), err)
	}
	if c.Addr() == parentAddr && c.After == nil {
		return e.discard(hs)
	}
	id, ok := idOf(c.Addr())
	if !ok {
		return fmt.Errorf("%s: not the address of a session", c.Addr())
	}
	if c.After == nil {
		if err := e.kernel.remove(ctx, hs, e.path(id)); err != nil {
			return fmt.Errorf("%s: %w", c.Addr(), err)
		}
		return nil
	}
	g, ok := c.After.(Group)
	if !ok {
		return fmt.Errorf("%s: %T is no control group", c.Addr(), c.After)
	}
	if err := e.ensure(hs, g); err != nil {
		return fmt.Errorf("%s: %w", c.Addr(), err)
	}
	return nil
}

// discard removes the parent in each hierarchy where it is empty.
func (e *Enforcer) discard(hs []hierarchy) error {
	for _, h := range hs {
		if err := e.kernel.discard(h, e.parent); err != nil {
			return fmt.Errorf("%s: %s: %w", parentAddr, h, err)
		}
	}
	return nil
}

// ensure makes the group in every hierarchy and sets its bounds.
func (e *Enforcer) ensure(hs []hierarchy, g Group) error {
	if len(hs) == 0 {
		return errors.New("no control group hierarchy is mounted, so a session could not be ended for sure")
	}
	if err := enforceable(hs, g); err != nil {
		return err
	}
	for _, h := range hs {
		if err := e.ensureIn(h, g); err != nil {
			return err
		}
	}
	return nil
}

func (e *Enforcer) ensureIn(h hierarchy, g Group) error {
	for try := 1; ; try++ {
		if err := e.kernel.create(h, e.path(g.ID)); err != nil {
			return err
		}
		found, err := e.kernel.limits(h, e.parent, []string{g.ID})
		if err != nil {
			return err
		}
		have, exists := found[g.ID]
		if err = fs.ErrNotExist; exists {
			err = setMissing(e.kernel, h, e.path(g.ID), have, g)
		}
		if err == nil || try == createTries || !gone(err) {
			return err
		}
	}
}

// setMissing sets the bounds of g if they are not as they should be.
func setMissing(k kernel, h hierarchy, group string, have limits, g Group) error {
	want := limits{absent, absent, absent, absent, absent}
	if h.has(memory) {
		want.memory, want.swap = orUnlimited(g.Memory), have.swap
		if have.swap != absent && g.Memory > 0 {
			want.swap = 0
		}
		if have.swap == absent && g.Memory > 0 && swapInUse() {
			return fmt.Errorf("%s: memory is bounded and swap is not, for the kernel does not account for it: boot with swapaccount=1, or turn swap off", h)
		}
	}
	if h.has(cpu) {
		want.quota, want.period = unlimited, period
		if g.CPU > 0 {
			want.quota = g.CPU * period / 100
		}
	}
	if h.has(pids) {
		want.pids = orUnlimited(g.Pids)
	}
	if want == have {
		return nil
	}
	return k.set(h, group, want)
}

func orUnlimited(n int64) int64 {
	if n == 0 {
		return unlimited
	}
	return n
}

// enforceable returns an error for a bound without a controller.
func enforceable(hs []hierarchy, g Group) error {
	var lacking []string
	for _, b := range []struct {
		controller string
		bound      int64
	}{{memory, g.Memory}, {cpu, g.CPU}, {pids, g.Pids}} {
		if b.bound > 0 && !controlled(hs, b.controller) {
			lacking = append(lacking, b.controller)
		}
	}
	if len(lacking) > 0 {
		return fmt.Errorf("the limit can't be kept: this host has no controller for %s", strings.Join(lacking, ", "))
	}
	return nil
}

func controlled(hs []hierarchy, controller string) bool {
	return slices.ContainsFunc(hs, func(h hierarchy) bool { return h.has(controller) })
}

// swapInUse tells whether the host has any swap, by the number of lines in
// /proc/swaps behind the heading. One that can't be read counts as swap.
func swapInUse() bool {
	b, err := os.ReadFile("/proc/swaps")
	return err != nil || strings.Count(string(b), "\n") > 1
}
