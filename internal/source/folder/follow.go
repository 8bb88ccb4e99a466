package folder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// again is how long it polls before it tries to watch again.
const again = time.Minute

// Follow is [source.Source.Follow].
func (s *Source) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.watch(ctx); err != nil && ctx.Err() == nil {
			s.setStatus(fmt.Sprintf("polling every %s", s.timing.Poll), reason(err))
			s.poll(ctx)
		}
	}
	return context.Cause(ctx)
}

// reason explains why nothing can be watched.
func reason(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		return "no inotify instance is to be had: raise fs.inotify.max_user_instances, or the limit of open files"
	case errors.Is(err, unix.ENOSPC):
		return "no inotify watch is to be had: raise fs.inotify.max_user_watches"
	}
	return err.Error()
}

func (s *Source) poll(ctx context.Context) {
	retry := time.NewTimer(again)
	defer retry.Stop()
	tick := time.NewTicker(s.timing.Poll)
	defer tick.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-retry.C:
			return
		case <-tick.C:
		}
	}
}

// watch looks at each burst of events until ctx ends, or until something can't
// be watched.
func (s *Source) watch(ctx context.Context) error {
	w, err := s.notify()
	if err != nil {
		return err
	}
	defer w.Close() //nolint:errcheck // nothing to lose
	if err := s.arm(w); err != nil {
		return err
	}
	s.setStatus("inotify", "")
	events := make(chan struct{}, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.listen(ctx, w, events, cancel)
	s.look(ctx) // what happened before the watches were there
	bursts(ctx, events, s.timing, func() {
		if err := s.arm(w); err != nil {
			cancel(err)
			return
		}
		s.look(ctx)
	})
	return context.Cause(ctx)
}

// listen passes on that there were events, of which some concern the
// directory. Lost events are an event.
func (s *Source) listen(ctx context.Context, w *fsnotify.Watcher, events chan<- struct{}, cancel context.CancelCauseFunc) {
	tell := func() {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.Events:
			if !ok {
				cancel(fsnotify.ErrClosed)
				return
			}
			if s.watched.Load().concern(e.Name) {
				tell()
			}
		case err, ok := <-w.Errors:
			if !ok {
				cancel(fsnotify.ErrClosed)
				return
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				s.log.Warn("folder: an event could not be read", "dir", s.dir, "error", err)
			}
			tell()
		}
	}
}

// arm watches what should be watched now, and nothing else. Directories that
// appear in the meantime are found by doing it until nothing is new.
func (s *Source) arm(w *fsnotify.Watcher) error {
	for range 10 {
		p := placesOf(s.dir)
		s.watched.Store(&p)
		have := w.WatchList()
		added := false
		for _, dir := range p.all() {
			// Also what is watched already: the name may be another
			// directory's now.
			err := w.Add(dir)
			if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
				return err
			}
			added = added || err != nil || !slices.Contains(have, dir)
		}
		for _, dir := range have {
			if !slices.Contains(p.all(), dir) {
				_ = w.Remove(dir) // may be gone
			}
		}
		if !added {
			break
		}
	}
	return nil
}

// places are where a change concerns the directory.
type places struct {
	in    []string // directories: whatever changes in them does
	steps []string // names on the way to it: that what they stand for changes does
}

// concern tells whether a change of a name is of interest.
func (p places) concern(name string) bool {
	return slices.Contains(p.in, filepath.Dir(name)) || slices.Contains(p.in, name) || slices.Contains(p.steps, name)
}

// all is the directories to watch.
func (p places) all() []string {
	out := slices.Clone(p.in)
	for _, step := range p.steps {
		out = append(out, filepath.Dir(step))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func placesOf(dir string) places {
	p := places{steps: steps(dir)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return p
	}
	p.in = []string{dir}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 || !ours(e.Name()) {
			continue
		}
		if path, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name())); err == nil {
			p.in = append(p.in, filepath.Dir(path))
		}
	}
	return p
}

// steps are the names whose change makes dir another directory: its own, each
// symbolic link on the way and where that leads, and of what does not exist
// the first. A parent that is removed takes dir with it, which is seen.
func steps(dir string) []string {
	out := []string{dir}
	missing := ""
	for p := dir; p != filepath.Dir(p); p = filepath.Dir(p) {
		info, err := os.Lstat(p)
		switch {
		case err != nil:
			missing = p
		case info.Mode()&os.ModeSymlink != 0:
			out = append(out, p)
			if to, err := filepath.EvalSymlinks(p); err == nil {
				out = append(out, to)
			}
		}
	}
	if missing != "" {
		out[0] = missing
	}
	return out
}

// bursts calls look after each burst of events, and from time to time without.
func bursts(ctx context.Context, events <-chan struct{}, t Timing, look func()) {
	rescan := time.NewTimer(t.Rescan)
	defer rescan.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rescan.C:
		case <-events:
			if !settle(ctx, events, t) {
				return
			}
		}
		look()
		rescan.Reset(t.Rescan)
	}
}

// settle waits until no event came for a while, but not for ever.
func settle(ctx context.Context, events <-chan struct{}, t Timing) bool {
	end := time.NewTimer(t.AtLast)
	defer end.Stop()
	for {
		quiet := time.NewTimer(t.Quiet)
		select {
		case <-ctx.Done():
			quiet.Stop()
			return false
		case <-end.C:
			quiet.Stop()
			return true
		case <-quiet.C:
			return true
		case <-events:
			quiet.Stop()
		}
	}
}
