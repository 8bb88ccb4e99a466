package loop

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Target is what a Loop keeps the host at.
type Target struct {
	Revision Revision // without Since, Reached and Before, which the Loop fills in
	Groups   []Group
}

// Group is enforcers that are planned together, since their resources need
// each other. Groups know nothing of each other: whatever holds one up, the
// others go on. A group of one enforcer is a [Part] of the group's name; of
// several, each enforcer is a Part of its own.
type Group struct {
	Name       string
	Set        specs.Set
	Reconciler *reconciler.Reconciler
	// Lock is taken for changes, and what is to change is planned again under
	// it. nil: none is needed.
	Lock func(context.Context) (unlock func(), err error)
	// Close is called once, when the group is no longer used; nil: nothing.
	Close func()

	granted map[reconciler.Addr]bool // whose deletion was weighed with the revision as a whole
}

// Settings are what may be changed at any time.
type Settings struct {
	Interval     time.Duration // between passes that nothing woke; default 30 s
	AllowDeletes bool          // beyond the budget
}

// Memory is what must outlast the process.
type Memory struct {
	Paused  *Pause `json:"paused,omitempty"`
	Reached string `json:"reached,omitempty"` // digest of the specs that everything had converged at
}

// Options are what a Loop works with.
type Options struct {
	Settings Settings
	Memory   Memory             // as it was remembered last
	Remember func(Memory) error // nil: nothing outlasts the process
	Emit     func(Event)        // called by one goroutine at a time; nil: nobody listens
	// Passed is told how long a group took to be looked at and repaired, by
	// several goroutines at once; nil: nobody listens.
	Passed func(group string, took time.Duration)
	// Arrived is told that everything has converged at the revision; nil: nobody
	// listens. No event tells of it after a start at what had converged before.
	Arrived func()
	Log     *slog.Logger // nil: nothing is logged
}

// Loop keeps a host at a [Target].
type Loop struct {
	remember func(Memory) error
	emitted  func(Event)
	passed   func(string, time.Duration)
	told     func() // that all has arrived
	log      *slog.Logger
	started  time.Time
	kick     chan struct{} // Run looks again at what it runs

	emitting sync.Mutex

	mu       sync.Mutex
	settings Settings
	memory   Memory
	revision *Revision
	groups   map[string]*group
	fresh    []*group // that Run has not started yet
}

// New returns a Loop that has nothing to do yet.
func New(o Options) *Loop {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Emit == nil {
		o.Emit = func(Event) {}
	}
	if o.Passed == nil {
		o.Passed = func(string, time.Duration) {}
	}
	if o.Arrived == nil {
		o.Arrived = func() {}
	}
	if o.Remember == nil {
		o.Remember = func(Memory) error { return nil }
	}
	l := &Loop{
		remember: o.Remember, emitted: o.Emit, passed: o.Passed, told: o.Arrived, log: o.Log, started: time.Now(), kick: make(chan struct{}, 1),
		memory: o.Memory, groups: map[string]*group{},
	}
	l.Configure(o.Settings)
	return l
}

