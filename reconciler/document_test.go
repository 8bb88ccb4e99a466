package reconciler

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

func sampleDocument() Document {
	p := samplePlan()
	p.Notes = append(p.Notes, Note{Addr: "postgres.table.main.shop.products", Text: "the anonymous (shop_anon) gains SELECT of all rows on shop.products", Effect: true})
	for _, c := range p.Changes {
		p.Live = append(p.Live, c.Before)
	}
	p.Live = slices.DeleteFunc(p.Live, func(r Resource) bool { return r == nil })
	return Document{
		Plan: p, Base: "0123456789ab", Head: "ba9876543210", Version: "1.2.3", File: "infra/a b.hcl",
		Remarks:  []string{"The base is <b>broken</b>."},
		Problems: []Problem{{Summary: "a doubt", Detail: "It may be | so, @admin.", Block: "network.llm", Range: specs.Range{File: "infra/n.hcl", Line: 3, Column: 5, EndLine: 3, EndCol: 9}}},
		Places: map[Addr]specs.Range{
			"root.claude-code":      {File: "infra/s.hcl", Line: 1, Column: 1, EndLine: 1, EndCol: 22},
			"declared.gateway.data": {File: "infra/g.hcl", Line: 7, Column: 1, EndLine: 7, EndCol: 15},
		},
	}
}

func brokenDocument() Document {
	return Document{Version: "1.2.3", File: "x.hcl", Problems: []Problem{
		{Error: true, Summary: `unknown attribute "memroy"`, Detail: "Did you mean \"memory\"?\nSee </details>.", Block: "sandbox.shell", Range: specs.Range{File: "/abs/ä b.hcl", Line: 12, Column: 3, EndLine: 14, EndCol: 1}},
		{Error: true, Summary: "no *.hcl file", Range: specs.Range{File: "infra"}},
	}}
}

func TestDocuments(t *testing.T) {
	for name, d := range map[string]Document{
		"plan": sampleDocument(), "broken": brokenDocument(), "valid": {}, "same": {Plan: &Plan{}, Base: "a", Head: "b"},
	} {
		for _, f := range Formats() {
			t.Run(name+" "+string(f), func(t *testing.T) {
				var out bytes.Buffer
				if err := d.Write(&out, f, Style{}); err != nil {
					t.Fatal(err)
				}
				golden(t, fmt.Sprintf("document-%s.%s", name, f), out.Bytes())
				wellFormed(t, f, out.Bytes())
			})
		}
	}
	if err := (Document{}).Write(io.Discard, "pdf", Style{}); err == nil {
		t.Error("there is a format pdf")
	}
}

func wellFormed(t *testing.T, f Format, b []byte) {
	t.Helper()
	var err error
	switch f {
	case JSON:
		_, err = ReadPlan(bytes.NewReader(b))
	case Markdown:
		err = checkMarkdown(string(b))
	case JUnit:
		err = checkJUnit(b)
	case SARIF:
		err = checkSARIF(b)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, b)
	}
}

// What is left of a comment without its code is written by cordon alone.
var (
	fencedBlock = regexp.MustCompile("(?ms)^(`{3,})diff\n(.*?)\n(`{3,})$")
	summary     = regexp.MustCompile(`(?m)^<details><summary><code>([^<>\n]*)</code></summary>$`)
	ours        = regexp.MustCompile("^(<!-- cordon plan -->|</?details>|[-A-Za-z0-9 #*:|→…,;.\n])*$")
)

// withoutSpans takes code spans out of a line, as CommonMark has them: between
// runs of as many backticks.
func withoutSpans(line string) string {
	var out strings.Builder
	for {
		from := strings.IndexByte(line, '`')
		if from < 0 {
			return out.String() + line
		}
		n := len(line[from:]) - len(strings.TrimLeft(line[from:], "`"))
		end := -1
		for i := from + n; i < len(line); {
			run := len(line[i:]) - len(strings.TrimLeft(line[i:], "`"))
			if run == n {
				end = i
				break
			}
			i += max(run, 1)
		}
		if end < 0 {
			return out.String() + line // one that does not end: ours says no
		}
		out.WriteString(line[:from])
		line = line[end+n:]
	}
}

