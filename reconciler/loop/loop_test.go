package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

func TestConvergesAndRepairs(t *testing.T) {
	x := newSystem(thing{A: "x.a", Value: "1"}, thing{A: "x.b", Value: "1"})
	y := newSystem(thing{A: "y.a", Value: "1"})
	inBubble(t, Memory{}, func(r *rig) {
		r.use("r1", r.group("kernel", named("x", x), named("y", y)))
		r.wantTold("revision", "change x x.a", "change x x.b", "change y y.a", "converged x", "converged y")
		if s := r.State(); !s.Converged() || s.Revision.Reached.IsZero() || r.memory.Reached != "digest of r1" {
			t.Errorf("state %+v, memory %+v", s, r.memory)
		}

		// Found at the interval.
		x.damage("x.a", "2")
		x.damage("x.c", "9")
		r.after(defaultInterval * 11 / 10)
		r.wantTold("drift x x.c", "drift x x.a", "change x x.c", "change x x.a")
		if d := r.part("x").LastDrift; len(d.Changes) != 2 || d.Repaired.IsZero() {
			t.Errorf("drift %+v", d)
		}

		// Found because somebody said so: at once.
		y.damage("y.a", "")
		r.Wake("y")
		r.after(quiet)
		r.wantTold("drift y y.a", "change y y.a")

		// Another revision is no drift.
		x.desired["x.a"] = thing{A: "x.a", Value: "3"}
		r.use("r2", r.group("kernel", named("x", x), named("y", y)))
		r.wantTold("revision", "converged y", "change x x.a", "converged x")
		if x.is("x.a") != "3" || r.locked != 0 {
			t.Errorf("x.a = %s, locked %d times", x.is("x.a"), r.locked)
		}
	})
}

// What had converged before a restart, and differs after it, has drifted.
func TestDriftWhileAway(t *testing.T) {
	for reached, want := range map[string]string{
		"digest of r1": "revision; drift x x.a; change x x.a",
		"":             "revision; change x x.a; converged x",
	} {
		x := newSystem(thing{A: "x.a", Value: "1"})
		x.damage("x.a", "2")
		inBubble(t, Memory{Reached: reached}, func(r *rig) {
			r.use("r1", r.group("x", named("x", x)))
			if got := r.told(); got != want {
				t.Errorf("reached %q: told %s", reached, got)
			}
		})
	}
}

// That all has converged is told once, also after a restart, when it is no event.
func TestArrived(t *testing.T) {
	for _, reached := range []string{"", "d"} {
		synctest.Test(t, func(t *testing.T) {
			x := newSystem(thing{A: "x.a", Value: "1"})
			x.damage("x.a", "1")
			x.readTakes = 3 * time.Second
			arrived := 0
			l := New(Options{Memory: Memory{Reached: reached}, Arrived: func() { arrived++ }})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- l.Run(ctx) }()
			l.Use(Target{Revision: Revision{ID: "r", Digest: "d"}, Groups: []Group{{
				Name: "x", Reconciler: &reconciler.Reconciler{Enforcers: []reconciler.Named{named("x", x)}},
			}}})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if arrived != 0 || !l.State().Revision.Reached.IsZero() {
				t.Errorf("reached %q: arrived before anything was seen", reached)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if arrived != 1 || l.State().Revision.Reached.IsZero() {
				t.Errorf("reached %q: arrived %d times", reached, arrived)
			}
			if before := l.State().Revision.Before; before != (reached != "") {
				t.Errorf("reached %q: before this daemon: %v", reached, before)
			}
			cancel()
			<-done
		})
	}
}

func TestBurstOfWakesIsOnePass(t *testing.T) {
	x := newSystem(thing{A: "x.a", Value: "1"})
	inBubble(t, Memory{}, func(r *rig) {
		r.use("r1", r.group("g", named("x", x)))
		x.readTakes = time.Millisecond
		before := x.looked()
		for range 1000 {
			r.Wake()
		}
		r.after(secondLook / 2)
		if n := x.looked() - before; n != 1 {
			t.Errorf("%d passes for one burst", n)
		}
		// Once more: what nobody tells of has happened meanwhile.
		x.damage("x.a", "2")
		r.after(secondLook)
		if x.is("x.a") != "1" {
			t.Error("not looked at again")
		}
		before = x.looked()
		r.after(defaultInterval / 2)
		if n := x.looked() - before; n != 0 {
			t.Errorf("looked at %d times for nothing", n)
		}
		// Events without end take half of the time at most.
		before = x.looked()
		x.readTakes = 100 * time.Millisecond
		for range 10_000 {
			r.Wake("x")
			time.Sleep(time.Millisecond)
		}
		if n := x.looked() - before; n > 51 || n < 45 {
			t.Errorf("%d passes of 100 ms in 10 s", n)
		}
		r.Wake("nobody")
	})
}

