// Package folder follows a directory.
//
// inotify shows changes within milliseconds. What is watched are directories,
// never files, for a file that an editor replaces takes its watch with it: the
// directory itself, its parent (it may be removed and made again, or be a
// symbolic link that is turned), and where its symbolic links lead. An event
// only means that it is time to look: the files are hashed, and unless the
// hash is another one nobody is woken. So a lost event costs time and nothing
// else: every half minute the files are hashed anyway. Where inotify's limits
// are reached they are hashed every two seconds.
package folder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/aicodesit/cordon/internal/source"
)

// Timing is how fast changes are seen.
type Timing struct {
	Quiet  time.Duration // without an event before the files are looked at; default 100 ms
	AtLast time.Duration // after which they are looked at in any case; default 2 s
	Rescan time.Duration // without events; default 30 s
	Poll   time.Duration // where nothing can be watched; default 2 s
}

func (t Timing) settled() Timing {
	for _, d := range []struct {
		v  *time.Duration
		is time.Duration
	}{{&t.Quiet, 100 * time.Millisecond}, {&t.AtLast, 2 * time.Second}, {&t.Rescan, 30 * time.Second}, {&t.Poll, 2 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.is
		}
	}
	return t
}

// Options are what to follow.
type Options struct {
	Dir      string // that holds the *.hcl files
	StateDir string // for this source alone
	Timing   Timing
	Log      *slog.Logger
}

// Source is a directory that is followed; see [source.Source].
type Source struct {
	dir    string
	timing Timing
	log    *slog.Logger
	store  *source.Store
	bell   source.Bell
	notify func() (*fsnotify.Watcher, error)

	watched atomic.Pointer[places]

	mu     sync.Mutex
	known  string // ID, or error, that a Fetch or a look saw last
	status source.Status
}

// New prepares a Source. The directory need not exist yet.
func New(o Options) (*Source, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	store, err := source.OpenStore(o.StateDir)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Source{
		dir: dir, timing: o.Timing.settled(), log: o.Log, store: store, bell: source.NewBell(),
		notify: fsnotify.NewWatcher, status: source.Status{How: "not followed yet"},
	}, nil
}

// Wake is [source.Source.Wake].
func (s *Source) Wake() <-chan struct{} { return s.bell }

// Ring is [source.Source.Ring].
func (s *Source) Ring() { s.bell.Ring() }

// Status is [source.Source.Status].
func (s *Source) Status() source.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *Source) setStatus(how, note string) {
	s.mu.Lock()
	changed := s.status.How != how
	s.status = source.Status{How: how, Note: note}
	s.mu.Unlock()
	if changed && note != "" {
		s.log.Warn("folder: not followed as it should be", "dir", s.dir, "how", how, "why", note)
	}
}

// Fetch is [source.Source.Fetch]. While the files are being written it waits
// until they are not, for a while.
func (s *Source) Fetch(ctx context.Context) (source.Revision, error) {
	r, err := s.steady(ctx)
	if ctx.Err() == nil {
		s.learn(r, err)
		if err != nil && !errors.Is(err, errAway) { // there is nobody to wait for: what is newest is no good
			err = fmt.Errorf("%w: %w", source.ErrRefused, err)
		}
	}
	return r, err
}

// steady reads the files until they were the same, and left alone, for as long
// as a burst of writes may pause.
func (s *Source) steady(ctx context.Context) (source.Revision, error) {
	end := time.Now().Add(s.timing.AtLast)
	for {
		before, age := stamp(s.dir)
		r, err := read(s.dir)
		after, _ := stamp(s.dir)
		steady := slices.Equal(before, after)
		if steady && age >= s.timing.Quiet {
			return r, err
		}
		if !time.Now().Before(end) {
			if steady {
				return r, err
			}
			return source.Revision{}, fmt.Errorf("%s: its files have been changing for %s", s.dir, s.timing.AtLast)
		}
		select {
		case <-ctx.Done():
			return source.Revision{}, context.Cause(ctx)
		case <-time.After(max(s.timing.Quiet-age, time.Millisecond)):
		}
	}
}

// learn remembers what the files are, and tells whether they were others.
func (s *Source) learn(r source.Revision, err error) bool {
	now := r.ID
	if err != nil {
		now = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.known != now
	s.known = now
	return changed
}

// look wakes whoever waits if the files are others than were seen last.
func (s *Source) look(ctx context.Context) {
	r, err := s.steady(ctx)
	if ctx.Err() == nil && s.learn(r, err) {
		s.bell.Ring()
	}
}

// Keep is [source.Source.Keep].
func (s *Source) Keep(r source.Revision) error { return s.store.Save(r) }

// Last is [source.Source.Last].
func (s *Source) Last() (source.Revision, error) {
	r, err := s.store.Load(s.dir)
	if err == nil && identify(r.Files) != r.ID {
		err = errors.New("the kept revision: its files are not those of its ID")
	}
	if err != nil {
		return source.Revision{}, err
	}
	return r, nil
}

var _ source.Source = (*Source)(nil)
