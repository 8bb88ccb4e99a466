package git

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/aicodesit/cordon/internal/source"
)

// target is what a ref stands for at the server now.
type target struct {
	name string        // whole name of the ref; the hash itself for a commit
	hash plumbing.Hash // of the commit, or of an annotated tag
}

// resolve finds the ref. A name that is a branch and a tag is an error: who
// may make tags must not take the place of a branch.
func resolve(ref string, refs *packp.AdvRefs) (target, error) {
	switch {
	case ref == "":
		if refs.Head == nil {
			return target{}, fmt.Errorf("the server has no HEAD: name a branch or a tag; it has %s", some(refs))
		}
		return target{"HEAD", *refs.Head}, nil
	case plumbing.IsHash(ref):
		return target{ref, plumbing.NewHash(ref)}, nil
	}
	var found []target
	for _, name := range candidates(ref) {
		if h, ok := refs.References[name]; ok {
			found = append(found, target{name, h})
		}
	}
	switch len(found) {
	case 0:
		return target{}, fmt.Errorf("there is no branch or tag %q; the server has %s", ref, some(refs))
	case 1:
		return found[0], nil
	}
	return target{}, fmt.Errorf("%q is a branch and a tag: %w; say refs/heads/%s or refs/tags/%s", ref, source.ErrRefused, ref, ref)
}

func candidates(ref string) []string {
	if strings.HasPrefix(ref, "refs/") {
		return []string{ref}
	}
	return []string{"refs/heads/" + ref, "refs/tags/" + ref}
}

// some names a few of the server's references, for an error.
func some(refs *packp.AdvRefs) string {
	const few = 8
	var names []string
	for name := range refs.References {
		if short, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			names = append(names, short)
		} else if short, ok := strings.CutPrefix(name, "refs/tags/"); ok {
			names = append(names, short)
		}
	}
	slices.Sort(names)
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

// wanted is what to ask the server for. A commit that is not at the end of a
// ref is given out by some servers only; of the others the branches are
// fetched until it is there.
func wanted(t target, refs *packp.AdvRefs) (want []plumbing.Hash, depth int) {
	direct := refs.Head != nil && *refs.Head == t.hash
	for _, h := range refs.References {
		direct = direct || h == t.hash
	}
	for _, h := range refs.Peeled {
		direct = direct || h == t.hash
	}
	if direct || refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
		return []plumbing.Hash{t.hash}, 1
	}
	for name, h := range refs.References {
		if strings.HasPrefix(name, "refs/heads/") {
			want = append(want, h)
		}
	}
	return want, maxHistory
}
