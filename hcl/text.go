package hcl

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Colours, as terminals have had them since ECMA-48.
const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// maxShown is how many characters of a long source line are shown around the
// place.
const maxShown = 120

// WriteText writes the diagnostics for people: for each its place (in the
// form that editors jump to), what is wrong, the source line with the place
// marked, and what would be right.
func (ds Diagnostics) WriteText(w io.Writer, colour bool) error {
	paint := func(code, s string) string {
		if !colour {
			return s
		}
		return code + s + plain
	}
	for i, d := range ds {
		var out strings.Builder
		if i > 0 {
			out.WriteByte('\n')
		}
		code := red
		if d.Severity == Warning {
			code = yellow
		}
		fmt.Fprintf(&out, "%s%s %s\n", printable(d.place()), paint(code, d.Severity+":"), paint(bold, printable(d.Summary)))
		if code, marks, ok := d.excerpt(); ok {
			number := fmt.Sprint(d.Range.Line)
			fmt.Fprintf(&out, "  %s | %s\n  %s | %s\n", number, code, strings.Repeat(" ", len(number)), paint(red, marks))
		}
		for line := range strings.Lines(d.Detail) {
			fmt.Fprintf(&out, "  %s\n", printable(strings.TrimSuffix(line, "\n")))
		}
		if _, err := io.WriteString(w, out.String()); err != nil {
			return fmt.Errorf("write diagnostics: %w", err)
		}
	}
	return nil
}

// excerpt returns the source line that d begins on and a line of marks to
// stand below it.
func (d Diagnostic) excerpt() (code, marks string, ok bool) {
	if d.source == nil || d.Range.Line == 0 {
		return "", "", false
	}
	line, start, ok := d.source.line(d.Range.Line)
	if !ok {
		return "", "", false
	}
	from := clamp(d.Range.Byte-start, 0, len(line))
	to := len(line)
	if d.Range.EndLine == d.Range.Line {
		to = clamp(d.Range.EndBy-start, from, len(line))
	}
	before, marked, after := line[:from], line[from:to], line[to:]
	before, marked, after = window(before, marked, after)
	width := max(1, utf8.RuneCountInString(printable(marked)))
	return printable(before + marked + after), blanks(before) + strings.Repeat("^", width), true
}

// window cuts a long line down to what stands around the marked part.
func window(before, marked, after string) (string, string, string) {
	if utf8.RuneCountInString(before+marked+after) <= maxShown {
		return before, marked, after
	}
	marked = firstRunes(marked, maxShown/2)
	if n := utf8.RuneCountInString(before); n > maxShown/4 {
		before = "…" + string([]rune(before)[n-maxShown/4:])
	}
	return before, marked, firstRunes(after, maxShown/4)
}

func firstRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}

// printable replaces what would act on a terminal instead of showing. Tabs
// stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

// blanks is as wide as s.
func blanks(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, printable(s))
}

func clamp(n, low, high int) int { return max(low, min(n, high)) }
