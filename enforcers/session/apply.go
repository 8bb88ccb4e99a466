package session

import (
	"context"
	"fmt"

	"github.com/aicodesit/cordon/reconciler"
)

// Apply implements [reconciler.Enforcer]. To delete a session that runs is to
// end it; to change its digest is to have it started again by the process that
// runs it. Its control group, which goes after it, takes what is left.
func (e *Enforcer) Apply(ctx context.Context, c reconciler.Change) error {
	if err := e.apply(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", c.Addr(), err)
	}
	return nil
}

func (e *Enforcer) apply(ctx context.Context, c reconciler.Change) error {
	if c.Addr() == (Unfinished{}).Addr() && c.After == nil {
		return e.kernel.sweep()
	}
	id, ok := idOf(c.Addr())
	if !ok {
		return fmt.Errorf("not the address of a session")
	}
	now, exists, err := e.kernel.get(id)
	if err != nil {
		return err
	}
	if c.After == nil {
		if !exists {
			return nil
		}
		if now.held {
			if err := e.kernel.end(ctx, now, Order{}); err != nil {
				// The control group ends it the hard way.
				e.log.WarnContext(ctx, "session did not end when asked", "session", id, "err", err)
			}
		}
		if err := e.scrubbed(ctx, id); err != nil {
			return err
		}
		return e.kernel.remove(id)
	}
	want, ok := c.After.(Session)
	if !ok {
		return fmt.Errorf("%T is no session", c.After)
	}
	return e.put(ctx, now, exists, want)
}

// scrubbed does what the process that ran the session did not come to. Only
// when it was interrupted is it tried again: what can't be scrubbed now can't
// be later.
func (e *Enforcer) scrubbed(ctx context.Context, id string) error {
	now, exists, err := e.kernel.get(id)
	if err != nil || !exists || now.Transcript == nil || e.scrub == nil {
		return err
	}
	err = e.scrub(ctx, *now.Transcript)
	if err != nil && ctx.Err() == nil {
		e.log.WarnContext(ctx, "transcripts", "session", id, "err", err)
		return nil
	}
	return err
}

func (e *Enforcer) put(ctx context.Context, now entry, exists bool, want Session) error {
	if exists && now.broken == nil && fromRecord(now.record).equal(want) {
		return nil
	}
	if !exists || !now.held {
		r := record{Lease: now.Lease, Seccomp: want.seccomp, Transcript: now.Transcript}
		r.ID, r.Sandbox, r.Project, r.User = want.ID, want.Sandbox, want.Project, want.User
		r.Network, r.Slot, r.Digest = want.Network, want.Slot, want.Digest
		return e.kernel.write(r)
	}
	same := fromRecord(now.record)
	same.Digest = want.Digest
	if now.broken != nil || !same.equal(want) {
		return fmt.Errorf("it runs, and only what its profile is may change")
	}
	return e.kernel.end(ctx, now, Order{restart: true})
}

func (s Session) equal(o Session) bool {
	s.seccomp, o.seccomp = "", ""
	return s == o
}
