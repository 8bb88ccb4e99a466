package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/view"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

func eventsCommand(a *app) *cobra.Command {
	var since string
	var kinds []string
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened on this host, and who did it",
		Long: `Show what happened on this host, and who did it: revisions, drift, changes,
failures, refusals, pauses, sessions. The daemon, apply, destroy and sessions
write it into files below the state directory, bounded in size. Long texts are
cut; --json has them whole.

Kinds are ` + strings.Join(kindNames(), ", ") + `.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NeedRoot("reading the event log"); err != nil {
				return err
			}
			from, err := parseSince(since, time.Now())
			if err != nil {
				return err
			}
			for _, k := range kinds {
				if !slices.Contains(kindNames(), k) {
					return fmt.Errorf("--kind: %q is none of %s", k, strings.Join(kindNames(), ", "))
				}
			}
			style := reconciler.Style{Color: a.Color(a.Stdout)}
			show := func(e loop.Event) error {
				if len(kinds) > 0 && !slices.Contains(kinds, string(e.Kind)) {
					return nil
				}
				if asJSON {
					return json.NewEncoder(a.Stdout).Encode(e)
				}
				_, err := fmt.Fprintln(a.Stdout, eventLine(e, style))
				return err
			}
			if follow {
				return a.Events().Follow(cmd.Context(), from, show, func(err error) {
					a.Log().WarnContext(cmd.Context(), "events may be shown a second late", "error", err)
				})
			}
			return a.Events().Read(from, show)
		},
	}
	cmd.Flags().StringVar(&since, "since", "24h", "from when on: how long ago (90m, 36h, 7d), or a time (RFC 3339, or a date)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "only events of these kinds")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an event a line")
	return cmd
}

func kindNames() []string {
	var out []string
	for _, k := range loop.Kinds() {
		out = append(out, string(k))
	}
	return out
}

func parseSince(s string, now time.Time) (time.Time, error) {
	if n, ok := days(s); ok {
		return now.AddDate(0, 0, -n), nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--since: %q is neither how long ago (90m, 36h, 7d) nor a time (%s, or %s)", s, now.Format(time.RFC3339), now.Format(time.DateOnly))
}

// days is the number of days that "7d" says.
func days(s string) (int, bool) {
	number, ok := strings.CutSuffix(s, "d")
	n, err := strconv.ParseUint(number, 10, 16)
	return int(n), ok && err == nil
}

// eventLine is e for people, on one line whatever its texts hold.
func eventLine(e loop.Event, style reconciler.Style) string {
	var what []string
	add := func(texts ...string) {
		for _, text := range texts {
			if text != "" {
				what = append(what, view.Brief(reconciler.Line(text)))
			}
		}
	}
	switch {
	case e.Session != "" || e.Sandbox != "":
		add(e.Session, strings.TrimPrefix(e.Project+"/"+e.Sandbox, "/"))
	case e.Addr != "":
		what = append(what, style.Sign(cmp.Or(e.Action, reconciler.Update)))
		add(string(e.Addr))
	case e.Part != "":
		add(e.Part)
	case e.Revision != "" && (e.Kind == loop.RevisionTaken || e.Kind == loop.RevisionRefused):
		add(view.Revision(e.Revision))
	}
	add(e.Text)
	if e.Error != "" {
		what = append(what, style.Bad(view.Brief(reconciler.Line(e.Error))))
	}
	kind := fmt.Sprintf("%-15s", reconciler.Line(string(e.Kind)))
	return fmt.Sprintf("%s  %s  %-12s  %s", e.Time.Local().Format(time.DateTime), paint(style, view.Kind(e.Kind), kind), reconciler.Line(e.By), strings.Join(what, "  "))
}

// paint is text in the colour of a grade.
func paint(style reconciler.Style, g view.Grade, text string) string {
	switch g {
	case view.Good:
		return style.Good(text)
	case view.Notable:
		return style.Notable(text)
	case view.Bad:
		return style.Bad(text)
	}
	return text
}
