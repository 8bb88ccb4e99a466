package reconciler

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/aicodesit/cordon/specs"
)

// Document is a plan, or what is wrong with the files that kept one from
// being made, as it is shown: on a terminal, in a comment on a pull request,
// in a list of tests or of findings.
type Document struct {
	Plan     *Plan     // nil: there is none
	Problems []Problem // with the files
	Remarks  []string  // about how the plan was made
	Version  string    // of cordon

	// Base and Head name the revisions that a plan compares. Where Base is ""
	// it compares the files with what is live.
	Base, Head string

	Places map[Addr]specs.Range // where changes are declared, see [Reconciler.Places]
	File   string               // what to point to for all else
}

// Problem is something to say about the files.
type Problem struct {
	Error   bool // else it is a warning
	Summary string
	Detail  string
	Block   string // that it is in; "" is none
	Range   specs.Range
}

// Broken tells whether the files have errors.
func (d Document) Broken() bool {
	return slices.ContainsFunc(d.Problems, func(p Problem) bool { return p.Error })
}

// Place is "file:line:column", or what of it is known.
func (p Problem) Place() string {
	if p.Range.Line == 0 {
		return p.Range.File
	}
	return fmt.Sprintf("%s:%d:%d", p.Range.File, p.Range.Line, p.Range.Column)
}

// Format is how a Document is written.
type Format string

// The formats.
const (
	Text     Format = "text"     // for terminals
	JSON     Format = "json"     // see [PlanFile]
	Markdown Format = "markdown" // for comments on pull requests
	JUnit    Format = "junit"    // for lists of tests
	SARIF    Format = "sarif"    // for lists of findings, version 2.1.0
)

// Formats are all of them.
func Formats() []Format { return []Format{Text, JSON, Markdown, JUnit, SARIF} }

// Write writes d as f; style is for Text.
func (d Document) Write(w io.Writer, f Format, style Style) error {
	switch f {
	case Text:
		return d.writeText(w, style)
	case JSON:
		return d.writeJSON(w)
	case Markdown:
		return d.writeMarkdown(w)
	case JUnit:
		return d.writeJUnit(w)
	case SARIF:
		return d.writeSARIF(w)
	}
	return fmt.Errorf("there is no format %q", f)
}

// file is the plan in the form that all formats show it in; without one it
// has nothing in it.
func (d Document) file() (*PlanFile, error) {
	f := &PlanFile{FormatVersion: PlanVersion, Changes: []FileChange{}}
	if d.Plan != nil {
		var err error
		if f, err = d.Plan.File(); err != nil {
			return nil, err
		}
	}
	f.Base, f.Head, f.Remarks = d.Base, d.Head, d.Remarks
	for _, p := range d.Problems {
		severity := "warning"
		if p.Error {
			severity = "error"
		}
		f.Problems = append(f.Problems, FileProblem{severity, p.Place(), p.Summary, p.Detail, p.Block})
	}
	return f, nil
}

func (d Document) writeJSON(w io.Writer) error {
	f, err := d.file()
	if err != nil {
		return err
	}
	return encode(w, f)
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// same says of an empty plan what there is no difference between.
func (d Document) same() string {
	if d.Base != "" {
		return fmt.Sprintf("%s and %s declare the same.", d.Base, d.Head)
	}
	return "Live state is what the files declare."
}

// headline is the plan in one line.
func (d Document) headline() string {
	switch {
	case d.Plan == nil && d.Broken():
		return "the files have errors"
	case d.Plan == nil:
		return "the files are valid"
	case d.Plan.Empty():
		return "no changes"
	case len(d.Plan.Changes) == 0:
		return "incomplete"
	}
	return d.Plan.Summary().String()
}

// parts are the names of the enforcers that the plan is about, sorted.
func (d Document) parts() []string {
	seen := map[string]bool{}
	if d.Plan != nil {
		for _, r := range slices.Concat(d.Plan.Desired, d.Plan.Live) {
			seen[r.Addr().Enforcer()] = true
		}
		for _, c := range d.Plan.Changes {
			seen[c.Addr().Enforcer()] = true
		}
	}
	var out []string
	for name := range seen {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
