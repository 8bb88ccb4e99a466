package git

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/aicodesit/cordon/internal/source"
	"github.com/aicodesit/cordon/internal/source/signature"
)

// trusted verifies the revision's signature by today's keys, if one is needed,
// and that what is signed is this revision.
func (s *Source) trusted(r source.Revision) (signer string, err error) {
	if s.Verify == VerifyNothing {
		return "", nil
	}
	if len(r.Signed) == 0 {
		return "", fmt.Errorf("%w: %s is not an annotated tag, so it can't be signed", source.ErrRefused, r.Ref)
	}
	keys, err := s.Keys()
	if err != nil {
		return "", err
	}
	kind := signature.Commit
	if s.Verify == VerifyTag {
		kind = signature.Tag
	}
	if err := about(kind, r); err != nil {
		return "", fmt.Errorf("%w: %w", source.ErrRefused, err)
	}
	signer, err = keys.Verify(kind, r.Signed)
	if err != nil {
		return "", fmt.Errorf("%w: the %s of %s: %w", source.ErrRefused, kind, r.ID, err)
	}
	return signer, nil
}

// about checks that a signed object stands for the revision: the commit by its
// hash, the tag by what it names. Signed tags can't be passed off as others.
func about(kind signature.Kind, r source.Revision) error {
	if kind == signature.Commit {
		if plumbing.ComputeHash(plumbing.CommitObject, r.Signed).String() != r.ID {
			return errors.New("what is signed is another commit")
		}
		return nil
	}
	name := strings.TrimPrefix(r.Ref, "refs/tags/")
	if !bytes.HasPrefix(r.Signed, fmt.Appendf(nil, "object %s\ntype commit\ntag %s\n", r.ID, name)) {
		return fmt.Errorf("what is signed is not the tag %s of commit %s", name, r.ID)
	}
	return nil
}
