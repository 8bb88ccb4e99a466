package loop

import (
	"context"
	"sync"
	"time"

	"github.com/aicodesit/cordon/reconciler"
)

// weighTimeout bounds how long a revision waits for parts that don't answer.
const weighTimeout = 5 * time.Second

// Weigh plans t, changing nothing, and returns an error when it would remove
// more than the budget. Without one, t may remove what was weighed until its group
// has converged, and nothing else beyond the budget. Parts that can't be read are not waited for:
// once they can, what exceeds the budget there is held back.
func (l *Loop) Weigh(ctx context.Context, t *Target) error {
	ctx, cancel := context.WithTimeout(ctx, weighTimeout)
	defer cancel()
	plans := make([]*reconciler.Plan, len(t.Groups))
	var all sync.WaitGroup
	for i := range t.Groups {
		all.Go(func() {
			// Resources that contradict each other are told of by the pass.
			if p, err := t.Groups[i].Reconciler.Plan(ctx, t.Groups[i].Set); err == nil {
				plans[i] = p
			}
		})
	}
	all.Wait()
	var sum reconciler.Plan
	for _, p := range plans {
		if p != nil {
			sum.Live, sum.Changes = append(sum.Live, p.Live...), append(sum.Changes, p.Changes...)
		}
	}
	l.mu.Lock()
	allowed := l.settings.AllowDeletes
	l.mu.Unlock()
	if !allowed {
		if err := sum.CheckBudget(); err != nil {
			return err
		}
	}
	for i, p := range plans {
		if p != nil {
			t.Groups[i].granted = deletions(p)
		}
	}
	return nil
}

func deletions(p *reconciler.Plan) map[reconciler.Addr]bool {
	out := map[reconciler.Addr]bool{}
	for _, c := range p.Changes {
		if c.Action() == reconciler.Delete {
			out[c.Addr()] = true
		}
	}
	return out
}

// Reached tells whether everything had converged at specs of this digest, in
// this process or before.
func (l *Loop) Reached(digest string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return digest != "" && l.memory.Reached == digest
}
