package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aicodesit/cordon/cmd/cordon/internal/view"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// maxListed is how many changes are listed for each part; --json has all.
const maxListed = 10

// statusText is a state for people. Its times are told as seen from its own.
func statusText(s loop.State, style reconciler.Style) string {
	t := statusWriter{State: s, style: style}
	h := view.Of(s)
	t.line("%s: %s", paint(style, h.Grade, h.Word), h.Why)
	t.line("")
	t.revision()
	t.source()
	t.troubles()
	t.sessions()
	t.parts()
	t.drift()
	t.notes()
	return t.b.String()
}

type statusWriter struct {
	loop.State
	style reconciler.Style
	b     strings.Builder
}

func (t *statusWriter) line(format string, args ...any) {
	t.b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// field is a line with a name before it, "" for one more line of the same.
func (t *statusWriter) field(name, format string, args ...any) {
	t.line("%-11s%s", name, fmt.Sprintf(format, args...))
}

func (t *statusWriter) clock(at time.Time) string {
	at, now := at.Local(), t.Time.Local()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

func (t *statusWriter) revision() {
	r := t.Revision
	if r == nil {
		t.field("Revision", "none")
		return
	}
	t.field("Revision", "%s  %s", view.Revision(reconciler.Line(r.ID)), reconciler.Line(r.Title))
	about := []string{}
	if r.Author != "" {
		about = append(about, "by "+reconciler.Line(r.Author))
	}
	if !r.Time.IsZero() {
		about = append(about, r.Time.Local().Format(time.DateTime))
	}
	if r.Signer != "" {
		about = append(about, t.style.Good("signed by "+reconciler.Line(r.Signer)))
	} else {
		about = append(about, "signature not asked for")
	}
	t.field("", "%s", strings.Join(about, ", "))
	reached := "not all has converged at it yet"
	switch {
	case r.Before:
		reached = "all had converged before this daemon began"
	case !r.Reached.IsZero():
		reached = "all had converged after " + view.Span(r.Reached.Sub(r.Since))
	}
	t.field("", "enforced since %s (%s), %s", t.clock(r.Since), view.Ago(r.Since, t.Time), reached)
}

func (t *statusWriter) source() {
	words := []string{strings.TrimSpace(reconciler.Line(t.Source.Origin + " " + t.Source.Ref))}
	if t.Source.How != "" {
		words = append(words, reconciler.Line(t.Source.How))
	}
	t.field("Source", "%s, asked %s", strings.Join(words, ", "), view.Ago(t.Source.Asked, t.Time))
	if t.Source.Note != "" {
		t.field("", "%s", reconciler.Line(t.Source.Note))
	}
	if t.Source.Error != "" {
		t.field("", "%s", t.style.Bad("no answer: "+reconciler.Line(t.Source.Error)))
	}
}

// troubles are what keeps the host from being at the newest revision, or at
// any.
func (t *statusWriter) troubles() {
	if r := t.Refused; r != nil {
		t.field("Refused", "%s", t.style.Bad(fmt.Sprintf("%s, %s", cmp.Or(view.Revision(reconciler.Line(r.ID)), "a revision"), view.Ago(r.Since, t.Time))))
		why := r.Diagnostics
		if len(why) == 0 {
			why = []string{r.Why}
		}
		for _, w := range why[:min(len(why), maxListed)] {
			t.field("", "%s", reconciler.Line(w))
		}
		t.more(len(why))
	}
	if p := t.Paused; p != nil {
		t.field("Paused", "%s", t.style.Notable(fmt.Sprintf("by %s until %s (%s): %s", reconciler.Line(p.By), t.clock(p.Until), view.In(p.Until, t.Time), reconciler.Line(p.Reason))))
	}
	for _, p := range t.Parts {
		for _, f := range p.Fights {
			t.field("Fight", "%s", t.style.Bad(reconciler.Line(string(f.Addr))))
			t.field("", "something else changed it back %d times since %s; it is repaired again %s", f.Repairs, t.clock(f.Since), view.In(f.Next, t.Time))
		}
	}
}

func (t *statusWriter) more(n int) {
	if n > maxListed {
		t.field("", "and %d more", n-maxListed)
	}
}

func (t *statusWriter) sessions() {
	stale := 0
	for _, s := range t.Sessions {
		if s.Stale {
			stale++
		}
	}
	text := view.Count(len(t.Sessions), "session")
	if stale > 0 {
		text += ", " + t.style.Notable(fmt.Sprintf("%d of them under an older profile", stale))
	}
	t.field("Running", "%s; %s", text, view.Count(t.Warm, "warm slot"))
}

func (t *statusWriter) parts() {
	if len(t.Parts) == 0 {
		return
	}
	width := len("PART")
	for _, p := range t.Parts {
		width = max(width, len([]rune(reconciler.Line(p.Name))))
	}
	t.line("")
	t.line("%-*s  %-9s  %-8s %9s  %s", width, "PART", "CONDITION", "FOR", "RESOURCES", "CHECKED")
	for _, p := range t.Parts {
		condition := paint(t.style, view.Condition(p.Condition), fmt.Sprintf("%-9s", reconciler.Line(string(p.Condition))))
		t.line("%-*s  %s  %-8s %9d  %s", width, reconciler.Line(p.Name), condition, view.Span(t.Time.Sub(p.Since)), p.Resources, view.Ago(p.Checked, t.Time))
		if p.Why != "" {
			t.line("    %s", paint(t.style, view.Condition(p.Condition), reconciler.Line(p.Why)))
		}
		if p.Failures > 0 {
			t.line("    %s in a row, next try %s", view.Count(p.Failures, "failure"), view.In(p.NextRetry, t.Time))
		}
		t.changes(p.Pending)
	}
}

func (t *statusWriter) changes(list []loop.Pending) {
	for _, c := range list[:min(len(list), maxListed)] {
		text := reconciler.Line(string(c.Addr))
		if c.Error != "" {
			text += "  " + t.style.Bad(view.Brief(reconciler.Line(c.Error)))
		}
		t.line("    %s %s", t.style.Sign(c.Action), text)
	}
	if n := len(list) - maxListed; n > 0 {
		t.line("    and %d more", n)
	}
}

// drift is the last of each part, the newest first.
func (t *statusWriter) drift() {
	parts := slices.DeleteFunc(slices.Clone(t.Parts), func(p loop.Part) bool { return p.LastDrift == nil })
	slices.SortStableFunc(parts, func(a, b loop.Part) int { return b.LastDrift.At.Compare(a.LastDrift.At) })
	if len(parts) == 0 {
		return
	}
	t.line("")
	t.line("LAST DRIFT")
	for _, p := range parts {
		outcome := t.style.Notable("not repaired yet")
		if d := p.LastDrift; !d.Repaired.IsZero() {
			outcome = t.style.Good("repaired after " + view.Span(d.Repaired.Sub(d.At)))
		}
		t.line("%s, %s (%s), %s", reconciler.Line(p.Name), t.clock(p.LastDrift.At), view.Ago(p.LastDrift.At, t.Time), outcome)
		t.changes(p.LastDrift.Changes)
	}
}

func (t *statusWriter) notes() {
	if len(t.Notes)+len(t.NotEnforced) == 0 {
		return
	}
	t.line("")
	for _, n := range t.Notes {
		t.line("%s %s: %s", t.style.Notable("i"), reconciler.Line(string(n.Addr)), reconciler.Line(n.Text))
	}
	if len(t.NotEnforced) > 0 {
		t.line("Declared, not enforced by this build: %s", reconciler.Line(strings.Join(t.NotEnforced, ", ")))
	}
}