// One that fails is tried again less and less often; others don't wait.
func TestFailuresAreApart(t *testing.T) {
	x, y := newSystem(thing{A: "x.bad", Value: "1"}, thing{A: "x.good", Value: "1"}), newSystem(thing{A: "y.a", Value: "1"})
	x.fail["x.bad"] = errors.New("no space")
	inBubble(t, Memory{}, func(r *rig) {
		r.use("r1", r.group("kernel", named("x", x), named("y", y)))
		r.wantTold("revision", "failure x x.bad", "change x x.good", "change y y.a", "converged y")
		r.want("x", Failing, "no space")
		r.want("y", Converged, "")
		r.after(10 * time.Minute)
		r.wantTold() // once
		if x.tries < 15 || x.tries > 22 {
			t.Errorf("%d tries in ten minutes", x.tries)
		}
		if p := r.part("x"); p.Failures < 13 || time.Until(p.NextRetry) > 2*lastRetry || p.NextRetry.Before(time.Now()) {
			t.Errorf("part %+v", p)
		}
		// Meanwhile another resource of the same enforcer, and the other enforcer.
		x.damage("x.good", "2")
		y.damage("y.a", "2")
		r.Wake()
		r.after(quiet)
		if x.is("x.good") != "1" || y.is("y.a") != "1" {
			t.Error("they waited for the one that fails")
		}
		r.told()
		x.set(func() { delete(x.fail, "x.bad") })
		r.after(2 * lastRetry)
		r.wantTold("change x x.bad", "recovery x", "converged x")
	})
}

// An enforcer that can't be read is left alone and delays nobody, though it
// takes its time to fail. What it knows for others is still asked for.
func TestUnreadable(t *testing.T) {
	x, y := newSystem(thing{A: "x.a", Value: "1"}), newSystem(thing{A: "y.a", Value: "1"}, thing{A: "y.s", Value: "1", Fleeting: true})
	inBubble(t, Memory{}, func(r *rig) {
		r.use("r1", r.group("kernel", named("x", x), named("y", y, "x")))
		r.told()
		x.set(func() { x.readErr, x.readTakes = errors.New("dump interrupted"), 10*time.Second })
		x.damage("x.a", "2")
		x.leases = []specs.Lease{{ID: "00000001"}}
		r.Wake()
		r.after(20 * time.Second)
		if p := r.part("x"); p.Condition != Failing || p.Failures == 0 {
			t.Errorf("part %+v", p)
		}
		r.wantTold("failure x", "session.start")
		r.after(15 * time.Minute) // its backoff is a minute now
		for r.part("x").NextRetry.Before(time.Now().Add(5 * time.Second)) {
			r.after(time.Second)
		}
		y.damage("y.a", "2")
		r.Wake()
		r.after(longRest) // rather than 10 seconds
		r.wantTold("drift y y.a", "change y y.a")
		if n := len(r.State().Sessions); n != 1 {
			t.Errorf("%d sessions: its survey could be made", n)
		}
		x.set(func() { x.readErr, x.readTakes = nil, 0 })
		r.after(2 * lastRetry)
		r.wantTold("drift x x.a", "change x x.a", "recovery x")
	})
}