func checkMarkdown(s string) error {
	if len(s) > 65_000 {
		return fmt.Errorf("%d bytes", len(s))
	}
	if !strings.HasPrefix(s, CommentMarker+"\n") {
		return errors.New("no marker")
	}
	var out strings.Builder
	at := 0
	for _, m := range fencedBlock.FindAllStringSubmatchIndex(s, -1) {
		mark, body, end := s[m[2]:m[3]], s[m[4]:m[5]], s[m[6]:m[7]]
		if end != mark || strings.Contains(body, mark) {
			return fmt.Errorf("a fence of %s ends with %s", mark, end)
		}
		for line := range strings.SplitSeq(body, "\n") {
			if line != "" && !strings.Contains("+- ", line[:1]) {
				return fmt.Errorf("the line %q has no sign", line)
			}
		}
		out.WriteString(s[at:m[0]])
		at = m[1]
	}
	out.WriteString(s[at:])
	rest := summary.ReplaceAllString(out.String(), "<details>")
	var lines []string
	for l := range strings.SplitSeq(rest, "\n") {
		lines = append(lines, withoutSpans(l))
	}
	rest = strings.Join(lines, "\n")
	if !ours.MatchString(rest) {
		return fmt.Errorf("outside of code stands %q", rest)
	}
	if strings.Count(rest, "<details>") != strings.Count(rest, "</details>") {
		return errors.New("details are not closed")
	}
	return nil
}

func checkJUnit(b []byte) error {
	var got junitSuites
	d := xml.NewDecoder(bytes.NewReader(b))
	d.Strict = true
	if err := d.Decode(&got); err != nil {
		return err
	}
	tests, failures, errs := 0, 0, 0
	names := map[string]bool{}
	for _, s := range got.Suites {
		for _, c := range s.Cases {
			tests++
			if c.Failure != nil {
				failures++
			}
			if c.Error != nil {
				errs++
			}
			if c.Name == "" || c.Class == "" || names[c.Class+c.Name] {
				return fmt.Errorf("the case %q has no name of its own", c.Name)
			}
			names[c.Class+c.Name] = true
		}
	}
	if got.Tests != tests || got.Failures != failures || got.Errors != errs || tests == 0 {
		return fmt.Errorf("counts %d %d %d, are %d %d %d", got.Tests, got.Failures, got.Errors, tests, failures, errs)
	}
	return nil
}

// checkSARIF holds what the schema of SARIF 2.1.0 requires of what is used
// (the structs decode strictly, so that nothing else is), and that every
// result has a place, without which GitHub refuses the whole file.
func checkSARIF(b []byte) error {
	var got sarifLog
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		return err
	}
	if got.Version != "2.1.0" || got.Schema == "" || len(got.Runs) != 1 || got.Runs[0].Tool.Driver.Name == "" || got.Runs[0].Results == nil {
		return errors.New("the log lacks something")
	}
	run := got.Runs[0]
	ids := map[string]bool{}
	for _, r := range run.Tool.Driver.Rules {
		if r.ID == "" || ids[r.ID] || r.Short.Text == "" || !level(r.Default.Level) {
			return fmt.Errorf("the rule %+v", r)
		}
		ids[r.ID] = true
	}
	if run.ColumnKind != "unicodeCodePoints" && run.ColumnKind != "utf16CodeUnits" {
		return errors.New("columnKind")
	}
	for _, r := range run.Results {
		if r.RuleIndex < 0 || r.RuleIndex >= len(run.Tool.Driver.Rules) || run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || r.Message.Text == "" || !level(r.Level) || len(r.Locations) == 0 {
			return fmt.Errorf("the result %+v", r)
		}
		for _, l := range r.Locations {
			u, err := url.Parse(l.Physical.Artifact.URI)
			if err != nil || u.String() == "" || u.IsAbs() && u.Scheme != "file" {
				return fmt.Errorf("the address %q: %v", l.Physical.Artifact.URI, err)
			}
			if g := l.Physical.Region; g != nil && (g.StartLine < 1 || g.StartColumn < 0 || g.EndLine != 0 && g.EndLine < g.StartLine || g.EndLine == g.StartLine && g.EndColumn <= g.StartColumn) {
				return fmt.Errorf("the region %+v", *g)
			}
		}
	}
	return nil
}

