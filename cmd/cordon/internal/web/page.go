package web

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/aicodesit/cordon/cmd/cordon/internal/view"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// Lists are shown up to these lengths.
const (
	maxRows   = 100
	maxEvents = 40
)

// refresh is how often the page asks again, in seconds.
const refresh = 5

// data is what the page is made of. Its times are told as seen from the
// state's.
type data struct {
	loop.State
	Host    string
	Head    view.Headline
	Refresh int // seconds; 0: never
	Drifts  []drift
	Fights  []loop.Fight
	Good    int // parts that have converged
	Stale   int // sessions
	Pending list[pending]
	Running list[loop.Session]
	Events  []loop.Event // newest first
	NoLog   string       // why there are none
}

// drift is a part's last.
type drift struct {
	Part string
	loop.Drift
}

// pending is a change that is to be made, and why it was not yet.
type pending struct {
	loop.Pending
	Why string
}

// list is the beginning of a list, and how many more there are.
type list[T any] struct {
	Shown     []T
	All, More int
}

func head[T any](all []T) list[T] {
	n := min(len(all), maxRows)
	return list[T]{all[:n], len(all), len(all) - n}
}

// parse reads the template. Whatever it shows is escaped by html/template; line
// takes away what that would leave: what turns text around or is not seen.
func parse() *template.Template {
	return template.Must(template.New("page.html").Funcs(template.FuncMap{
		"line":       reconciler.Line,
		"addr":       func(a reconciler.Addr) string { return reconciler.Line(string(a)) },
		"revision":   func(id string) string { return view.Revision(reconciler.Line(id)) },
		"brief":      view.Brief,
		"condition":  view.Condition,
		"kind":       view.Kind,
		"count":      view.Count,
		"ago":        view.Ago,
		"in":         view.In,
		"span":       func(from, to time.Time) string { return view.Span(to.Sub(from)) },
		"clock":      func(t time.Time) string { return t.Local().Format(time.DateTime) },
		"short":      func(t, now time.Time) string { return shortTime(t.Local(), now.Local()) },
		"iso":        func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"sign":       sign,
		"ofRevision": func(k loop.Kind) bool { return k == loop.RevisionTaken || k == loop.RevisionRefused },
		"action":     action,
	}).ParseFS(files, "page.html"))
}

// shortTime is the time of day, with the day if that is another.
func shortTime(t, now time.Time) string {
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("Jan 2 15:04:05")
}

// action is one of the actions there are, or "".
func action(a reconciler.Action) reconciler.Action {
	switch a {
	case reconciler.Create, reconciler.Update, reconciler.Delete:
		return a
	}
	return ""
}

func sign(a reconciler.Action) string {
	switch a {
	case reconciler.Create:
		return "+"
	case reconciler.Delete:
		return "−"
	}
	return "~"
}

func (s server) page(t *template.Template) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := s.data()
		d.Refresh = refresh
		if r.URL.Query().Get("refresh") == "off" {
			d.Refresh = 0
		}
		var b bytes.Buffer
		err := t.Execute(&b, d)
		if err != nil {
			s.Log.ErrorContext(r.Context(), "the page could not be made", "error", err)
			http.Error(w, "the page could not be made: see the daemon's log", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = b.WriteTo(w) // who has gone needs nothing
	}
}

func (s server) data() data {
	d := data{State: s.State()}
	d.Head = view.Of(d.State)
	d.Host, _ = os.Hostname() // without one the page says none
	var changes []pending
	for _, p := range d.Parts {
		if p.LastDrift != nil {
			d.Drifts = append(d.Drifts, drift{p.Name, *p.LastDrift})
		}
		d.Fights = append(d.Fights, p.Fights...)
		if p.Condition == loop.Converged {
			d.Good++
		}
		for _, c := range p.Pending {
			changes = append(changes, pending{c, cmp.Or(c.Error, p.Why)})
		}
	}
	for _, session := range d.Sessions {
		if session.Stale {
			d.Stale++
		}
	}
	slices.SortFunc(d.Drifts, func(a, b drift) int { return b.At.Compare(a.At) })
	d.Pending, d.Running = head(changes), head(d.Sessions)
	events, err := s.Events(maxEvents)
	if err != nil {
		d.NoLog = err.Error()
	}
	slices.Reverse(events)
	d.Events = events
	return d
}

func style(w http.ResponseWriter, _ *http.Request) {
	b, err := files.ReadFile("style.css")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(b)
}

// icon is a gate in the colour of the state, for the browser's tab.
func (s server) icon(w http.ResponseWriter, _ *http.Request) {
	color := map[view.Grade]string{view.Good: "#1a7f4b", view.Notable: "#b7791f", view.Bad: "#c9363a"}[view.Of(s.State()).Grade]
	w.Header().Set("Content-Type", "image/svg+xml")
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="%s"/><path d="M4 4v8M8 4v8M12 4v8M2.5 8h11" stroke="#fff" stroke-width="1.4" stroke-linecap="round"/></svg>`, color)
}
