package slot

import (
	"context"
	"fmt"

	"github.com/aicodesit/cordon/reconciler"
)

// Apply implements [reconciler.Enforcer]. A slot that differs gets a new veth
// pair; the namespace stays while it lives, for the session in it.
func (e *Enforcer) Apply(ctx context.Context, c reconciler.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.After == nil {
		before, err := decode(c.Before)
		if err != nil {
			return err
		}
		return wrap(before, e.kernel.remove(ctx, before))
	}
	after, err := decode(c.After)
	if err != nil {
		return err
	}
	if !after.Host.IsValid() || !after.Session.IsValid() {
		return fmt.Errorf("%s: has no addresses", after.Addr())
	}
	if c.Before != nil {
		before, err := decode(c.Before)
		if err != nil {
			return err
		}
		after.link = before.link
	}
	return wrap(after, e.kernel.build(ctx, after))
}

func wrap(s Slot, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.Addr(), err)
}
