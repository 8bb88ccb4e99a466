package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of go test -json (go doc test2json, go help buildjson).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output and build-fail
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// Tests slower than this are named at the end, in seconds.
const slow = 10

// Of what was said of a failure, so many last lines are said again at the end: who
// is shown the end only is to see why.
const again = 40

type tally struct {
	w                       io.Writer
	passed, failed, skipped int
	output                  map[string]*strings.Builder // what a running test, or a package, has said
	failedIn                map[string]bool             // packages with a failed test
	slow                    []event
	again                   []string // ends of what was said of failures
}

func newTally(w io.Writer) *tally {
	return &tally{w: w, output: map[string]*strings.Builder{}, failedIn: map[string]bool{}}
}

func (t *tally) add(e event) {
	switch e.Action {
	case "output", "build-output":
		t.said(e).WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.endPackage(e)
			return
		}
		t.endTest(e)
	}
}

func (t *tally) said(e event) *strings.Builder {
	key := e.Package + e.ImportPath + "\x00" + e.Test
	if t.output[key] == nil {
		t.output[key] = new(strings.Builder)
	}
	return t.output[key]
}

func (t *tally) take(e event) string {
	key := e.Package + e.ImportPath + "\x00" + e.Test
	defer delete(t.output, key)
	return t.said(e).String()
}

func (t *tally) endTest(e event) {
	said := t.take(e)
	switch e.Action {
	case "pass":
		t.passed++
	case "skip":
		t.skipped++
		fmt.Fprint(t.w, said)
	case "fail":
		t.failed++
		t.failedIn[e.Package] = true
		fmt.Fprintf(t.w, "--- %s\n%s", e.Package, said)
		t.sayAgain(e.Package, said)
	}
	if e.Elapsed >= slow && !strings.Contains(e.Test, "/") {
		t.slow = append(t.slow, e)
	}
}

func (t *tally) endPackage(e event) {
	said := t.take(e)
	switch e.Action {
	case "pass":
		fmt.Fprintf(t.w, "ok  \t%s\t%.1fs\n", e.Package, e.Elapsed)
	case "skip":
		fmt.Fprintf(t.w, "?   \t%s\t[no test files]\n", e.Package)
	case "fail":
		if e.FailedBuild != "" {
			said = t.take(event{ImportPath: e.FailedBuild}) + said
		}
		// A package that did not build, or died between its tests, has no
		// failed test to count.
		if !t.failedIn[e.Package] {
			said = t.unfinished(e.Package) + said
			t.failed++
			t.sayAgain(e.Package, said)
		}
		fmt.Fprintf(t.w, "%sFAIL\t%s\t%.1fs\n", said, e.Package, e.Elapsed)
	}
}

func (t *tally) sayAgain(pkg, said string) {
	lines := strings.SplitAfter(said, "\n")
	t.again = append(t.again, fmt.Sprintf("--- %s\n%s", pkg, strings.Join(lines[max(0, len(lines)-again-1):], "")))
}

// unfinished returns what tests of a package said that never ended.
func (t *tally) unfinished(pkg string) string {
	var all strings.Builder
	for key, said := range t.output {
		if strings.HasPrefix(key, pkg+"\x00") {
			all.WriteString(said.String())
			delete(t.output, key)
		}
	}
	return all.String()
}

func (t *tally) ok() bool { return t.failed == 0 && t.passed > 0 }

func (t *tally) summary() {
	slices.SortFunc(t.slow, func(a, b event) int { return int(b.Elapsed - a.Elapsed) })
	for _, e := range t.slow {
		fmt.Fprintf(t.w, "slow: %5.1fs %s %s\n", e.Elapsed, e.Package, e.Test)
	}
	for _, said := range t.again {
		fmt.Fprint(t.w, said)
	}
	if t.passed+t.failed == 0 {
		fmt.Fprintln(t.w, "no test was run")
	}
	fmt.Fprintf(t.w, "%d passed, %d failed", t.passed, t.failed)
	if t.skipped > 0 {
		fmt.Fprintf(t.w, ", %d skipped", t.skipped)
	}
	fmt.Fprintln(t.w)
}
