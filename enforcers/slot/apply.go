package slot

import (
	"context"
	"fmt"

	"github.com/aicodesit/cordon/reconciler"
)

// Apply implements [reconciler.Enforcer]. A slot that differs gets a new veth
// pair; the namespace stays while it lives, for the session in it, unless it
// holds what can't be taken out or is another's.
func (e *Enforcer) Apply(ctx context.Context, c reconciler.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	old, known := c.Before.(Slot)
	if c.Before != nil && !known {
		return fmt.Errorf("%s: %T is no slot", c.Addr(), c.Before)
	}
	if c.After == nil {
		return wrap(old, e.kernel.remove(ctx, old))
	}
	want, ok := c.After.(Slot)
	if !ok {
		return fmt.Errorf("%s: %T is no slot", c.Addr(), c.After)
	}
	if !want.Host.IsValid() || !want.Session.IsValid() {
		return fmt.Errorf("%s: has no addresses", want.Addr())
	}
	want.link, want.fresh, want.foreign = old.link, old.fresh, old.foreign
	return wrap(want, e.kernel.build(ctx, want))
}

func wrap(s Slot, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.Addr(), err)
}
