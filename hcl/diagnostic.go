package hcl

import (
	"fmt"
	"slices"
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"

	"github.com/aicodesit/cordon/specs"
)

// Severities of a [Diagnostic].
const (
	Error   = "error"
	Warning = "warning"
)

// Diagnostic is something to say about the files, at a place in them.
type Diagnostic struct {
	Severity string // [Error] or [Warning]
	Summary  string // what is wrong, in one line
	Detail   string // what would be right; may be ""
	Address  string // block that it is in, "network.llm-only"; "" is none
	Range    specs.Range

	source  *source // file that Range lies in; nil when it could not be read
	private bool    // what stands there must not be shown
}

// Diagnostics are sorted by file and place.
type Diagnostics []Diagnostic

// HasErrors tells whether what was loaded must not be used.
func (ds Diagnostics) HasErrors() bool { return ds.count(Error) > 0 }

func (ds Diagnostics) count(severity string) int {
	n := 0
	for _, d := range ds {
		if d.Severity == severity {
			n++
		}
	}
	return n
}

// Err returns nil when there is no error, else one that names the first and
// counts the others.
func (ds Diagnostics) Err() error {
	n := ds.count(Error)
	if n == 0 {
		return nil
	}
	first := ds[slices.IndexFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })]
	if n == 1 {
		return fmt.Errorf("%s%s", first.place(), first.Summary)
	}
	return fmt.Errorf("%s%s (and %d more)", first.place(), first.Summary, n-1)
}

// place is "file:line:column: ", or what of it is known.
func (d Diagnostic) place() string {
	switch {
	case d.Range.File == "":
		return ""
	case d.Range.Line == 0:
		return d.Range.File + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", d.Range.File, d.Range.Line, d.Range.Column)
}

// reporter gathers diagnostics; what is said twice about one place (a block
// that for_each or extends reads many times) is kept once.
type reporter struct {
	list    Diagnostics
	seen    map[reportKey]bool
	dropped int // how many were too many
}

// maxReported bounds how many diagnostics are kept of one load: a file that
// is not HCL at all can have a million.
const maxReported = 1_000

type reportKey struct {
	file            string
	byte            int
	summary, detail string
}

func (r *reporter) report(d Diagnostic) {
	key := reportKey{d.Range.File, d.Range.Byte, d.Summary, d.Detail}
	if r.seen[key] {
		return
	}
	if len(r.list) >= maxReported {
		r.dropped++
		return
	}
	if r.seen == nil {
		r.seen = map[reportKey]bool{}
	}
	r.seen[key] = true
	r.list = append(r.list, d)
}

// error reports an error at a place in the files.
func (r *reporter) error(at hcllib.Range, summary, detail string) {
	r.report(Diagnostic{Severity: Error, Summary: summary, Detail: detail, Range: rangeOf(at)})
}

// privately reports an error in a value that is not to be shown, nor the line
// that it stands on.
func (r *reporter) privately(at hcllib.Range, summary, detail string) {
	r.report(Diagnostic{Severity: Error, Summary: summary, Detail: detail, Range: rangeOf(at), private: true})
}

// library reports what the HCL library found.
func (r *reporter) library(diags hcllib.Diagnostics) {
	for _, d := range diags {
		severity := Error
		if d.Severity == hcllib.DiagWarning {
			severity = Warning
		}
		var at specs.Range
		if d.Subject != nil {
			at = rangeOf(*d.Subject)
		}
		r.report(Diagnostic{Severity: severity, Summary: lowerFirst(d.Summary), Detail: d.Detail, Range: at})
	}
}

// finish sorts what was reported by place, and ties each to its source and
// to the block that it lies in.
func (r *reporter) finish(sources []*source) Diagnostics {
	byName := map[string]*source{}
	for _, s := range sources {
		byName[s.name] = s
	}
	for i := range r.list {
		d := &r.list[i]
		d.source = byName[d.Range.File]
		if d.Address == "" && d.source != nil {
			d.Address = d.source.addressAt(d.Range.Byte)
		}
		if d.private {
			d.source = nil
		}
	}
	slices.SortStableFunc(r.list, func(a, b Diagnostic) int {
		if c := strings.Compare(a.Range.File, b.Range.File); c != 0 {
			return c
		}
		return a.Range.Byte - b.Range.Byte
	})
	if r.dropped > 0 {
		r.list = append(r.list, Diagnostic{Severity: Error, Summary: fmt.Sprintf("%d more errors", r.dropped), Detail: fmt.Sprintf("Only the first %d are told.", maxReported)})
	}
	return r.list
}

func rangeOf(r hcllib.Range) specs.Range {
	return specs.Range{
		File: r.Filename,
		Line: r.Start.Line, Column: r.Start.Column, Byte: r.Start.Byte,
		EndLine: r.End.Line, EndCol: r.End.Column, EndBy: r.End.Byte,
	}
}

// lowerFirst makes the library's sentences look like cordon's.
func lowerFirst(s string) string {
	if len(s) > 1 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'a' && s[1] <= 'z' {
		return string(s[0]+'a'-'A') + s[1:]
	}
	return s
}

// Errors are the errors alone, each in a line: where it is and what is wrong.
func (ds Diagnostics) Errors() []string {
	var out []string
	for _, d := range ds {
		if d.Severity == Error {
			out = append(out, d.place()+d.Summary)
		}
	}
	return out
}
