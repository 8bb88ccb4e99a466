package git

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// minPrefix is from how many digits on git takes a shortened hash.
const minPrefix = 4

// resolve finds the commit that a revision names, see gitrevisions(7). What is
// not understood is refused rather than passed over.
func (l *Local) resolve(rev string) (plumbing.Hash, error) {
	end := strings.IndexAny(rev, "~^")
	if end < 0 {
		end = len(rev)
	}
	name, steps := rev[:end], rev[end:]
	if name == "@" {
		name = "HEAD"
	}
	if name == "" || strings.ContainsAny(name, ":{") || strings.HasPrefix(name, "-") {
		return plumbing.ZeroHash, errors.New("not understood: name a branch, a tag or a commit's hash; ~N and ^N may follow")
	}
	h, err := l.named(name)
	if err != nil {
		return h, err
	}
	if h, err = l.peel(h); err != nil {
		return h, err
	}
	return l.walk(h, steps)
}

// named looks a name up in git's order: whole hash, references, shortened
// hash.
func (l *Local) named(name string) (plumbing.Hash, error) {
	if plumbing.IsHash(name) {
		return plumbing.NewHash(name), nil
	}
	for _, rule := range plumbing.RefRevParseRules {
		ref := plumbing.ReferenceName(fmt.Sprintf(rule, name))
		special := strings.Trim(string(ref), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
		if !special && (!strings.HasPrefix(string(ref), "refs/") || ref.Validate() != nil) {
			continue // else it would be any file of the repository
		}
		found, err := storer.ResolveReference(l.store, ref)
		if err == nil && found.Type() == plumbing.HashReference {
			return found.Hash(), nil
		}
	}
	return l.shortened(name)
}

// shortened finds the one commit or tag whose hash begins with prefix.
func (l *Local) shortened(prefix string) (plumbing.Hash, error) {
	even := prefix[:len(prefix)&^1]
	b, err := hex.DecodeString(even)
	if err != nil || len(prefix) < minPrefix || len(prefix) > 40 || strings.Trim(strings.ToLower(prefix), "0123456789abcdef") != "" {
		return plumbing.ZeroHash, plumbing.ErrReferenceNotFound
	}
	hashes, err := l.store.HashesWithPrefix(b)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	found := map[plumbing.Hash]bool{}
	for _, h := range hashes {
		commit, err := l.peel(h)
		if err == nil && strings.HasPrefix(h.String(), strings.ToLower(prefix)) {
			found[commit] = true
		}
	}
	if len(found) > 1 {
		return plumbing.ZeroHash, fmt.Errorf("%d commits begin so: say more of the hash", len(found))
	}
	for h := range found {
		return h, nil
	}
	return plumbing.ZeroHash, plumbing.ErrReferenceNotFound
}

// peel goes from annotated tags to their commit.
func (l *Local) peel(h plumbing.Hash) (plumbing.Hash, error) {
	o := objects{l.store}
	for range maxLinks {
		if tag, _, err := o.tag(h); err == nil {
			h = tag.Target
			continue
		}
		_, _, err := o.commit(h)
		return h, err
	}
	return h, errors.New("a tag of a tag of a tag")
}

var step = regexp.MustCompile(`^([~^])([0-9]{0,6})`)

// walk follows ~N, N first parents up, and ^N, to the Nth parent.
func (l *Local) walk(h plumbing.Hash, steps string) (plumbing.Hash, error) {
	for steps != "" {
		m := step.FindStringSubmatch(steps)
		if m == nil {
			return h, fmt.Errorf("%q is not understood: ~N and ^N may follow a name", steps)
		}
		steps = steps[len(m[0]):]
		n := 1
		if m[2] != "" {
			n, _ = strconv.Atoi(m[2]) // digits
		}
		times, parent := n, 1
		if m[1] == "^" {
			times, parent = min(n, 1), n
		}
		for range times {
			c, _, err := objects{l.store}.commit(h)
			if err != nil {
				return h, err
			}
			if len(c.ParentHashes) < parent {
				return h, fmt.Errorf("%s has %d parents", h, len(c.ParentHashes))
			}
			h = c.ParentHashes[parent-1]
		}
	}
	_, _, err := objects{l.store}.commit(h)
	return h, err
}
