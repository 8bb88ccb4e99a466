package git

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// errDamaged is for caches that lack something, or have something else.
var errDamaged = errors.New("the repository is damaged")

const maxObject = 32 << 20 // bytes of a commit, tag or tree

// objects reads from a cache that may be damaged: nothing is returned that
// has not the hash it was asked for by.
type objects struct{ storer.EncodedObjectStorer }

// get returns an object's bytes; those of one larger than limit are not read.
func (o objects) get(kind plumbing.ObjectType, h plumbing.Hash, limit int64) (_ []byte, err error) {
	defer func() { // a damaged pack must not end the daemon
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s %s: %v", errDamaged, kind, h, p)
		}
	}()
	size, err := o.EncodedObjectSize(h)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w", errDamaged, kind, h, err)
	}
	if size > limit {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", size, limit)
	}
	e, err := o.EncodedObject(kind, h)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w", errDamaged, kind, h, err)
	}
	b, err := contents(e)
	if err != nil || plumbing.ComputeHash(kind, b) != h {
		return nil, fmt.Errorf("%w: %s %s: %w", errDamaged, kind, h, errors.Join(errors.New("not what it should be"), err))
	}
	return b, nil
}

func contents(e plumbing.EncodedObject) ([]byte, error) {
	r, err := e.Reader()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

func memory(kind plumbing.ObjectType, b []byte) plumbing.EncodedObject {
	m := &plumbing.MemoryObject{}
	m.SetType(kind)
	_, _ = m.Write(b) // never fails
	return m
}

func (o objects) tree(h plumbing.Hash) (*object.Tree, error) {
	b, err := o.get(plumbing.TreeObject, h, maxObject)
	if err != nil {
		return nil, err
	}
	t := &object.Tree{}
	if err := t.Decode(memory(plumbing.TreeObject, b)); err != nil {
		return nil, fmt.Errorf("tree %s: %w", h, err)
	}
	return t, nil
}

func (o objects) commit(h plumbing.Hash) (*object.Commit, []byte, error) {
	b, err := o.get(plumbing.CommitObject, h, maxObject)
	if err != nil {
		return nil, nil, err
	}
	c := &object.Commit{}
	if err := c.Decode(memory(plumbing.CommitObject, b)); err != nil {
		return nil, nil, fmt.Errorf("commit %s: %w", h, err)
	}
	return c, b, nil
}
