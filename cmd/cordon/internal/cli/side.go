package cli

import (
	"fmt"
	"path/filepath"

	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Side is one of the two, loaded.
type Side struct {
	ID    string // short hash; "" is the directory as it is
	Set   specs.Set
	Diags hcl.Diagnostics
	Note  string // why the set is empty, if it may be
	File  string // the first one, or the directory
}

func (s Side) String() string {
	if s.ID == "" {
		return "the working tree"
	}
	return s.ID
}

func (a *App) WorkingTree() Side {
	s := Side{File: filepath.Clean(a.Dir)}
	if names, _ := filepath.Glob(filepath.Join(s.File, "*.hcl")); len(names) > 0 {
		s.File = names[0]
	}
	s.Set, s.Diags = hcl.Load(a.Dir, a.LoadOptions())
	return s
}

// document begins with what is wrong with the files, which stderr is told
// in any case, with the lines that it is in.
func (a *App) Document(s Side) (reconciler.Document, error) {
	doc := reconciler.Document{Version: a.Version, File: s.File}
	for _, d := range s.Diags {
		doc.Problems = append(doc.Problems, reconciler.Problem{Error: d.Severity == hcl.Error, Summary: d.Summary, Detail: d.Detail, Block: d.Address, Range: d.Range})
	}
	err := s.Diags.WriteText(a.Stderr, a.Color(a.Stderr))
	if s.Note != "" {
		doc.Problems = append(doc.Problems, reconciler.Problem{Error: true, Summary: s.Note})
		fmt.Fprintf(a.Stderr, "Error: %s\n", s.Note)
	}
	return doc, err
}
