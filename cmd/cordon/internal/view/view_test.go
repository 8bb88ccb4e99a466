package view

import (
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/reconciler/loop"
)

func TestHeadline(t *testing.T) {
	parts := func(conditions ...loop.Condition) []loop.Part {
		var out []loop.Part
		for i, c := range conditions {
			out = append(out, loop.Part{Name: string(rune('a' + i)), Condition: c})
		}
		return out
	}
	r := &loop.Revision{ID: "1"}
	for want, s := range map[string]loop.State{
		"good Converged: All is as declared.":                          {Revision: r, Parts: parts(loop.Converged)},
		"notable Converged: All is as declared, but the source":        {Revision: r, Parts: parts(loop.Converged), Source: loop.Source{Error: "x"}},
		"notable Starting: Nothing is enforced yet.":                   {},
		"notable Starting: Nothing was looked at yet.":                 {Revision: r},
		"notable Starting: b was not looked at yet.":                   {Revision: r, Parts: parts(loop.Converged, loop.Waiting)},
		"bad Nothing enforced: The source":                             {Source: loop.Source{Error: "x"}},
		"bad Refused: Nothing is enforced":                             {Refused: &loop.Refusal{}},
		"bad Refused: A newer revision":                                {Revision: r, Refused: &loop.Refusal{}, Parts: parts(loop.Converged, loop.Drifted)},
		"bad Failing: a fails.":                                        {Revision: r, Refused: &loop.Refusal{}, Parts: parts(loop.Failing, loop.Drifted)},
		"bad Failing: a and c fail.":                                   {Revision: r, Parts: parts(loop.Failing, loop.Drifted, loop.Failing)},
		"notable Paused: Nothing is repaired until ":                   {Revision: r, Paused: &loop.Pause{}, Parts: parts(loop.Drifted)},
		"notable Drifted: a, b, c and 2 more differ from what":         {Revision: r, Parts: parts(loop.Drifted, loop.Drifted, loop.Drifted, loop.Drifted, loop.Drifted)},
		"notable Drifted: a, b, c and d differ from what is declared.": {Revision: r, Parts: parts(loop.Drifted, loop.Drifted, loop.Drifted, loop.Drifted)},
	} {
		h := Of(s)
		if got := string(h.Grade) + " " + h.Word + ": " + h.Why; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q…", got, want)
		}
		if (h.Grade == Good) != (s.Converged() && s.Source.Error == "") {
			t.Errorf("%q does not fit Converged() = %v", h.Word, s.Converged())
		}
	}
}

func TestWords(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range [][2]string{
		{Span(80 * time.Millisecond), "80 ms"},
		{Span(119 * time.Second), "119 s"},
		{Span(2 * time.Minute), "2 min"},
		{Span(47 * time.Hour), "47 h"},
		{Span(49 * time.Hour), "2 days"},
		{Span(-time.Hour), "0 s"},
		{Ago(time.Time{}, now), "never"},
		{Ago(now, now), "now"},
		{Ago(now.Add(-3*time.Second), now), "3 s ago"},
		{In(now.Add(90*time.Second), now), "in 90 s"},
		{In(now.Add(-time.Second), now), "now"},
		{Brief(strings.Repeat("é", 160)), strings.Repeat("é", 160)},
		{Brief(strings.Repeat("é", 161)), strings.Repeat("é", 160) + "…"},
		{Count(1, "change"), "1 change"},
		{Count(0, "change"), "0 changes"},
		{Count(1, "sandbox"), "1 sandbox"},
		{Count(2, "sandbox"), "2 sandboxes"},
		{Revision(strings.Repeat("0a", 20)), "0a0a0a0a0a0a"},
		{Revision("sha256:" + strings.Repeat("0a", 32)), "sha256:0a0a0a0a0a0a"},
		{Revision("sha256:1"), "sha256:1"},
		{Revision(strings.Repeat("é", 40)), strings.Repeat("é", 40)},
	} {
		if c[0] != c[1] {
			t.Errorf("got %q, want %q", c[0], c[1])
		}
	}
}
