package main

import (
	"errors"
	"fmt"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/internal/source/git"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// revisions are the two that a plan compares; an empty head is the directory
// as it is.
type revisions struct{ base, head string }

// sides loads both. Only what keeps a revision from being read is an error;
// what is wrong with its files is in its diagnostics.
func (a *app) sides(r revisions) (base, head cli.Side, err error) {
	repo, err := git.OpenLocal(a.Dir)
	if err != nil {
		return base, head, err
	}
	defer repo.Close() //nolint:errcheck // was read
	if base, err = a.side(repo, r.base); err != nil {
		return base, head, err
	}
	if r.head != "" {
		head, err = a.side(repo, r.head)
		return base, head, err
	}
	return base, a.WorkingTree(), nil
}

// head loads one revision, or the directory as it is when rev is "".
func (a *app) head(rev string) (cli.Side, error) {
	if rev == "" {
		return a.WorkingTree(), nil
	}
	repo, err := git.OpenLocal(a.Dir)
	if err != nil {
		return cli.Side{}, err
	}
	defer repo.Close() //nolint:errcheck // was read
	return a.side(repo, rev)
}

func (a *app) side(repo *git.Local, rev string) (cli.Side, error) {
	r, err := repo.Revision(rev)
	s := cli.Side{ID: short(r.ID), File: repo.Dir()}
	if errors.Is(err, git.ErrNothing) {
		s.Note = err.Error()
		return s, nil
	}
	if err != nil {
		return s, err
	}
	files := make([]hcl.File, len(r.Files))
	for i, f := range r.Files {
		files[i] = hcl.File{Name: f.Name, Bytes: f.Bytes}
	}
	s.File = files[0].Name
	s.Set, s.Diags = hcl.LoadFiles(files, a.LoadOptions())
	return s, nil
}

// short is as much of a hash as people read.
func short(hash string) string { return hash[:min(len(hash), 12)] }

// between plans from one revision to the other. A base that is broken, or
// declares nothing, is taken as nothing: all that head declares is then new.
// That is said, and is not an error: the change that repairs the base needs a
// plan too. A broken head has none.
func (a *app) between(r revisions, live string) (reconciler.Document, error) {
	base, head, err := a.sides(r)
	if err != nil {
		return reconciler.Document{}, err
	}
	doc, err := a.Document(head)
	if err != nil {
		return doc, err
	}
	doc.Base, doc.Head = base.String(), head.String()
	if base.Diags.HasErrors() {
		doc.Remarks = append(doc.Remarks, fmt.Sprintf("The base, %s, is broken (%v): it is taken to declare nothing, so everything is shown as new, and what is removed is not shown.", base, base.Diags.Err()))
	}
	if base.Note != "" {
		doc.Remarks = append(doc.Remarks, fmt.Sprintf("The base, %s, declares nothing here: %s.", base, base.Note))
	}
	if doc.Broken() {
		return doc, nil
	}
	var snap *reconciler.Snapshot
	if live != "" {
		if snap, err = readSnapshot(live); err != nil {
			return doc, err
		}
	} else if supposes(base.Set) || supposes(head.Set) {
		doc.Remarks = append(doc.Remarks, "Without a host the tables and functions that are declared are supposed to be there, and no others. With --live SNAPSHOT those of a host are taken.")
	}
	h := a.host(head.Set)
	doc.Plan, err = h.PlanBetween(base.Set, head.Set, snap)
	if err == nil {
		doc.Places = h.Places(doc.Plan)
	}
	return doc, err
}

// supposes tells whether what is planned for s depends on a database's tables.
func supposes(s specs.Set) bool {
	for _, p := range s.Projects {
		if p.Schema != nil {
			return true
		}
	}
	return false
}
