package reconciler

import (
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// CommentMarker begins the Markdown of every plan, invisible: a bot finds by
// it the comment that it is to update.
const CommentMarker = "<!-- cordon plan -->"

const (
	// maxComment is how many bytes a comment has at most. GitHub takes 65,536
	// characters, the others more.
	maxComment = 65_000
	// maxDetail bounds the lines of one change that are shown.
	maxDetail = 200
	// maxLine and maxItem bound, in characters, a line of a change and a text
	// within a line.
	maxLine = 500
	maxItem = 1_000
	// tail is kept free for what was left out to be counted.
	tail = 1_000
)

// comment is Markdown that grows up to a limit. What others named is in it
// only as code, see [code], [element] and [fence].
type comment struct {
	strings.Builder
	limit int
}

// add writes s if it fits.
func (c *comment) add(s string) bool {
	if c.Len()+len(s) > c.limit {
		return false
	}
	c.WriteString(s)
	return true
}

// list writes the items below a heading, as many as fit into a share of what
// is left, and counts the others.
func (c *comment) list(heading string, items []string, share int) {
	if len(items) == 0 || !c.add("\n**"+heading+"**\n\n") {
		return
	}
	end := c.Len() + (c.limit-c.Len())/share
	for i, item := range items {
		line := "- " + item + "\n"
		if c.Len()+len(line) > end {
			c.WriteString(fmt.Sprintf("- … and %d more, not shown here\n", len(items)-i))
			return
		}
		c.WriteString(line)
	}
}

func (d Document) writeMarkdown(w io.Writer) error {
	f, err := d.file()
	if err != nil {
		return err
	}
	c := &comment{limit: maxComment - tail}
	c.WriteString(CommentMarker + "\n### cordon: " + d.headline() + "\n")
	if d.Base != "" {
		c.WriteString("\n" + code(d.Base) + " → " + code(d.Head) + "\n")
	}
	c.list("Remarks", items(f.Remarks, code), 4)
	c.list("The files", problemItems(f.Problems), 2)
	c.list("Could not be read, so nothing of it is planned", items(f.Failures, func(x FileFailure) string { return code(x.Enforcer) + ": " + code(x.Error) }), 4)
	c.list("Effective access", noteItems(f.Notes, true), 2)
	c.table(f.Changes)
	c.list("Notes", noteItems(f.Notes, false), 4)
	c.list("Declared, not enforced by this build", items(f.NotEnforced, code), 4)
	c.details(f.Changes)
	_, err = io.WriteString(w, c.String())
	return err
}

func items[T any](list []T, show func(T) string) []string {
	var out []string
	for _, e := range list {
		out = append(out, show(e))
	}
	return out
}

func noteItems(notes []Note, effect bool) []string {
	var out []string
	for _, n := range notes {
		switch {
		case n.Effect != effect:
		case effect:
			out = append(out, code(n.Text))
		default:
			out = append(out, code(string(n.Addr))+": "+code(n.Text))
		}
	}
	return out
}

func problemItems(list []FileProblem) []string {
	return items(list, func(p FileProblem) string {
		out := p.Severity + ": " + code(p.Summary)
		if p.Place != "" {
			out = code(p.Place) + ": " + out
		}
		if p.Detail != "" {
			out += " " + code(p.Detail)
		}
		return out
	})
}

// table counts the changes by enforcer.
func (c *comment) table(changes []FileChange) {
	if len(changes) == 0 {
		return
	}
	counts := map[string]*[3]int{}
	for _, ch := range changes {
		n := counts[ch.Address.Enforcer()]
		if n == nil {
			n = new([3]int)
			counts[ch.Address.Enforcer()] = n
		}
		n[slices.Index([]Action{Create, Update, Delete}, ch.Action)]++
	}
	var b strings.Builder
	b.WriteString("\n| part | add | change | remove |\n| --- | ---: | ---: | ---: |\n")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		n := counts[name]
		cell := strings.Map(func(r rune) rune {
			if r == '|' || r == '\\' { // they end cells, also within code
				return unicode.ReplacementChar
			}
			return r
		}, name)
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", code(cell), n[0], n[1], n[2])
	}
	c.add(b.String())
}

// details writes each change folded, as far as they fit, and counts the rest.
func (c *comment) details(changes []FileChange) {
	c.WriteString("\n")
	for i, ch := range changes {
		lines := diffLines(ch)
		if n := len(lines) - maxDetail; n > 0 {
			lines = append(lines[:maxDetail], fmt.Sprintf("  … and %d more lines, not shown here", n))
		}
		sign := Style{}.Sign(ch.Action)
		if !c.add("<details><summary>" + element(sign+" "+string(ch.Address)) + "</summary>\n\n" + fence(lines) + "\n</details>\n") {
			c.WriteString(fmt.Sprintf("\n%d of %d changes are not shown here: a comment has a limit. `cordon plan` shows all.\n", len(changes)-i, len(changes)))
			return
		}
	}
}

// diffLines are the attributes of a change; each line begins with a sign or
// with a space.
func diffLines(ch FileChange) []string {
	before, after := flatten(ch.Before), flatten(ch.After)
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		x, was := before[k]
		y, is := after[k]
		if was && is && text(x) == text(y) {
			continue
		}
		oldList, ok1 := x.([]any)
		newList, ok2 := y.([]any)
		gone, come := without(oldList, newList), without(newList, oldList)
		if (ok1 || !was) && (ok2 || !is) && len(gone)+len(come) > 0 {
			out = append(out, "  "+visible(k)+":")
			for _, e := range gone {
				out = append(out, "-   "+visible(text(e)))
			}
			for _, e := range come {
				out = append(out, "+   "+visible(text(e)))
			}
			continue
		}
		if was {
			out = append(out, "- "+visible(k)+" = "+visible(text(x)))
		}
		if is {
			out = append(out, "+ "+visible(k)+" = "+visible(text(y)))
		}
	}
	return out
}

// fence writes lines as a block of code that nothing in them can end.
func fence(lines []string) string {
	body := strings.Join(items(lines, func(s string) string { return Cut(s, maxLine) }), "\n")
	mark := strings.Repeat("`", max(3, longestRun(body)+1))
	return mark + "diff\n" + body + "\n" + mark + "\n"
}

// code shows s as code within a line of Markdown, which nothing in it can end:
// in code there are no links, and neither mentions nor references to issues
// are looked for.
func code(s string) string {
	s = Cut(visible(s), maxItem)
	mark := strings.Repeat("`", longestRun(s)+1)
	return mark + " " + s + " " + mark
}

// element is code where HTML is expected.
func element(s string) string {
	return "<code>" + html.EscapeString(Cut(visible(s), maxItem)) + "</code>"
}

// longestRun is of backticks.
func longestRun(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		run++
		if r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
