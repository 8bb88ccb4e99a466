package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/aicodesit/cordon/internal/atomicfile"
	"github.com/aicodesit/cordon/internal/source"
)

// Source is a git repository that is followed; see [source.Source].
type Source struct {
	Options
	endpoint *transport.Endpoint
	store    *source.Store
	disk     disk
	bell     source.Bell

	mu      sync.Mutex
	seen    target          // what the last Fetch was about
	got     source.Revision // what it returned
	past    history         // of what was kept
	pending history         // of got, once it is kept
	no      target          // what was refused for its history
	bad     source.Revision // of it
	why     error
}

// New prepares a Source. It does not connect.
func New(o Options) (*Source, error) {
	endpoint, err := o.settle()
	if err != nil {
		return nil, err
	}
	store, err := source.OpenStore(o.StateDir)
	if err != nil {
		return nil, err
	}
	s := &Source{Options: o, endpoint: endpoint, store: store, disk: disk{o.StateDir}, bell: source.NewBell()}
	if err := errors.Join(s.disk.tidy(), atomicfile.Tidy(historyPath(o.StateDir))); err != nil {
		return nil, err
	}
	if s.past, err = loadHistory(o.StateDir); err != nil {
		s.Log.Error("git: what was enforced before can't be read; going back to it is not noticed unless the last revision is", "error", err)
		s.past = history{ancestors: map[plumbing.Hash]bool{}}
		if kept, err := store.Load(o.origin()); err == nil {
			s.past.last = plumbing.NewHash(kept.ID)
		}
	}
	return s, nil
}

// Follow is [source.Source.Follow]: it polls.
func (s *Source) Follow(ctx context.Context) error {
	return source.NewPace(s.Host, s.Interval).Poll(ctx, s.bell.Ring)
}

// Wake is [source.Source.Wake].
func (s *Source) Wake() <-chan struct{} { return s.bell }

// Ring is [source.Source.Ring].
func (s *Source) Ring() { s.bell.Ring() }

// Status is [source.Source.Status].
func (s *Source) Status() source.Status {
	return source.Status{How: fmt.Sprintf("polling every %s", s.Interval)}
}

// Fetch is [source.Source.Fetch].
func (s *Source) Fetch(ctx context.Context) (source.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("no answer within %s", s.Timeout))
	defer cancel()
	opened, refs, err := s.connect(ctx)
	if err != nil {
		return source.Revision{}, err
	}
	defer opened.Close() //nolint:errcheck // what matters was read
	t, err := resolve(s.Ref, refs)
	if err != nil {
		return source.Revision{}, fmt.Errorf("%s: %w", s.URL, err)
	}
	r, err := s.revision(ctx, opened, refs, t)
	if permanent(err) && !errors.Is(err, source.ErrRefused) { // it was read: what is newest is known, and no good
		err = fmt.Errorf("%w: %w", source.ErrRefused, err)
	}
	if err != nil {
		return source.Revision{ID: r.ID, Author: r.Author, Title: r.Title, Time: r.Time}, fmt.Errorf("%s at %s: %w", t.name, t.hash, err)
	}
	return r, nil
}

// revision returns what a target holds, if it may be used.
func (s *Source) revision(ctx context.Context, opened session, refs *packp.AdvRefs, t target) (source.Revision, error) {
	if t == s.seen {
		_, err := s.trusted(s.got) // the keys may be others now
		return s.got, err
	}
	if t == s.no {
		return s.bad, s.why
	}
	r, err := s.content(ctx, opened, refs, t)
	if err != nil {
		return r, err
	}
	next, err := s.judge(ctx, plumbing.NewHash(r.ID))
	if errors.Is(err, source.ErrRefused) {
		s.no, s.bad, s.why = t, r, err
	}
	if err != nil {
		return r, err
	}
	s.seen, s.got, s.pending = t, r, next
	return r, nil
}

// content reads a target from the cache as it is, or with the difference
// fetched, or from a fresh clone: whichever works first.
func (s *Source) content(ctx context.Context, opened session, refs *packp.AdvRefs, t target) (source.Revision, error) {
	want, depth := wanted(t, refs)
	w := wish{want: want, depth: depth}
	if store, head, ok := s.disk.current(); ok {
		r, err := s.update(ctx, opened, refs, w, t, store, head)
		_ = store.Close()
		if err == nil || permanent(err) || ctx.Err() != nil {
			return r, err
		}
		s.Log.Warn("git: a fresh clone is needed", "url", s.URL, "error", err)
		var again session
		if again, refs, err = s.connect(ctx); err != nil {
			return r, err
		}
		defer again.Close() //nolint:errcheck // what matters was read
		opened = again
	}
	return s.clone(ctx, opened, refs, w, t)
}

