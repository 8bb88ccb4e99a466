package session

import (
	"context"
	"fmt"

	"github.com/aicodesit/cordon/specs"
)

// Status is a session that runs, as `cordon ps` shows it.
type Status struct {
	specs.Lease
	Address string `json:"address,omitempty"` // its own in its slot
	Stale   bool   `json:"stale,omitempty"`   // it runs under an older profile, or one that is not declared any more
}

// List returns the sessions that run, sorted by id.
func (e *Enforcer) List(ctx context.Context, set specs.Set) ([]Status, error) {
	set, err := e.Survey(ctx, set)
	if err != nil {
		return nil, err
	}
	out := make([]Status, 0, len(set.Leases))
	digest := set.SandboxDigests()
	for _, l := range set.Leases {
		s := Status{Lease: l, Stale: digest(l.Sandbox) != l.Digest}
		if n := specs.Find(set.Networks, l.Network); n != nil && l.Slot >= 0 {
			_, addr := n.SlotAddrs(l.Slot)
			s.Address = addr.Addr().String()
		}
		out = append(out, s)
	}
	return out, nil
}

// Stop asks the session to end and waits until it has. signal "" is what its
// sandbox says, grace nil likewise. It returns an error for a session that
// does not run.
func (e *Enforcer) Stop(ctx context.Context, id string, order Order) error {
	if order.Signal != "" && signalNumber(order.Signal) == 0 {
		return fmt.Errorf("there is no signal %q", order.Signal)
	}
	if !specs.ValidSessionID(id) {
		return fmt.Errorf("%q is not the id of a session", id)
	}
	now, ok, err := e.kernel.get(id)
	if err != nil {
		return fmt.Errorf("%s: %w", Addr(id), err)
	}
	if !ok || !now.held {
		return fmt.Errorf("%s: it does not run", Addr(id))
	}
	if err := e.kernel.end(ctx, now, order); err != nil {
		return fmt.Errorf("%s: %w", Addr(id), err)
	}
	return nil
}
