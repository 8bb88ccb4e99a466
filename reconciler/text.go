package reconciler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style says how text is shown to people.
type Style struct{ Color bool }

// Colors of the actions, as SGR parameters (ECMA-48).
const (
	green  = "32"
	yellow = "33"
	red    = "31"
	bold   = "1"
)

func (s Style) paint(sgr, text string) string {
	if !s.Color || sgr == "" {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[0m"
}

// Good, Notable, Bad and Strong are text in the colour for that.
func (s Style) Good(text string) string    { return s.paint(green, text) }
func (s Style) Notable(text string) string { return s.paint(yellow, text) }
func (s Style) Bad(text string) string     { return s.paint(red, text) }
func (s Style) Strong(text string) string  { return s.paint(bold, text) }

// Sign is the symbol of an action, coloured if s says so.
func (s Style) Sign(a Action) string {
	switch a {
	case Create:
		return s.paint(green, "+")
	case Delete:
		return s.paint(red, "-")
	case Update:
		return s.paint(yellow, "~")
	}
	return "?"
}

// Grade is the status of a Finding in a column of its own width.
func (s Style) Grade(st Status) string {
	sgr := map[Status]string{OK: green, Warn: yellow, Fail: red}[st]
	return s.paint(sgr, fmt.Sprintf("%-4s", st)) + "  "
}

// WriteText writes p for people: each change with its attributes, what is not
// known, remarks, and the count.
func (p *Plan) WriteText(w io.Writer, s Style) error { return Document{Plan: p}.writeText(w, s) }

// writeText leaves the problems out: who has the files' text shows more of
// them.
func (d Document) writeText(w io.Writer, s Style) error {
	f, err := d.file()
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, c := range f.Changes {
		s.change(&b, c)
	}
	for _, x := range f.Failures {
		fmt.Fprintf(&b, "%s %s could not be read, so nothing of it is planned:\n    %s\n\n", s.paint(red, "!"), x.Enforcer, indent(clean(x.Error)))
	}
	for _, n := range f.Notes {
		fmt.Fprintf(&b, "%s %s: %s\n", s.paint(yellow, "i"), n.Addr, clean(n.Text))
	}
	if len(f.Notes) > 0 {
		b.WriteByte('\n')
	}
	if len(f.NotEnforced) > 0 {
		fmt.Fprintf(&b, "Declared, not enforced by this build:\n    %s\n\n", strings.Join(f.NotEnforced, "\n    "))
	}
	for _, r := range f.Remarks {
		fmt.Fprintf(&b, "%s\n\n", clean(r))
	}
	switch {
	case d.Plan == nil:
	case d.Plan.Empty():
		fmt.Fprintf(&b, "%s %s\n", s.paint(bold, "No changes."), d.same())
	case len(f.Changes) == 0:
		fmt.Fprintln(&b, s.paint(bold, "Plan: incomplete."))
	default:
		fmt.Fprintf(&b, "%s %s.\n", s.paint(bold, "Plan:"), f.Summary)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func (s Style) change(b *strings.Builder, c FileChange) {
	fmt.Fprintf(b, "%s %s\n", s.Sign(c.Action), s.paint(bold, string(c.Address)))
	before, after := flatten(c.Before), flatten(c.After)
	switch c.Action {
	case Delete: // what goes is named by its address
	case Create:
		for _, k := range slices.Sorted(maps.Keys(after)) {
			value(b, k, after[k])
		}
	case Update:
		keys := maps.Clone(before)
		maps.Copy(keys, after)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			s.attribute(b, k, before[k], after[k])
		}
	}
	b.WriteByte('\n')
}

// wide is the length from which a list is written with an element a line.
const wide = 100

func value(b *strings.Builder, key string, v any) {
	list, ok := v.([]any)
	if line := text(v); !ok || len(line) < wide {
		fmt.Fprintf(b, "    %s = %s\n", key, clean(line))
		return
	}
	fmt.Fprintf(b, "    %s:\n", key)
	for _, e := range list {
		fmt.Fprintf(b, "      %s\n", clean(text(e)))
	}
}

// attribute shows how one attribute changes; lists by their elements.
func (s Style) attribute(b *strings.Builder, key string, before, after any) {
	x, y := text(before), text(after)
	if x == y {
		return
	}
	oldList, ok1 := before.([]any)
	newList, ok2 := after.([]any)
	if !ok1 && before != nil || !ok2 && after != nil || before == nil && after == nil {
		fmt.Fprintf(b, "    %s = %s -> %s\n", key, clean(x), clean(y))
		return
	}
	gone, come := without(oldList, newList), without(newList, oldList)
	if len(gone)+len(come) == 0 {
		fmt.Fprintf(b, "    %s = %s -> %s\n", key, clean(x), clean(y))
		return
	}
	fmt.Fprintf(b, "    %s:\n", key)
	for _, e := range gone {
		fmt.Fprintf(b, "      %s %s\n", s.Sign(Delete), clean(text(e)))
	}
	for _, e := range come {
		fmt.Fprintf(b, "      %s %s\n", s.Sign(Create), clean(text(e)))
	}
}

func without(list, other []any) []any {
	left := map[string]int{}
	for _, e := range other {
		left[text(e)]++
	}
	var out []any
	for _, e := range list {
		if t := text(e); left[t] > 0 {
			left[t]--
			continue
		}
		out = append(out, e)
	}
	return out
}

// flatten turns nested objects into one level of dotted keys.
func flatten(raw json.RawMessage) map[string]any {
	out := map[string]any{}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // 536870912, not 5.36870912e+08
	if len(raw) == 0 || d.Decode(&v) != nil {
		return out
	}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		m, ok := v.(map[string]any)
		if !ok || len(m) == 0 && prefix != "" {
			out[prefix] = v
			return
		}
		for k, e := range m {
			if prefix != "" {
				k = prefix + "." + k
			}
			walk(k, e)
		}
	}
	walk("", v)
	return out
}

func text(v any) string {
	if v == nil {
		return "(none)"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // decoded from JSON, so it encodes
	return strings.TrimSuffix(b.String(), "\n")
}

func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n    ") }

// Line is s as it may stand on a line of a terminal's or a page's, whoever
// wrote it: white space is single spaces, and what is not seen is replaced.
func Line(s string) string { return clean(strings.Join(strings.Fields(s), " ")) }

// visible is s with its lines made one, and all its spaces kept.
func visible(s string) string {
	return clean(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, s))
}

// clean replaces what acts on a reader or a terminal instead of being seen, in
// what others named.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Cut is s with at most n characters.
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