// Configure changes the settings; passes that wait for the interval begin to
// wait anew.
func (l *Loop) Configure(s Settings) {
	if s.Interval <= 0 {
		s.Interval = defaultInterval
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings = s
	for _, g := range l.groups {
		ring(g.wake)
	}
}

// Use makes t what the host is kept at. A pass that is under way ends at what
// it began with.
func (l *Loop) Use(t Target) {
	now := time.Now()
	r := t.Revision
	l.Emit(Event{Kind: RevisionTaken, By: by(r), Revision: r.ID, Text: r.Title})
	l.mu.Lock()
	r.Since, r.Reached, r.Before = now, time.Time{}, l.revision == nil && l.memory.Reached != "" && l.memory.Reached == r.Digest
	same := l.revision != nil && l.revision.Digest == r.Digest
	if same {
		r.Reached, r.Before = l.revision.Reached, l.revision.Before
	}
	reached := same || r.Before
	l.revision = &r
	for name, g := range l.groups {
		if !slices.ContainsFunc(t.Groups, func(n Group) bool { return n.Name == name }) {
			g.cancel()
			delete(l.groups, name)
		}
	}
	for _, n := range t.Groups {
		g := l.groups[n.Name]
		if g == nil {
			g = newGroup(l, n.Name)
			l.groups[n.Name], l.fresh = g, append(l.fresh, g)
		}
		g.use(n, reached, same)
	}
	l.mu.Unlock()
	ring(l.kick)
}

// by is who made a revision.
func by(r Revision) string {
	if r.Author == "" {
		return daemon
	}
	return "git:" + r.Author
}

const daemon = "daemon"

// Wake makes the groups look at once that have one of the names or an enforcer
// of one, all groups when none is named. A burst of wakes is one pass.
func (l *Loop) Wake(names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.groups {
		if len(names) == 0 || g.concerns(names) {
			ring(g.wake)
		}
	}
}

// Run keeps the host at what [Loop.Use] said last, until ctx ends. The change
// in hand is then finished or abandoned by its enforcer, and nothing is undone.
func (l *Loop) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		l.mu.Lock()
		for _, g := range l.fresh {
			running.Go(func() { g.run(ctx) })
		}
		l.fresh = nil
		l.mu.Unlock()
		expiry := l.expiry()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.kick:
		case <-expiry:
			l.expire()
		}
	}
}

// ring wakes who waits on c, or will. It never blocks.
func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Emit tells whoever listens of e, and fills in what is left out: the time, the
// revision that is enforced, and that it was the daemon. Events of one caller
// stay in their order.
func (l *Loop) Emit(e Event) {
	l.mu.Lock()
	if l.revision != nil && e.Revision == "" && e.Kind != RevisionRefused { // that is another one, known or not
		e.Revision = l.revision.ID
	}
	l.mu.Unlock()
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.By == "" {
		e.By = daemon
	}
	l.emitting.Lock()
	defer l.emitting.Unlock()
	l.emitted(e)
}

// State is what the Loop knows now. Version, PID, Source, Refused and the warm
// slots are for others to fill in.
func (l *Loop) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{FormatVersion: StateVersion, Time: time.Now(), Started: l.started, Parts: []Part{}, Sessions: []Session{}}
	if l.revision != nil {
		r := *l.revision
		s.Revision = &r
	}
	if l.memory.Paused != nil {
		p := *l.memory.Paused
		s.Paused = &p
	}
	for _, g := range l.groups {
		view := g.view()
		s.Parts = append(s.Parts, view.parts...)
		s.Notes = append(s.Notes, view.notes...)
		s.Sessions = append(s.Sessions, view.sessions...)
	}
	slices.SortFunc(s.Parts, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Notes, func(a, b reconciler.Note) int { return strings.Compare(string(a.Addr), string(b.Addr)) })
	return s
}

// arrived remembers that everything has converged at the revision, and tells it.
func (l *Loop) arrived() {
	if l.arrives() {
		l.told()
	}
}

// arrives tells whether everything has, and had not before.
func (l *Loop) arrives() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.revision == nil || !l.revision.Reached.IsZero() {
		return false
	}
	for _, g := range l.groups {
		if !g.view().reached {
			return false
		}
	}
	l.revision.Reached = time.Now()
	l.memory.Reached = l.revision.Digest
	if err := l.remember(l.memory); err != nil {
		l.log.Error("what must outlast the daemon can't be written", "error", err)
	}
	return true
}

// Stuck returns the groups that have been at one and the same step for longer
// than limit: a watchdog should know.
func (l *Loop) Stuck(limit time.Duration) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for name, g := range l.groups {
		if busy := g.view().busy; !busy.IsZero() && time.Since(busy) > limit {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
