package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Survey implements [reconciler.Surveyor]: the leases that are held. One that
// is held and can't be read is an error, for what it names is in use.
func (e *Enforcer) Survey(_ context.Context, set specs.Set) (specs.Set, error) {
	e.listed = nil
	list, err := e.kernel.list()
	if err != nil {
		return set, fmt.Errorf("session: %w", err)
	}
	if set.Leases, err = leases(list); err != nil {
		return set, err
	}
	e.listed = list
	e.surveyed = make(map[string]bool, len(set.Leases))
	for _, l := range set.Leases {
		e.surveyed[l.ID] = true
	}
	return set, nil
}

func leases(list []entry) ([]specs.Lease, error) {
	var out []specs.Lease
	for _, s := range list {
		switch {
		case !s.held:
		case s.broken != nil:
			return nil, fmt.Errorf("%s: it runs, but as what? %w", Addr(s.ID), s.broken)
		default:
			out = append(out, s.Lease)
		}
	}
	slices.SortFunc(out, func(a, b specs.Lease) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Read implements [reconciler.Enforcer]: all sessions, dead ones too, as Survey
// has just found them if it was called since the last Read, and what is left of
// half-made ones. One that runs and was not there when Survey looked has begun
// since: nothing desires it yet, and it must not be ended for that.
func (e *Enforcer) Read(context.Context) ([]reconciler.Resource, error) {
	list := e.listed
	e.listed = nil
	if list == nil {
		var err error
		if list, err = e.kernel.list(); err != nil {
			return nil, fmt.Errorf("session: %w", err)
		}
	}
	var out []reconciler.Resource
	for _, s := range list {
		if s.held && e.surveyed != nil && !e.surveyed[s.ID] {
			continue
		}
		out = append(out, fromRecord(s.record))
	}
	left, err := e.kernel.unfinished()
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	if len(left) > 0 {
		slices.Sort(left)
		out = append(out, Unfinished{left})
	}
	return out, nil
}

// ReadPart implements [reconciler.PartReader].
func (e *Enforcer) ReadPart(_ context.Context, addrs []reconciler.Addr) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	for _, a := range addrs {
		id, ok := idOf(a)
		if !ok {
			continue
		}
		s, ok, err := e.kernel.get(id)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a, err)
		}
		if ok {
			out = append(out, fromRecord(s.record))
		}
	}
	return out, nil
}
