package reconciler

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	File    string       `xml:"file,attr,omitempty"`
	Failure *junitReason `xml:"failure"`
	Error   *junitReason `xml:"error"`
	Out     string       `xml:"system-out,omitempty"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// writeJUnit writes a test for the files, one more for each problem with
// them, and one for each part of the plan. Errors in the files fail; a part
// that could not be read is an error. A part that changes passes, with its
// changes as its output: that something changes is what a pull request is for.
func (d Document) writeJUnit(w io.Writer) error {
	f, err := d.file()
	if err != nil {
		return err
	}
	suite := junitSuite{Name: "cordon"}
	if len(d.Problems) == 0 {
		suite.Cases = append(suite.Cases, junitCase{Class: "files", Name: "the files are valid"})
	}
	for _, p := range d.Problems {
		c := junitCase{Class: "files", Name: strings.TrimPrefix(p.Place()+": "+p.Summary, ": "), File: p.Range.File}
		if p.Error {
			c.Failure = &junitReason{Message: p.Summary, Type: "error", Text: p.Place() + "\n" + p.Detail}
		} else {
			c.Out = p.Detail
		}
		suite.Cases = append(suite.Cases, c)
	}
	for _, part := range d.parts() {
		if !slices.ContainsFunc(f.Failures, func(x FileFailure) bool { return x.Enforcer == part }) {
			suite.Cases = append(suite.Cases, junitCase{Class: "plan", Name: part, Out: partText(f, part)})
		}
	}
	for _, x := range f.Failures {
		suite.Cases = append(suite.Cases, junitCase{Class: "plan", Name: x.Enforcer, Error: &junitReason{Message: "could not be read, so nothing of it is planned", Type: "unreadable", Text: x.Error}})
	}
	for _, c := range suite.Cases {
		suite.Tests++
		if c.Failure != nil {
			suite.Failures++
		}
		if c.Error != nil {
			suite.Errors++
		}
	}
	out, err := xml.MarshalIndent(junitSuites{Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, out)
	return err
}

// partText is what the plan says of a part.
func partText(f *PlanFile, part string) string {
	var b strings.Builder
	for _, n := range f.Notes {
		if n.Addr.Enforcer() == part {
			fmt.Fprintf(&b, "%s: %s\n", n.Addr, n.Text)
		}
	}
	for _, c := range f.Changes {
		if c.Address.Enforcer() != part {
			continue
		}
		fmt.Fprintf(&b, "%s %s\n", Style{}.Sign(c.Action), c.Address)
		for _, line := range diffLines(c) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	return b.String()
}