// A database that is down is a group by itself.
func TestGroupsAreApart(t *testing.T) {
	x, db := newSystem(thing{A: "x.a", Value: "1"}), newSystem(thing{A: "postgres.a", Value: "1"})
	db.readErr, db.readTakes = errors.New("connection refused"), 30*time.Second
	inBubble(t, Memory{}, func(r *rig) {
		database := Group{Name: "postgres.main", Reconciler: &reconciler.Reconciler{Enforcers: []reconciler.Named{named("postgres", db)}}}
		r.use("r1", r.group("kernel", named("x", x), named("y", newSystem())), database)
		r.wantTold("revision", "converged y", "change x x.a", "converged x")
		r.want("postgres.main", Waiting, "")
		x.damage("x.a", "2")
		r.Wake("x")
		r.after(quiet)
		r.wantTold("drift x x.a", "change x x.a")
		r.after(time.Minute)
		r.want("postgres.main", Failing, "connection refused")
		if !r.State().Revision.Reached.IsZero() || r.memory.Reached != "" {
			t.Error("reached, with a part that was never seen")
		}
		db.set(func() { db.readErr, db.readTakes = nil, 0 })
		r.after(3 * time.Minute)
		r.wantTold("failure postgres.main", "change postgres.main postgres.a", "recovery postgres.main", "converged postgres.main")
		if r.memory.Reached == "" {
			t.Error("not reached")
		}
	})
}

func TestFight(t *testing.T) {
	x := newSystem(thing{A: "x.a", Value: "1"}, thing{A: "x.b", Value: "1"})
	inBubble(t, Memory{}, func(r *rig) {
		r.use("r1", r.group("x", named("x", x)))
		r.told()
		spoil := func() {
			x.damage("x.a", "2")
			r.Wake()
			r.after(quiet)
		}
		for range fightAfter {
			r.wantTold()
			spoil()
			if got := r.told(); !strings.HasPrefix(got, "drift x x.a; change x x.a") {
				t.Fatal(got)
			} else if strings.Contains(got, "fight") {
				break
			}
			r.after(time.Minute)
		}
		if f := r.part("x").Fights; len(f) != 1 || f[0].Addr != "x.a" {
			t.Fatalf("fights %+v", f)
		}
		before := x.tries
		for range 600 {
			spoil()
			r.after(time.Second)
		}
		if n := x.tries - before; n < 10 || n > 20 {
			t.Errorf("repaired %d times in ten minutes of fight", n)
		}
		spoil()
		if x.is("x.a") == "1" { // the repair was just due: the next is not, for most of a minute
			spoil()
		}
		r.want("x", Drifted, "less often")
		if strings.Contains(r.told(), "fight") {
			t.Error("told more than once")
		}
		// Others are not affected.
		x.damage("x.b", "2")
		r.Wake()
		r.after(quiet)
		if x.is("x.b") != "1" {
			t.Error("x.b waits for the fight over x.a")
		}
		r.after(2 * time.Minute)
		r.told()
		r.after(fightWindow + time.Minute)
		r.wantTold("fight.ended x x.a")
		if p := r.part("x"); len(p.Fights) != 0 || p.Condition != Converged {
			t.Errorf("part %+v", p)
		}
	})
}

// What was made and is not there when it is looked for is not made without end.
func TestWhatDoesNotStay(t *testing.T) {
	x := newSystem(thing{A: "x.a", Value: "1", Fleeting: true})
	x.forgetful = true
	inBubble(t, Memory{}, func(r *rig) {
		r.use("r1", r.group("x", named("x", x)))
		r.after(10 * time.Minute)
		if x.tries > 30 {
			t.Errorf("made %d times in ten minutes", x.tries)
		}
		if !strings.Contains(r.told(), "fight x x.a") {
			t.Error("not told")
		}
	})
}

