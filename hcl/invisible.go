package hcl

import (
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"

	hcllib "github.com/hashicorp/hcl/v2"
)

// invisible tells whether a character changes what is seen of others, or is
// one that nobody sees: two names that look alike could differ, and a file could
// say something else than its reader sees (CVE-2021-42574, "trojan source").
// Those are the format characters (Cf), among them all that set the direction
// of writing, the separators of lines and paragraphs, the variation selectors,
// and letters and marks that leave no trace (Other_Default_Ignorable_Code_Point
// of Unicode) or look like a space.
func invisible(r rune) bool {
	return r >= 0x80 && (unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) || r == '\u2800')
}

const invisibleHint = "It is not seen, or changes how the text around it is seen."

// firstInvisible returns the offset of the first such character, or -1.
func firstInvisible(s string) (at int, r rune) {
	for i, r := range s {
		if invisible(r) {
			return i, r
		}
	}
	return -1, 0
}

// reportInvisible reports such characters wherever in a file they stand,
// comments included. A byte order mark at its beginning is none.
func reportInvisible(s *source, r *reporter) {
	for i := 0; i < len(s.bytes); {
		c, n := rune(s.bytes[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRune(s.bytes[i:])
		}
		if invisible(c) && (i > 0 || c != '\uFEFF') {
			r.report(Diagnostic{Severity: Error, Summary: fmt.Sprintf("invisible character %U", c), Detail: invisibleHint, Range: s.rangeAt(i)})
		}
		i += n
	}
}

// seen tells whether all of a name or a value is seen, which an escape in it
// may have brought in, and reports it if not.
func seen(s string, at hcllib.Range, r *reporter) bool {
	i, c := firstInvisible(s)
	if i < 0 {
		return true
	}
	summary := fmt.Sprintf("invisible character %U", c)
	if !slices.ContainsFunc(r.list, func(d Diagnostic) bool { // it stands there itself
		return d.Summary == summary && d.Range.File == at.Filename && d.Range.Byte >= at.Start.Byte && d.Range.Byte < at.End.Byte
	}) {
		r.error(at, summary, invisibleHint)
	}
	return false
}
