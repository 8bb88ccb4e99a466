package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aicodesit/cordon/cmd/cordon/internal/metrics"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// exposed are the names of all metrics of a daemon, with their labels.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	state := func() loop.State {
		now := time.Now()
		return loop.State{Source: loop.Source{Asked: now}, Revision: &loop.Revision{Time: now, Since: now}, Parts: []loop.Part{{Name: "network", Checked: now}}}
	}
	m := metrics.New("test", state)
	m.Event(loop.Event{Kind: loop.ChangeMade, Part: "network", Action: reconciler.Update})
	m.Passed("kernel", time.Second)
	out := map[string][]string{"up": nil}
	for range 2 { // the first begins the counters of the parts
		families, err := m.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			labels := []string{"instance", "job"}
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			out[f.GetName()] = labels
			if f.GetMetric()[0].GetHistogram() != nil {
				out[f.GetName()+"_bucket"] = append(labels, "le")
			}
		}
	}
	return out
}

var (
	metricName = regexp.MustCompile(`\b(cordon|process|go)_[a-z0-9_]+|\bup\b`)
	byLabels   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	ofLabels   = regexp.MustCompile(`\$labels\.([a-z_]+)`)
	legendOf   = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
)

// checkExpr holds that what an expression asks for is there, and with it the
// labels that stand elsewhere.
func checkExpr(t *testing.T, known map[string][]string, expr string, labels []string) {
	t.Helper()
	names := metricName.FindAllString(expr, -1)
	if len(names) == 0 || strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
		t.Errorf("%s: not an expression about cordon", expr)
	}
	for _, m := range byLabels.FindAllStringSubmatch(expr, -1) {
		labels = append(labels, strings.Split(m[1], ", ")...)
	}
	for _, name := range names {
		have, ok := known[name]
		if !ok {
			t.Errorf("%s: there is no metric %s", expr, name)
			continue
		}
		for _, l := range labels {
			if name != "up" && !slices.Contains(have, l) {
				t.Errorf("%s: %s has no label %q", expr, name, l)
			}
		}
	}
}

func TestAlertsAreOfMetrics(t *testing.T) {
	known := exposed(t)
	b, err := os.ReadFile("../../examples/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range file.Groups[0].Rules {
		texts := strings.Join(slices.Collect(maps.Values(r.Annotations)), " ")
		var labels []string
		for _, m := range ofLabels.FindAllStringSubmatch(texts, -1) {
			labels = append(labels, m[1])
		}
		if strings.Contains(r.Expr, " on (") { // the other side has fewer
			left, _, _ := strings.Cut(r.Expr, " and on (")
			checkExpr(t, known, left, labels)
			labels = nil
		}
		checkExpr(t, known, r.Expr, labels)
		if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
			t.Errorf("%s: for: %v", r.Alert, err)
		}
		if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" || seen[r.Alert] {
			t.Errorf("%s: lacks something, or is there twice", r.Alert)
		}
		seen[r.Alert] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d alerts were looked at", len(seen))
	}
}

func TestDashboardIsOfMetrics(t *testing.T) {
	known := exposed(t)
	b, err := os.ReadFile("../../examples/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	type target struct{ Expr, LegendFormat string }
	var board struct {
		Title         string
		SchemaVersion int
		Panels        []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []target
		}
		Annotations struct{ List []target }
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	taken := map[[2]int]string{}
	asked := strings.Builder{}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			var labels []string
			for _, m := range legendOf.FindAllStringSubmatch(q.LegendFormat, -1) {
				labels = append(labels, m[1])
			}
			checkExpr(t, known, q.Expr, labels)
			asked.WriteString(q.Expr)
		}
		g := p.GridPos
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("%s lies on %q, or over the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	for _, a := range board.Annotations.List {
		checkExpr(t, known, a.Expr, nil)
	}
	// Everything that cordon tells is shown somewhere, but what alerts are for.
	for name := range known {
		if strings.HasPrefix(name, "cordon_") && !strings.Contains(asked.String(), strings.TrimSuffix(name, "_bucket")) &&
			!slices.Contains([]string{"cordon_events_lost_total", "cordon_source_asked_timestamp_seconds", "cordon_part_resources", "cordon_revision_reached"}, name) {
			t.Errorf("%s is not shown", name)
		}
	}
}