// Sessions that come and go are neither drift nor fights, and are left to
// those who run them for a moment.
func TestSessionsComeAndGo(t *testing.T) {
	x := newSystem(thing{A: "x.a", Value: "1"})
	inBubble(t, Memory{}, func(r *rig) {
		r.use("r1", r.group("x", named("x", x)))
		r.told()
		group := thing{A: "x.s", Value: "1", Fleeting: true}
		for range 2 * fightAfter {
			x.set(func() { x.desired["x.s"] = group; x.leases = []specs.Lease{{ID: "00000001", Sandbox: "s"}} })
			r.Wake()
			r.after(quiet)
			r.wantTold("session.start")
			r.want("x", Converged, "")
			x.set(func() { x.live["x.s"] = group }) // by who runs it
			r.after(time.Second)
			x.set(func() { delete(x.desired, "x.s"); x.leases = []specs.Lease{} })
			r.Wake()
			r.after(settle + 2*quiet)
			r.wantTold("session.end", "change x x.s") // by nobody else
			if x.is("x.s") != "" {
				t.Fatal("it is still there")
			}
		}
		// While sessions start one after the other, they are left alone for longer.
		before := r.taken()
		for i := range 100 {
			x.set(func() {
				id := reconciler.Addr(fmt.Sprint("x.s", i))
				x.desired[id] = thing{A: id, Value: "1", Fleeting: true}
				x.leases = append(x.leases, specs.Lease{ID: string(id)})
			})
			r.Wake()
			r.after(200 * time.Millisecond)
		}
		if n := r.taken() - before; n < 3 || n > 5 {
			t.Errorf("the lock was taken %d times in 20 seconds", n)
		}
		r.after(time.Minute)
		r.told()
		// What a session has, and loses, has drifted.
		x.set(func() { x.desired["x.s"] = group; x.live["x.s"] = group })
		r.Wake()
		r.after(quiet)
		x.damage("x.s", "")
		r.Wake()
		r.after(quiet)
		r.wantTold("drift x x.s", "change x x.s")
	})
}

