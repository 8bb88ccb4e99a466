package hcl_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/hcl/format"
)

// testdata/full.hcl gives every attribute of the language a value that is
// not its default. What is left out must make another Set, or an error: an
// attribute that is not read would be one that is silently ignored.
func TestEveryAttributeCounts(t *testing.T) {
	src, err := os.ReadFile("testdata/full.hcl")
	if err != nil {
		t.Fatal(err)
	}
	whole := mustLoad(t, hcl.Options{}, "full.hcl", string(src))
	lines := strings.Split(string(src), "\n")
	attribute := regexp.MustCompile(`^ *([a-z_]+) *= `)
	for i, line := range lines {
		m := attribute.FindStringSubmatch(line)
		if m == nil || strings.HasSuffix(line, "# no effect") {
			continue
		}
		without := strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n")
		set, diags := hcl.LoadFiles(filesOf("full.hcl", without), hcl.Options{})
		if !diags.HasErrors() && set.Digest() == whole.Digest() {
			t.Errorf("line %d has no effect: %s", i+1, line)
		}
	}
}

func TestFullHasEveryWord(t *testing.T) {
	src, err := os.ReadFile("testdata/full.hcl")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range hcl.SchemaWords() {
		if !regexp.MustCompile(`\b` + w.Name + `\b`).Match(src) {
			t.Errorf("testdata/full.hcl lacks %s of %s", w.Name, w.Block)
		}
	}
}

// LANGUAGE.md has a section for each block, with a line for each of its
// attributes and the blocks within.
func TestLanguageIsDocumented(t *testing.T) {
	b, err := os.ReadFile("LANGUAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(b), "\n## ")[1:] {
		title, rest, _ := strings.Cut(s, "\n")
		sections[title] = rest
	}
	for _, w := range hcl.SchemaWords() {
		section, ok := sections[w.Block]
		if !ok {
			t.Errorf("no section %q", w.Block)
		}
		if !strings.Contains(section, "| `"+w.Name+"`") {
			t.Errorf("section %q has no line for %s", w.Block, w.Name)
		}
	}
	for _, f := range hcl.FunctionNames() {
		if !strings.Contains(string(b), "`"+f+"`") {
			t.Errorf("the function %s is not documented", f)
		}
	}
}

// The examples of the documentation hold.
func TestLanguageExamples(t *testing.T) {
	b, err := os.ReadFile("LANGUAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllSubmatch(b, -1)
	if len(blocks) == 0 {
		t.Fatal("no examples")
	}
	for _, m := range blocks {
		mustLoad(t, hcl.Options{}, "LANGUAGE.md", string(m[1]))
		if formatted, diags := format.Source("LANGUAGE.md", m[1]); diags.HasErrors() || string(formatted) != string(m[1]) {
			t.Errorf("not formatted:\n%s", m[1])
		}
	}
}
