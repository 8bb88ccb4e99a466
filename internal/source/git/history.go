package git

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/aicodesit/cordon/internal/source"
)

const (
	maxHistory   = 50_000 // commits that are asked for at once
	historyMagic = "cordon-history 1 "
	hashSize     = len(plumbing.Hash{})
)

// history is what is known of the commits before the last enforced one.
type history struct {
	last      plumbing.Hash // zero before the first
	ancestors map[plumbing.Hash]bool
	whole     bool // there are no ancestors but these
}

func (h history) holds(c plumbing.Hash) bool { return h.ancestors[c] }

// after is the history of a commit that descends, or does not, from h.last,
// given the commits that are not in h.
func (h history) after(c plumbing.Hash, commits map[plumbing.Hash][]plumbing.Hash) (next history, forward bool) {
	next = history{last: c, ancestors: map[plumbing.Hash]bool{}, whole: true}
	todo := []plumbing.Hash{c}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		parents, known := commits[at]
		switch {
		case at == h.last:
			forward = true
			continue
		case h.holds(at):
			continue
		case !known:
			next.whole = false
		}
		for _, p := range parents {
			if !next.ancestors[p] {
				next.ancestors[p] = true
				todo = append(todo, p)
			}
		}
	}
	return next, forward
}

// join adds what was known before: going on from a rewritten history must not
// make going back to the old one possible.
func (h history) join(before history) history {
	for c := range before.ancestors {
		h.ancestors[c] = true
	}
	if !before.last.IsZero() {
		h.ancestors[before.last] = true
		h.whole = h.whole && before.whole
	}
	delete(h.ancestors, h.last)
	return h
}

// judge decides whether a commit may follow, and what the history would be
// once it is enforced.
func (s *Source) judge(ctx context.Context, c plumbing.Hash) (history, error) {
	before := s.past
	if c == before.last {
		return before, nil
	}
	if before.holds(c) {
		if !s.AllowRollback {
			return history{}, fmt.Errorf("%w: commit %s is an ancestor of one that was enforced already, the last is %s; to go back on purpose make a new commit (git revert), or allow rollback", source.ErrRefused, c, before.last)
		}
		before = history{} // what comes after is no way back any more
	}
	commits, err := s.commits(ctx, c, before.last)
	if err != nil && (before.last.IsZero() || s.AllowRollback) && errors.Is(err, errTooLarge) {
		err = nil
	}
	if err != nil {
		return history{}, fmt.Errorf("the history of %s: %w", c, err)
	}
	next, forward := before.after(c, commits)
	if !before.last.IsZero() && !forward && !before.whole && !s.AllowRollback {
		return history{}, fmt.Errorf("%w: commit %s does not descend from %s, which was enforced last, and not enough of its history is known to tell whether this goes back; allow rollback once if it is meant", source.ErrRefused, c, before.last)
	}
	return next.join(before), nil
}

// commits fetches the commits that lead to c, but not to have, as a map to
// their parents. Trees and files come along only from servers that can't leave
// them out; then they are on disk for a moment.
func (s *Source) commits(ctx context.Context, c, have plumbing.Hash) (map[plumbing.Hash][]plumbing.Hash, error) {
	opened, refs, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer opened.Close() //nolint:errcheck // what matters was read
	store, dir, err := s.disk.fresh()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // tidy does it later
	defer store.Close()     //nolint:errcheck // is removed
	w := wish{want: []plumbing.Hash{c}, depth: maxHistory, bare: true}
	if all, _ := wanted(target{hash: c}, refs); len(all) > 0 {
		w.want = all
	}
	if !have.IsZero() {
		w.have = []plumbing.Hash{have}
	}
	if err := fetch(ctx, opened, refs, w, store, s.MaxPack); err != nil {
		return nil, err
	}
	out := map[plumbing.Hash][]plumbing.Hash{}
	todo := []plumbing.Hash{c}
	for len(todo) > 0 && len(out) <= maxHistory {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, done := out[at]; done || store.HasEncodedObject(at) != nil {
			continue
		}
		commit, _, err := objects{store}.commit(at)
		if err != nil {
			return nil, err
		}
		out[at] = commit.ParentHashes
		todo = append(todo, commit.ParentHashes...)
	}
	return out, nil
}

func historyPath(dir string) string { return filepath.Join(dir, "history") }

func (h history) save(dir string) error {
	b := binary.BigEndian.AppendUint16(nil, map[bool]uint16{true: 1}[h.whole])
	b = append(b, h.last[:]...)
	for c := range h.ancestors {
		b = append(b, c[:]...)
	}
	return source.WriteChecked(historyPath(dir), historyMagic, b)
}

func loadHistory(dir string) (history, error) {
	h := history{ancestors: map[plumbing.Hash]bool{}}
	b, err := source.ReadChecked(historyPath(dir), historyMagic, 1<<30)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	if len(b) < 2+hashSize || (len(b)-2)%hashSize != 0 {
		return h, fmt.Errorf("%s is damaged: %d bytes", filepath.Join(dir, "history"), len(b))
	}
	h.whole = binary.BigEndian.Uint16(b) == 1
	copy(h.last[:], b[2:])
	for b = b[2+hashSize:]; len(b) > 0; b = b[hashSize:] {
		h.ancestors[plumbing.Hash(b[:hashSize])] = true
	}
	return h, nil
}
