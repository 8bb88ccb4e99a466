package reconciler

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// What of SARIF 2.1.0 is used; the names are the standard's.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string       `json:"id"`
		Short   sarifMessage `json:"shortDescription"`
		Default sarifLevel   `json:"defaultConfiguration"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifMessage      `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
		EndLine     int `json:"endLine,omitempty"`
		EndColumn   int `json:"endColumn,omitempty"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
	}
)

// The rules, in the order that results count them.
const (
	ruleError = iota
	ruleWarning
	ruleUnreadable
	ruleAccess
	ruleNote
	ruleChange
	ruleNotEnforced
)

func sarifRules() []sarifRule {
	rule := func(id, level, text string) sarifRule {
		return sarifRule{ID: id, Short: sarifMessage{text}, Default: sarifLevel{level}}
	}
	return []sarifRule{
		ruleError:       rule("invalid", "error", "The files can't be used as they are."),
		ruleWarning:     rule("questionable", "warning", "The files may not say what is meant."),
		ruleUnreadable:  rule("unreadable", "error", "A part could not be read, so nothing of it is planned."),
		ruleAccess:      rule("access", "warning", "Someone gains or loses access."),
		ruleNote:        rule("note", "note", "Something declared has an effect that may not be expected."),
		ruleChange:      rule("change", "note", "Something is added, changed or removed."),
		ruleNotEnforced: rule("not-enforced", "warning", "Something is declared that this build does not enforce."),
	}
}

func (d Document) writeSARIF(w io.Writer) error {
	f, err := d.file()
	if err != nil {
		return err
	}
	rules := sarifRules()
	results := []sarifResult{}
	add := func(rule int, text, name string, at specs.Range) {
		r := sarifResult{RuleID: rules[rule].ID, RuleIndex: rule, Level: rules[rule].Default.Level, Message: sarifMessage{visible(text)}}
		if at.File == "" {
			at = specs.Range{File: cmp.Or(d.File, "."), Line: 1} // readers want a place for everything
		}
		r.Locations = []sarifLocation{location(at, name)}
		if name != "" {
			r.Fingerprints = map[string]string{"cordon/v1": rules[rule].ID + " " + r.Message.Text}
		}
		results = append(results, r)
	}
	for _, p := range d.Problems {
		rule := ruleWarning
		if p.Error {
			rule = ruleError
		}
		add(rule, strings.TrimSuffix(p.Summary+": "+p.Detail, ": "), p.Block, p.Range)
	}
	for _, x := range f.Failures {
		add(ruleUnreadable, x.Enforcer+" could not be read: "+x.Error, x.Enforcer, specs.Range{})
	}
	for _, n := range f.Notes {
		rule := ruleNote
		if n.Effect {
			rule = ruleAccess
		}
		add(rule, fmt.Sprintf("%s: %s", n.Addr, n.Text), string(n.Addr), d.Places[n.Addr])
	}
	for _, c := range f.Changes {
		add(ruleChange, fmt.Sprintf("%s %s", c.Action, c.Address), string(c.Address), d.Places[c.Address])
	}
	for _, name := range f.NotEnforced {
		add(ruleNotEnforced, name+" is declared, and not enforced by this build.", name, d.Places[declaredAddr(name)])
	}
	return encode(w, sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{
			Tool:       sarifTool{sarifDriver{Name: "cordon", Version: d.Version, InformationURI: "https://github.com/aicodesit/cordon", Rules: rules}},
			ColumnKind: "unicodeCodePoints", Results: results,
		}},
	})
}

func location(at specs.Range, name string) sarifLocation {
	l := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{fileURI(at.File)}}}
	if at.Line > 0 {
		l.Physical.Region = &sarifRegion{StartLine: at.Line, StartColumn: at.Column}
		if at.EndLine > at.Line || at.EndLine == at.Line && at.EndCol > at.Column {
			l.Physical.Region.EndLine, l.Physical.Region.EndColumn = at.EndLine, at.EndCol
		}
	}
	if name != "" {
		l.Logical = []sarifLogical{{visible(name)}}
	}
	return l
}

// fileURI is relative where the name is: to the repository, as readers take
// it.
func fileURI(name string) string {
	u := url.URL{Path: filepath.ToSlash(name)}
	if filepath.IsAbs(name) {
		u.Scheme = "file"
	}
	return u.String()
}
