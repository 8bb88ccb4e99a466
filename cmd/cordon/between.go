package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/internal/source/git"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// revisions are the two that a plan compares; an empty head is the directory
// as it is.
type revisions struct{ base, head string }

// side is one of the two, loaded.
type side struct {
	id    string // short hash; "" is the directory as it is
	set   specs.Set
	diags hcl.Diagnostics
	note  string // why the set is empty, if it may be
	file  string // the first one, or the directory
}

func (s side) String() string {
	if s.id == "" {
		return "the working tree"
	}
	return s.id
}

// sides loads both. Only what keeps a revision from being read is an error;
// what is wrong with its files is in its diagnostics.
func (a *app) sides(r revisions) (base, head side, err error) {
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
	return base, a.workingTree(), nil
}

// head loads one revision, or the directory as it is when rev is "".
func (a *app) head(rev string) (side, error) {
	if rev == "" {
		return a.workingTree(), nil
	}
	repo, err := git.OpenLocal(a.Dir)
	if err != nil {
		return side{}, err
	}
	defer repo.Close() //nolint:errcheck // was read
	return a.side(repo, rev)
}

func (a *app) workingTree() side {
	s := side{file: filepath.Clean(a.Dir)}
	if names, _ := filepath.Glob(filepath.Join(s.file, "*.hcl")); len(names) > 0 {
		s.file = names[0]
	}
	s.set, s.diags = hcl.Load(a.Dir, a.options())
	return s
}

func (a *app) side(repo *git.Local, rev string) (side, error) {
	r, err := repo.Revision(rev)
	s := side{id: short(r.ID), file: repo.Dir()}
	if errors.Is(err, git.ErrNothing) {
		s.note = err.Error()
		return s, nil
	}
	if err != nil {
		return s, err
	}
	files := make([]hcl.File, len(r.Files))
	for i, f := range r.Files {
		files[i] = hcl.File{Name: f.Name, Bytes: f.Bytes}
	}
	s.file = files[0].Name
	s.set, s.diags = hcl.LoadFiles(files, a.options())
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
	doc, err := a.document(head)
	if err != nil {
		return doc, err
	}
	doc.Base, doc.Head = base.String(), head.String()
	if base.diags.HasErrors() {
		doc.Remarks = append(doc.Remarks, fmt.Sprintf("The base, %s, is broken (%v): it is taken to declare nothing, so everything is shown as new, and what is removed is not shown.", base, base.diags.Err()))
	}
	if base.note != "" {
		doc.Remarks = append(doc.Remarks, fmt.Sprintf("The base, %s, declares nothing here: %s.", base, base.note))
	}
	if doc.Broken() {
		return doc, nil
	}
	var snap *reconciler.Snapshot
	if live != "" {
		if snap, err = readSnapshot(live); err != nil {
			return doc, err
		}
	} else if supposes(base.set) || supposes(head.set) {
		doc.Remarks = append(doc.Remarks, "Without a host the tables and functions that are declared are supposed to be there, and no others. With --live SNAPSHOT those of a host are taken.")
	}
	h := a.host(head.set)
	doc.Plan, err = h.PlanBetween(base.set, head.set, snap)
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

// document begins with what is wrong with the files, which stderr is told
// in any case, with the lines that it is in.
func (a *app) document(s side) (reconciler.Document, error) {
	doc := reconciler.Document{Version: version, File: s.file}
	for _, d := range s.diags {
		doc.Problems = append(doc.Problems, reconciler.Problem{Error: d.Severity == hcl.Error, Summary: d.Summary, Detail: d.Detail, Block: d.Address, Range: d.Range})
	}
	err := s.diags.WriteText(a.stderr, a.color(a.stderr))
	if s.note != "" {
		doc.Problems = append(doc.Problems, reconciler.Problem{Error: true, Summary: s.note})
		fmt.Fprintf(a.stderr, "Error: %s\n", s.note)
	}
	return doc, err
}
