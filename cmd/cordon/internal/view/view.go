// Package view is a daemon's state in the words that people read, the same in
// the terminal and on the page.
package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/aicodesit/cordon/reconciler/loop"
)

// Grade is how good something is, for its colour.
type Grade string

// The grades.
const (
	Plain   Grade = "plain"
	Good    Grade = "good"
	Notable Grade = "notable" // worth a look
	Bad     Grade = "bad"
)

// Headline is a state in a word, and why it is so.
type Headline struct {
	Grade Grade
	Word  string // "Converged"
	Why   string
}

// Of finds what of s a person should know first.
func Of(s loop.State) Headline {
	failing, drifted, waiting := named(s, loop.Failing), named(s, loop.Drifted), named(s, loop.Waiting)
	switch {
	case s.Revision == nil && s.Refused != nil:
		return Headline{Bad, "Refused", "Nothing is enforced: the only revision there is is refused."}
	case s.Revision == nil && s.Source.Error != "":
		return Headline{Bad, "Nothing enforced", "The source does not answer, and nothing of before is kept."}
	case s.Revision == nil:
		return Headline{Notable, "Starting", "Nothing is enforced yet."}
	case len(failing) > 0:
		return Headline{Bad, "Failing", sentence(failing, "fails", "fail")}
	case s.Refused != nil:
		return Headline{Bad, "Refused", "A newer revision is refused. The one before stays enforced."}
	case s.Paused != nil:
		return Headline{Notable, "Paused", "Nothing is repaired until " + s.Paused.Until.Local().Format(time.DateTime) + "."}
	case len(drifted) > 0:
		return Headline{Notable, "Drifted", sentence(drifted, "differs from what is declared", "differ from what is declared")}
	case len(waiting) > 0:
		return Headline{Notable, "Starting", sentence(waiting, "was not looked at yet", "were not looked at yet")}
	case !s.Converged():
		return Headline{Notable, "Starting", "Nothing was looked at yet."}
	case s.Source.Error != "":
		return Headline{Notable, "Converged", "All is as declared, but the source does not answer: what is newer is not known."}
	}
	return Headline{Good, "Converged", "All is as declared."}
}

func named(s loop.State, c loop.Condition) []string {
	var out []string
	for _, p := range s.Parts {
		if p.Condition == c {
			out = append(out, p.Name)
		}
	}
	return out
}

// sentence joins names and what they do.
func sentence(names []string, one, many string) string {
	if len(names) == 1 {
		return names[0] + " " + one + "."
	}
	const most = 4
	last := names[len(names)-1]
	rest := names[:len(names)-1]
	if len(names) > most {
		last, rest = fmt.Sprintf("%d more", len(names)-most+1), names[:most-1]
	}
	return strings.Join(rest, ", ") + " and " + last + " " + many + "."
}

// Condition is how good a part's condition is.
func Condition(c loop.Condition) Grade {
	switch c {
	case loop.Converged:
		return Good
	case loop.Failing:
		return Bad
	case loop.Waiting, loop.Drifted:
		return Notable
	}
	return Plain
}

// Kind is how good it is that an event happened.
func Kind(k loop.Kind) Grade {
	switch k {
	case loop.PartRecovered, loop.PartConverged, loop.SourceBack, loop.FightEnded, loop.PauseEnded:
		return Good
	case loop.DriftSeen, loop.PauseBegan:
		return Notable
	case loop.ChangeFailed, loop.RevisionRefused, loop.SourceFailed, loop.FightBegan, loop.SessionRefused, loop.SessionFailed, loop.SessionRevoked:
		return Bad
	}
	return Plain
}

// Revision is the id of a commit, or of a folder, as short as people write it.
func Revision(id string) string {
	kind, hash, ok := strings.Cut(id, ":")
	if !ok {
		kind, hash = "", id
	}
	if len(hash) < 40 || strings.Trim(hash, "0123456789abcdef") != "" {
		return id
	}
	return strings.TrimPrefix(kind+":"+hash[:12], ":")
}

// brief is how many characters of a text a line of a list has room for.
const brief = 160

// Brief is the beginning of a text that is too long for a list.
func Brief(s string) string {
	n := 0
	for i := range s {
		if n++; n > brief {
			return s[:i] + "…"
		}
	}
	return s
}

// Span is a length of time in one unit, of which there are at least two:
// "80 ms", "90 s", "3 h".
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// Ago is how long before now t was; "never" for none.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	if d := now.Sub(t); d >= time.Second {
		return Span(d) + " ago"
	}
	return "now"
}

// In is how long after now t will be.
func In(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + Span(d)
	}
	return "now"
}

// Count is a number of things: "1 change", "3 changes", "2 sandboxes".
func Count(n int, one string) string {
	more := "s"
	switch {
	case n == 1:
		more = ""
	case strings.HasSuffix(one, "x"):
		more = "es"
	}
	return fmt.Sprintf("%d %s%s", n, one, more)
}
