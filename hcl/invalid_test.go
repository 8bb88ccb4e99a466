package hcl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

// Each line of testdata/invalid/*.hcl that is wrong ends in "# ERROR: TEXT",
// once for each error: TEXT is part of "SUMMARY. DETAIL". All errors must be
// marked, and all marks be errors.
func TestInvalid(t *testing.T) {
	names, err := filepath.Glob("testdata/invalid/*.hcl")
	if err != nil || len(names) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			set, diags := hcl.LoadFiles([]hcl.File{{Name: name, Bytes: src}}, hcl.Options{})
			if !diags.HasErrors() || len(set.Networks)+len(set.Projects)+len(set.Sandboxes) != 0 {
				t.Error("a Set came out in spite of errors")
			}
			compareMarks(t, string(src), diags)
		})
	}
}

func compareMarks(t *testing.T, src string, diags hcl.Diagnostics) {
	t.Helper()
	got := map[int][]string{}
	for i, d := range diags {
		got[d.Range.Line] = append(got[d.Range.Line], d.Summary+". "+d.Detail)
		if i > 0 && diags[i-1].Range.Byte > d.Range.Byte {
			t.Errorf("not in the order of the file: line %d after %d", d.Range.Line, diags[i-1].Range.Line)
		}
	}
	for i, line := range strings.Split(src, "\n") {
		marks := strings.Split(line, "# ERROR: ")[1:]
		for _, mark := range marks {
			take(t, got, i+1, strings.TrimSpace(mark))
		}
	}
	for line, rest := range got {
		for _, text := range rest {
			t.Errorf("line %d: unexpected: %s", line, text)
		}
	}
}

// take removes the message that has mark from those of a line.
func take(t *testing.T, got map[int][]string, line int, mark string) {
	t.Helper()
	for i, text := range got[line] {
		if strings.Contains(text, mark) {
			got[line] = append(got[line][:i], got[line][i+1:]...)
			return
		}
	}
	t.Errorf("line %d: no error has %q; there are:\n%s", line, mark, fmt.Sprint(strings.Join(got[line], "\n")))
}
