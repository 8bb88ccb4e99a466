package loop

import (
	"context"
	"testing"
	"time"
)

// A change that comes to no end is a failure, and is tried again.
func TestLate(t *testing.T) {
	inBubble(t, Memory{}, func(r *rig) {
		x := newSystem(thing{A: "x.a", Value: "1"}, thing{A: "x.b", Value: "1"})
		x.block = make(chan struct{})
		r.use("r1", r.group("x", named("x", x)))
		r.after(stepTimeout)
		r.wantTold("revision", "failure x x.a")
		r.want("x", Failing, "x.a: came to no end within 5m0s")
		close(x.block)
		r.after(time.Second)
		r.want("x", Converged, "")
		r.wantTold("change x x.a", "change x x.b", "recovery x", "converged x")
	})
}

// Whoever waits for another process is not stuck itself: to start it again
// would not help.
func TestWaitForTheLock(t *testing.T) {
	inBubble(t, Memory{}, func(r *rig) {
		x := newSystem(thing{A: "x.a", Value: "1"})
		g := r.group("x", named("x", x))
		free := make(chan struct{})
		g.Lock = func(ctx context.Context) (func(), error) {
			select {
			case <-free:
				return func() {}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		r.use("r1", g)
		r.after(time.Hour)
		if stuck := r.Stuck(time.Minute); len(stuck) != 0 {
			t.Errorf("stuck: %v", stuck)
		}
		if s := r.State(); s.Converged() || len(r.part("x").Pending) != 1 {
			t.Errorf("state %+v", s)
		}
		close(free)
		r.after(time.Second)
		r.want("x", Converged, "")
	})
}

// What was made has not converged before it was seen.
func TestMadeIsNotSeen(t *testing.T) {
	inBubble(t, Memory{}, func(r *rig) {
		x := newSystem(thing{A: "x.a", Value: "1"})
		x.forgetful = true
		r.use("r1", r.group("x", named("x", x)))
		r.after(time.Minute)
		r.want("x", Drifted, "something else keeps changing it back")
		if s := r.State(); !s.Revision.Reached.IsZero() || r.memory.Reached != "" {
			t.Errorf("reached at %s", s.Revision.Reached)
		}
	})
}

// A target that comes while its group ends is closed as well.
func TestClosedBeforeUse(t *testing.T) {
	inBubble(t, Memory{}, func(r *rig) {
		x := newSystem(thing{A: "x.a", Value: "1"})
		x.block = make(chan struct{})
		closed := 0
		r.use("r1", r.group("x", named("x", x)))
		next := r.group("x", named("x", x))
		next.Close = func() { closed++ }
		r.use("r2", next)
		r.use("r3", r.group("y", named("y", newSystem())))
		close(x.block)
		r.after(time.Second)
		if closed != 1 {
			t.Errorf("closed %d times", closed)
		}
	})
}

// What drifts again and again while something else is not repaired is one
// entry of the last drift.
func TestLastDriftIsBounded(t *testing.T) {
	inBubble(t, Memory{}, func(r *rig) {
		x := newSystem(thing{A: "x.a", Value: "1"}, thing{A: "x.b", Value: "1"})
		r.use("r1", r.group("x", named("x", x)))
		x.set(func() { x.fail["x.b"] = context.DeadlineExceeded })
		x.damage("x.b", "2")
		for range 4 {
			x.damage("x.a", "2")
			r.Wake()
			r.after(time.Second)
		}
		if d := r.part("x").LastDrift; d == nil || len(d.Changes) != 2 {
			t.Errorf("last drift %+v", d)
		}
	})
}

// However long a pass takes, who has rested as long looks at once when woken;
// who has not waits for that.
func TestRestedLooksAtOnce(t *testing.T) {
	inBubble(t, Memory{}, func(r *rig) {
		x := newSystem(thing{A: "x.a", Value: "1"})
		x.readTakes = 300 * time.Millisecond
		r.use("r1", r.group("x", named("x", x)))
		r.after(10 * time.Second)
		begun := x.looked()
		r.Wake("x")
		r.after(quiet + time.Millisecond)
		if x.looked() != begun+1 {
			t.Errorf("%d reads right after a wake, want 1", x.looked()-begun)
		}
		r.after(x.readTakes) // the pass has just ended
		r.Wake("x")
		r.after(quiet + time.Millisecond)
		if x.looked() != begun+1 {
			t.Errorf("%d reads right after a pass, want 1", x.looked()-begun)
		}
		r.after(x.readTakes)
		if x.looked() != begun+2 {
			t.Errorf("%d reads in all, want 2", x.looked()-begun)
		}
	})
}
