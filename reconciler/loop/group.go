package loop

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

const (
	defaultInterval = 30 * time.Second
	// A burst of wakes is one pass: that many of them is waited for, and passes
	// that events ask for take at most half of the time, however many there are.
	quiet    = 20 * time.Millisecond
	longRest = 400 * time.Millisecond
	// After what woke it, a group looks once more: what is only asked for now and
	// then tells of nothing that came and went since it was asked last.
	secondLook = time.Second
)

// group is a [Group] that is kept converged by a goroutine of its own.
type group struct {
	loop *Loop
	name string
	wake chan struct{}
	stop chan struct{}
	once sync.Once

	mu    sync.Mutex
	next  *handed  // what to go on with; nil: as before
	names []string // that wake it
	shown view

	// What follows is the goroutine's alone.
	target Group
	parts  []*part // in the order of the enforcers
	tracks map[reconciler.Addr]*track
	known  map[reconciler.Addr]bool // what the last whole look found as desired; nil before the first
	leases map[string]specs.Lease   // of the last look; nil before the first
	moved  time.Time                // when a session came or went last
	held   string                   // why deletions were held back last
	last   time.Duration            // that the last pass took
	ended  time.Time                // when it had
	second time.Time                // when it looks once more
}

// handed is a new target on its way to the goroutine.
type handed struct {
	Group
	reached bool // the specs had converged before
	same    bool // they are those of the target before
}

// view is what others see of a group.
type view struct {
	parts    []Part
	notes    []reconciler.Note
	sessions []Session
	reached  bool
	busy     time.Time // since when it has been at one step; zero: it waits
}

func newGroup(l *Loop, name string) *group {
	return &group{
		loop: l, name: name, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		tracks: map[reconciler.Addr]*track{},
	}
}

// cancel ends the goroutine.
func (g *group) cancel() { g.once.Do(func() { close(g.stop) }) }

// use hands a target over.
func (g *group) use(n Group, reached, same bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil {
		same = same && g.next.same
		g.next.close()
	}
	g.next, g.names = &handed{n, reached, same}, []string{n.Name}
	for _, e := range n.Reconciler.Enforcers {
		g.names = append(g.names, e.Name)
	}
	if !same {
		g.shown.reached = false
	}
	if g.shown.parts == nil {
		for _, e := range n.Reconciler.Enforcers {
			g.shown.parts = append(g.shown.parts, Part{Name: n.part(e.Name), Condition: Waiting, Since: time.Now()})
		}
	}
	ring(g.wake)
}

func (n *Group) close() {
	if n.Close != nil {
		n.Close()
	}
}

// part is the name of the Part that an enforcer is.
func (n *Group) part(enforcer string) string {
	if len(n.Reconciler.Enforcers) == 1 {
		return n.Name
	}
	return enforcer
}

// concerns tells whether one of the names is the group's or one of its
// enforcers'.
func (g *group) concerns(names []string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(g.names, n) })
}

func (g *group) view() view {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shown
}

// at notes that a step begins, or that one goes on; the zero time that none is
// under way.
func (g *group) at(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shown.busy = t
}

// run passes again and again until ctx ends or the group is cancelled.
func (g *group) run(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-g.stop:
			end()
		case <-ctx.Done():
		}
	}()
	defer g.close()
	for ctx.Err() == nil {
		g.take()
		start := time.Now()
		again := g.pass(ctx)
		g.ended = time.Now()
		g.last = g.ended.Sub(start)
		g.loop.passed(g.name, g.last)
		g.at(time.Time{})
		if !again {
			g.rest(ctx)
		}
	}
}

// handed returns what was handed over since it was called last; nil: nothing.
func (g *group) handed() *handed {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.next
	g.next = nil
	return n
}

// close lets go of what it works with, and was to go on with.
func (g *group) close() {
	g.target.close()
	if n := g.handed(); n != nil {
		n.close()
	}
}

// take goes on with what was handed over.
func (g *group) take() {
	n := g.handed()
	if n == nil {
		return
	}
	g.target.close()
	if n.same && n.granted == nil {
		n.granted = g.target.granted
	}
	g.target = n.Group
	before := g.parts
	g.parts = nil
	for _, e := range g.target.Reconciler.Enforcers {
		p := &part{enforcer: e.Name, Part: Part{Name: g.target.part(e.Name), Condition: Waiting, Since: time.Now()}}
		if i := slices.IndexFunc(before, func(o *part) bool { return o.enforcer == e.Name }); i >= 0 {
			p = before[i]
		}
		if !n.same {
			p.reached, p.announce = n.reached, !n.reached
			p.retry = time.Time{}
		}
		g.parts = append(g.parts, p)
	}
	if !n.same {
		for _, t := range g.tracks {
			t.forgive()
		}
	}
}

// rest waits for the next pass.
func (g *group) rest(ctx context.Context) {
	timer := time.NewTimer(time.Until(g.due()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
		return
	case <-g.wake:
		g.second = time.Now().Add(secondLook)
	}
	select {
	case <-ctx.Done():
	case <-time.After(max(quiet, min(g.last, longRest)-time.Since(g.ended))): // who has rested already looks at once
	}
	select {
	case <-g.wake: // the pass that comes is theirs too
	default:
	}
}

// due is when the next pass is, if nothing wakes it before.
func (g *group) due() time.Time {
	now := time.Now()
	g.loop.mu.Lock()
	interval := g.loop.settings.Interval
	g.loop.mu.Unlock()
	at := now.Add(jitter(interval, 10))
	if g.second.After(now) && g.second.Before(at) {
		at = g.second
	}
	for _, p := range g.parts {
		if p.retry.After(now) && p.retry.Before(at) {
			at = p.retry
		}
	}
	for _, t := range g.tracks {
		if t.until.After(now) && t.until.Before(at) {
			at = t.until
		}
	}
	return at
}