func level(s string) bool { return slices.Contains([]string{"none", "note", "warning", "error"}, s) }

func TestLargeMarkdownIsCutHonestly(t *testing.T) {
	p := &Plan{}
	for i := range 800 {
		a := NewAddr("postgres", "table", "main", "shop", fmt.Sprint("t", i))
		p.Changes = append(p.Changes, Change{After: attrs{a, map[string]any{"v": strings.Repeat("x`", 300)}}})
		p.Notes = append(p.Notes, Note{Addr: a, Text: fmt.Sprint("the anonymous gains SELECT on shop.t", i), Effect: true}, Note{Addr: a, Text: strings.Repeat("@", 2000)})
		p.Failures = append(p.Failures, Failure{Enforcer: fmt.Sprint("e", i), Err: errors.New(strings.Repeat("<", 700))})
	}
	var out strings.Builder
	d := Document{Plan: p, Base: "a", Head: "b"}
	for range 300 {
		d.Problems = append(d.Problems, Problem{Summary: strings.Repeat("|", 400)})
		d.Remarks = append(d.Remarks, strings.Repeat("ä", 400))
	}
	if err := d.Write(&out, Markdown, Style{}); err != nil {
		t.Fatal(err)
	}
	if err := checkMarkdown(out.String()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"800 to add", "not shown here", "of 800 changes are not shown here", "gains SELECT on shop.t0 `"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it has no %q", want)
		}
	}
	if strings.Count(out.String(), "\n- … and ") < 4 {
		t.Error("what was left out of lists is not counted")
	}
}

func FuzzDocument(f *testing.F) {
	for _, s := range []string{"@team", "```\n</details><script>", "a|b", "![x](http://y)", "~~~", "<!--", "&amp;", "\x1b[31m", "#1", "https://x", "\u202e", "a\r\nb", "`", "www.x.y", "\xff", "]]>", "   ```"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		a := NewAddr("x", name)
		d := Document{
			Base: name, Head: value, Remarks: []string{value}, File: name,
			Problems: []Problem{{Summary: value, Detail: name, Block: value, Range: specs.Range{File: name, Line: 1, Column: 1}}},
			Places:   map[Addr]specs.Range{a: {File: value}},
			Plan: &Plan{
				Changes:  []Change{{Before: attrs{a, map[string]any{"l": []string{value}, name: value}}, After: attrs{a, map[string]any{"l": []string{name}, value: name, "n": map[string]any{name: 1}}}}},
				Notes:    []Note{{Addr: a, Text: value}, {Addr: a, Text: value, Effect: true}},
				Failures: []Failure{{Enforcer: name, Err: errors.New(value)}},
			},
		}
		for _, format := range []Format{Markdown, SARIF} {
			var out bytes.Buffer
			if err := d.Write(&out, format, Style{}); err != nil {
				t.Fatal(err)
			}
			wellFormed(t, format, out.Bytes())
		}
		var out bytes.Buffer
		if err := d.Write(&out, JUnit, Style{}); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(out.Bytes(), new(junitSuites)); err != nil {
			t.Errorf("%v\n%s", err, out.Bytes())
		}
		if got := withoutSpans(code(value)); got != "" {
			t.Errorf("of %q %q is left outside of code", value, got)
		}
		inner := strings.TrimSuffix(strings.TrimPrefix(element(value), "<code>"), "</code>")
		if got := html.UnescapeString(inner); got != Cut(visible(value), maxItem) || strings.ContainsAny(inner, "<>") {
			t.Errorf("%q is shown as %q", value, got)
		}
	})
}