// update brings the cache to the target and reads it.
func (s *Source) update(ctx context.Context, opened session, refs *packp.AdvRefs, w wish, t target, store *filesystem.Storage, head plumbing.Hash) (source.Revision, error) {
	if store.HasEncodedObject(t.hash) != nil {
		if s.disk.crowded() {
			return source.Revision{}, fmt.Errorf("the cache has %d packs", maxPacks)
		}
		w.have, w.edge = []plumbing.Hash{head}, []plumbing.Hash{head}
		if err := fetch(ctx, opened, refs, w, store, s.MaxPack); err != nil {
			return source.Revision{}, err
		}
	}
	r, err := s.read(objects{store}, t)
	if err != nil {
		return r, err
	}
	return r, setHead(store, plumbing.NewHash(r.ID))
}

func (s *Source) clone(ctx context.Context, opened session, refs *packp.AdvRefs, w wish, t target) (source.Revision, error) {
	store, dir, err := s.disk.fresh()
	if err != nil {
		return source.Revision{}, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is the cache then, or tidy does it
	defer store.Close()     //nolint:errcheck // was read
	if err := fetch(ctx, opened, refs, w, store, s.MaxPack); err != nil {
		return source.Revision{}, err
	}
	r, err := s.read(objects{store}, t)
	if err != nil {
		return r, err
	}
	if err := setHead(store, plumbing.NewHash(r.ID)); err != nil {
		return r, err
	}
	return r, s.disk.swap(dir)
}

// unfit wraps what another clone would not change.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

func permanent(err error) bool {
	var u unfit
	return errors.As(err, &u)
}

// read makes a revision of the target's objects, and checks its signature.
func (s *Source) read(o objects, t target) (source.Revision, error) {
	r, tree, err := s.describe(o, t)
	if err == nil {
		r.Signer, err = s.trusted(r)
	}
	if err == nil {
		r.Files, r.Notes, err = o.files(tree, s.Path)
	}
	if err != nil && !errors.Is(err, errDamaged) {
		err = unfit{err}
	}
	if s.Verify == VerifyNothing {
		r.Signed = nil
	}
	return r, err
}

// describe reads the tag, if it is one, and the commit.
func (s *Source) describe(o objects, t target) (source.Revision, plumbing.Hash, error) {
	r := source.Revision{Origin: s.origin(), Ref: t.name}
	at := t.hash
	if tag, raw, err := o.tag(at); err == nil {
		if tag.TargetType != plumbing.CommitObject {
			return r, at, fmt.Errorf("the tag is of a %s, not of a commit", tag.TargetType)
		}
		if s.Verify == VerifyTag {
			r.Signed = raw
		}
		at = tag.Target
	}
	c, raw, err := o.commit(at)
	if err != nil {
		return r, at, err
	}
	if !bytes.HasPrefix(raw, []byte("tree "+c.TreeHash.String()+"\n")) {
		return r, at, errors.New("the commit does not begin with its tree")
	}
	if s.Verify == VerifyHead {
		r.Signed = raw
	}
	r.ID, r.Time = at.String(), c.Committer.When
	r.Author = cut(c.Author.Name + " <" + c.Author.Email + ">")
	title, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	r.Title = cut(title)
	return r, c.TreeHash, nil
}

// cut keeps what people read of a commit, which may have megabytes, to what
// they do read.
func cut(s string) string {
	const most = 200 // characters
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

func (o objects) tag(h plumbing.Hash) (*object.Tag, []byte, error) {
	b, err := o.get(plumbing.TagObject, h, maxObject)
	if err != nil {
		return nil, nil, err
	}
	t := &object.Tag{}
	return t, b, t.Decode(memory(plumbing.TagObject, b))
}

// Keep is [source.Source.Keep].
func (s *Source) Keep(r source.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := plumbing.NewHash(r.ID)
	if id != s.past.last && id != s.pending.last {
		return fmt.Errorf("revision %s was not fetched", r.ID)
	}
	if id == s.pending.last && id != s.past.last {
		// First, so that a crash in between forgets no step forward.
		if err := s.pending.save(s.StateDir); err != nil {
			return err
		}
		s.past = s.pending
	}
	return s.store.Save(r)
}

// Last is [source.Source.Last].
func (s *Source) Last() (source.Revision, error) {
	r, err := s.store.Load(s.origin())
	if err != nil {
		return source.Revision{}, err
	}
	if r.Signer, err = s.trusted(r); err != nil {
		return source.Revision{}, fmt.Errorf("the kept revision: %w", err)
	}
	return r, nil
}
