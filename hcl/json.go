package hcl

import (
	"encoding/json"

	"github.com/aicodesit/cordon/specs"
)

// FormatVersion is that of [Diagnostics.MarshalJSON]. The part before the
// dot changes when what was there means something else.
const FormatVersion = "1.0"

type jsonReport struct {
	FormatVersion string           `json:"format_version"`
	Valid         bool             `json:"valid"`
	ErrorCount    int              `json:"error_count"`
	WarningCount  int              `json:"warning_count"`
	Diagnostics   []jsonDiagnostic `json:"diagnostics"`
}

type jsonDiagnostic struct {
	Severity string       `json:"severity"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail"`
	Address  string       `json:"address,omitempty"`
	Range    *jsonRange   `json:"range,omitempty"`
	Snippet  *jsonSnippet `json:"snippet,omitempty"`
}

type jsonRange struct {
	Filename string  `json:"filename"`
	Start    jsonPos `json:"start"`
	End      jsonPos `json:"end"`
}

type jsonPos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// maxSnippet is the length in bytes of the longest line that is part of a report.
const maxSnippet = 1_000

// jsonSnippet is the source line. The offsets are bytes of Code.
type jsonSnippet struct {
	Code      string `json:"code"`
	StartLine int    `json:"start_line"`
	From      int    `json:"highlight_start_offset"`
	To        int    `json:"highlight_end_offset"`
}

// MarshalJSON returns the report of `cordon validate --json`: whether the
// files are valid, how many errors and warnings there are, and each with its
// range and source line.
func (ds Diagnostics) MarshalJSON() ([]byte, error) {
	report := jsonReport{
		FormatVersion: FormatVersion,
		Valid:         !ds.HasErrors(),
		ErrorCount:    ds.count(Error),
		WarningCount:  ds.count(Warning),
		Diagnostics:   make([]jsonDiagnostic, 0, len(ds)),
	}
	for _, d := range ds {
		report.Diagnostics = append(report.Diagnostics, jsonDiagnostic{
			Severity: d.Severity, Summary: d.Summary, Detail: d.Detail, Address: d.Address,
			Range: jsonRangeOf(d.Range), Snippet: d.snippet(),
		})
	}
	return json.Marshal(report)
}

func jsonRangeOf(r specs.Range) *jsonRange {
	if r == (specs.Range{}) {
		return nil
	}
	return &jsonRange{
		Filename: r.File,
		Start:    jsonPos{r.Line, r.Column, r.Byte},
		End:      jsonPos{r.EndLine, r.EndCol, r.EndBy},
	}
}

func (d Diagnostic) snippet() *jsonSnippet {
	if d.source == nil || d.Range.Line == 0 {
		return nil
	}
	line, start, ok := d.source.line(d.Range.Line)
	if !ok || len(line) > maxSnippet {
		return nil
	}
	from := clamp(d.Range.Byte-start, 0, len(line))
	return &jsonSnippet{Code: line, StartLine: d.Range.Line, From: from, To: clamp(d.Range.EndBy-start, from, len(line))}
}
