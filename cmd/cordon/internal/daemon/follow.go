package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/aicodesit/cordon/internal/source"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// Follower brings what a source has to a loop: what can't be loaded, is not
// trusted or removes too much changes nothing, and is told.
type Follower struct {
	Source source.Source
	Loop   *loop.Loop
	Log    *slog.Logger

	// Load reads the files. The lines, if any, are what is wrong with them.
	Load func([]source.File) (set specs.Set, wrong []string)
	// Target is what enforces a set.
	Target func(specs.Set) loop.Target
	// Used is called with each set once it is being enforced; nil: nobody.
	Used func(specs.Set)

	unkept bool // the source could not keep what is enforced; Run's alone

	mu      sync.Mutex
	again   bool // the files are to be loaded though they are the same
	current source.Revision
	set     specs.Set
	digest  string // of set; "" before the first
	asked   time.Time
	failed  string // how the last Fetch failed
	refused *loop.Refusal
	note    string // why nothing of before could be enforced
}

// Run follows the source until ctx ends. What was kept is enforced at once,
// ready is called, and then the source is asked.
func (f *Follower) Run(ctx context.Context, ready func()) error {
	f.resume(ctx)
	ready()
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() {
		if err := f.Source.Follow(ctx); ctx.Err() == nil {
			f.Log.Error("the source is not followed any more", "error", err)
		}
	})
	for {
		f.fetch(ctx)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.Source.Wake():
		}
	}
}

// Again makes the Follower ask the source, and load the files even if they are
// the same: what they are loaded with may be other.
func (f *Follower) Again() {
	f.mu.Lock()
	f.again = true
	f.mu.Unlock()
	f.Source.Ring()
}

// resumeTimeout is how long parts that hang may keep all else from being enforced
// when a daemon begins.
const resumeTimeout = time.Second

// resume enforces what was kept. Who kept it may have been killed before all was
// reached: then it may still remove what it might have, where that can be read.
func (f *Follower) resume(ctx context.Context) {
	r, err := f.Source.Last()
	switch {
	case errors.Is(err, source.ErrNothingKept):
		return
	case err != nil:
		f.Log.Error("nothing is enforced until the source answers", "error", err)
		f.mu.Lock()
		f.note = err.Error()
		f.mu.Unlock()
		return
	}
	set, wrong := f.Load(r.Files)
	if len(wrong) > 0 {
		f.refuse(r, wrong[0], wrong)
		return
	}
	target := f.Target(set)
	if !f.Loop.Reached(set.Digest()) {
		soon, cancel := context.WithTimeout(ctx, resumeTimeout)
		defer cancel()
		if err := f.Loop.Weigh(soon, &target); err != nil {
			f.Log.Warn("what was enforced before is enforced, without what exceeds the budget", "revision", r.ID, "error", err)
		}
	}
	f.use(r, set, target)
}

// fetch asks the source once.
func (f *Follower) fetch(ctx context.Context) {
	r, err := f.Source.Fetch(ctx)
	if ctx.Err() != nil {
		return
	}
	f.answered(err)
	switch {
	case errors.Is(err, source.ErrRefused):
		f.refuse(r, err.Error(), nil)
	case err == nil:
		f.consider(ctx, r)
	}
}

// answered notes how asking went.
func (f *Follower) answered(err error) {
	why := ""
	if err != nil && !errors.Is(err, source.ErrRefused) {
		why = err.Error()
	}
	f.mu.Lock()
	before := f.failed
	f.failed, f.asked = why, time.Now()
	f.mu.Unlock()
	switch {
	case why != "" && before == "":
		f.Loop.Emit(loop.Event{Kind: loop.SourceFailed, Error: why})
	case why == "" && before != "":
		f.Loop.Emit(loop.Event{Kind: loop.SourceBack})
	}
}

// consider enforces a revision, if it may be.
func (f *Follower) consider(ctx context.Context, r source.Revision) {
	f.mu.Lock()
	enforced := f.digest != "" && f.current.ID == r.ID && !f.again
	digest := f.digest
	f.again = false
	f.mu.Unlock()
	if enforced {
		f.accept()
		if f.unkept {
			f.keep(r)
		}
		return
	}
	set, wrong := f.Load(r.Files)
	if len(wrong) > 0 {
		f.refuse(r, wrong[0], wrong)
		return
	}
	target := f.Target(set)
	if set.Digest() != digest {
		if err := f.Loop.Weigh(ctx, &target); err != nil {
			closeAll(target)
			f.refuse(r, err.Error(), nil)
			return
		}
	}
	// Killed in between, the next one goes on with r, not with what was before.
	f.keep(r)
	f.use(r, set, target)
}

// keep has the source remember what is to be enforced, and is called again until it
// does: a disk may be full for a while.
func (f *Follower) keep(r source.Revision) {
	err := f.Source.Keep(r)
	if err != nil && !f.unkept {
		f.Log.Error("the revision is enforced, but will not be known after a restart", "revision", r.ID, "error", err)
	}
	f.unkept = err != nil
}

func closeAll(t loop.Target) {
	for _, g := range t.Groups {
		if g.Close != nil {
			g.Close()
		}
	}
}

// use enforces r.
func (f *Follower) use(r source.Revision, set specs.Set, t loop.Target) {
	f.accept()
	f.mu.Lock()
	f.current, f.set, f.digest = r, set, set.Digest()
	f.current.Files, f.current.Signed, f.note = nil, nil, ""
	f.mu.Unlock()
	t.Revision = loop.Revision{ID: r.ID, Author: r.Author, Title: r.Title, Signer: r.Signer, Time: r.Time, Digest: set.Digest()}
	f.Loop.Use(t)
	if f.Used != nil {
		f.Used(set)
	}
}

func (f *Follower) accept() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = nil
}

// refuse notes that r is not enforced, and tells of it once.
func (f *Follower) refuse(r source.Revision, why string, wrong []string) {
	f.mu.Lock()
	news := f.refused == nil || f.refused.ID != r.ID || f.refused.Why != why
	if news {
		f.refused = &loop.Refusal{ID: r.ID, Since: time.Now(), Why: why, Diagnostics: wrong}
	}
	f.mu.Unlock()
	if news {
		f.Loop.Emit(loop.Event{Kind: loop.RevisionRefused, Revision: r.ID, Text: r.Title, Error: why})
	}
}

// Set is what is enforced, without facts; false: nothing is yet.
func (f *Follower) Set() (specs.Set, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set, f.digest != ""
}

// Describe fills into s what it says of the source.
func (f *Follower) Describe(s *loop.State) {
	status := f.Source.Status()
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Source.How, s.Source.Note = status.How, status.Note
	if s.Source.Note == "" {
		s.Source.Note = f.note
	}
	s.Source.Asked, s.Source.Error = f.asked, f.failed
	if f.refused != nil {
		r := *f.refused
		s.Refused = &r
	}
	s.NotEnforced = f.set.NotEnforced()
}