func TestPause(t *testing.T) {
	x := newSystem(thing{A: "x.a", Value: "1"})
	var kept Memory
	inBubble(t, Memory{}, func(r *rig) {
		r.use("r1", r.group("x", named("x", x)))
		r.told()
		for _, p := range []Pause{{By: "user:root", Until: time.Now().Add(time.Hour)}, {Reason: "why", Until: time.Now()}} {
			if err := r.Pause(p); err == nil {
				t.Errorf("%+v is taken", p)
			}
		}
		if err := r.Pause(Pause{Reason: "moving disks", By: "user:root", Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		x.damage("x.a", "2")
		r.after(time.Minute)
		r.wantTold("pause", "drift x x.a")
		r.want("x", Drifted, "paused: moving disks")
		kept = r.memory
	})
	inBubble(t, kept, func(r *rig) { // a restart
		r.Use(Target{Revision: Revision{ID: "r1", Digest: "digest of r1"}, Groups: []Group{r.group("x", named("x", x))}})
		synctest.Wait()
		r.want("x", Drifted, "paused: moving disks")
		r.after(time.Until(kept.Paused.Until) - time.Second)
		if x.is("x.a") != "2" {
			t.Error("changed during the pause")
		}
		r.told()
		r.after(2 * time.Second)
		r.wantTold("resume", "change x x.a")
		if r.memory.Paused != nil || r.State().Paused != nil {
			t.Error("still paused")
		}
		if err := r.Resume("user:root"); err == nil {
			t.Error("resumed though it was not paused")
		}
	})
}

func many(n int) (desired []thing, live map[reconciler.Addr]thing) {
	live = map[reconciler.Addr]thing{}
	for i := range n {
		x := thing{A: reconciler.Addr(fmt.Sprintf("x.%d", i)), Value: "1"}
		desired, live[x.A] = append(desired, x), x
	}
	return desired, live
}

// A revision that removes too much is refused as a whole; what is there too
// much later is left there. Repairs are made all the same.
func TestBudget(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		desired, live := many(40)
		x := newSystem(desired...)
		x.live = live
		inBubble(t, Memory{}, func(r *rig) {
			r.Configure(Settings{AllowDeletes: allowed})
			r.use("r1", r.group("x", named("x", x)))
			r.told()
			less := newSystem(desired[:20]...)
			less.live = x.live
			small := Target{Groups: []Group{r.group("x", named("x", less))}}
			if err := r.Weigh(context.Background(), &small); (err == nil) != allowed {
				t.Errorf("allowed %t: %v", allowed, err)
			}
			for i := range 20 {
				x.damage(reconciler.Addr(fmt.Sprintf("x.more%d", i)), "1")
			}
			x.damage("x.1", "2")
			r.Wake()
			r.after(time.Second)
			if x.is("x.1") != "1" {
				t.Error("not repaired")
			}
			if allowed != (x.is("x.more1") == "") {
				t.Errorf("allowed %t: x.more1 is %q", allowed, x.is("x.more1"))
			}
			if !allowed {
				r.want("x", Drifted, "removes 20 of 60")
				r.Configure(Settings{AllowDeletes: true})
				r.after(time.Second)
				r.want("x", Converged, "")
			}
		})
	}
}

// What was weighed is removed, though it is much for its group alone.
func TestWeighedIsGranted(t *testing.T) {
	_, live := many(20)
	_, other := many(100)
	x, y := newSystem(), newSystem()
	x.live = live
	for a, v := range other {
		a = "y." + a
		v.A = a
		y.live[a], y.desired[a] = v, v
	}
	inBubble(t, Memory{}, func(r *rig) {
		target := Target{Revision: Revision{ID: "r", Digest: "d"}, Groups: []Group{r.group("x", named("x", x)), r.group("y", named("y", y))}}
		if err := r.Weigh(context.Background(), &target); err != nil {
			t.Fatal(err)
		}
		r.Use(target)
		synctest.Wait()
		if len(x.live) != 0 {
			t.Errorf("%d are left", len(x.live))
		}
	})
}

// What was weighed may be removed until the group has converged, whoever hands
// the same over again meanwhile; what comes to be there in the meantime may not.
func TestGrantIsForWhatWasWeighed(t *testing.T) {
	_, live := many(20)
	x := newSystem()
	x.live = live
	x.fail["x.3"] = errors.New("it is busy")
	inBubble(t, Memory{}, func(r *rig) {
		target := func() Target {
			return Target{Revision: Revision{ID: "r", Digest: "d"}, Groups: []Group{r.group("x", named("x", x))}}
		}
		weighed := target()
		r.Configure(Settings{AllowDeletes: true})
		if err := r.Weigh(context.Background(), &weighed); err != nil {
			t.Fatal(err)
		}
		r.Configure(Settings{})
		r.Use(weighed)
		synctest.Wait()
		if len(x.live) != 1 {
			t.Errorf("%d are left", len(x.live))
		}
		for i := range 20 {
			x.damage(reconciler.Addr(fmt.Sprintf("x.more%d", i)), "1")
		}
		r.Wake()
		r.after(time.Second)
		if x.is("x.more1") != "1" {
			t.Error("what was never weighed is removed")
		}
		r.Use(target())
		x.set(func() { delete(x.fail, "x.3") })
		r.after(2 * lastRetry)
		if x.is("x.3") != "" || x.is("x.more1") != "1" {
			t.Errorf("x.3 is %q, x.more1 %q", x.is("x.3"), x.is("x.more1"))
		}
	})
}

// The end of the context abandons the change in hand, and makes no other.
func TestEndInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSystem(thing{A: "x.a", Value: "1"}, thing{A: "x.b", Value: "1"})
		x.block = make(chan struct{})
		closed := 0
		l := New(Options{})
		l.Use(Target{Groups: []Group{{
			Name: "x", Reconciler: &reconciler.Reconciler{Enforcers: []reconciler.Named{named("x", x)}}, Close: func() { closed++ },
		}}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		if s := l.Stuck(time.Minute); len(s) != 1 || s[0] != "x" {
			t.Errorf("stuck: %v", s)
		}
		cancel()
		if err := <-done; err != context.Canceled || x.tries != 0 || closed != 1 {
			t.Errorf("%v, %d tries, closed %d times", err, x.tries, closed)
		}
	})
}

// A revision replaces enforcers, and ends the groups that it does not have.
func TestGroupsComeAndGo(t *testing.T) {
	inBubble(t, Memory{}, func(r *rig) {
		var mu sync.Mutex
		closed := map[string]int{}
		group := func(name string, s *system) Group {
			g := r.group(name, named(name, s))
			g.Close = func() { mu.Lock(); defer mu.Unlock(); closed[name]++ }
			return g
		}
		r.use("r1", group("x", newSystem(thing{A: "x.a", Value: "1"})), group("y", newSystem()))
		next := newSystem(thing{A: "x.a", Value: "1"})
		r.use("r2", group("x", next))
		if closed["x"] != 1 || closed["y"] != 1 || next.looked() == 0 || len(r.State().Parts) != 1 {
			t.Errorf("closed %v, read %d times, parts %v", closed, next.looked(), r.State().Parts)
		}
		if len(r.Stuck(0)) != 0 {
			t.Error("stuck at rest")
		}
	})
}
