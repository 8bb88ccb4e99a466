package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aicodesit/cordon/reconciler/loop"
)

func example() loop.State {
	at := time.Unix(1_700_000_000, 0)
	return loop.State{
		Source:   loop.Source{Asked: at},
		Revision: &loop.Revision{ID: "sha256:1", Time: at, Since: at.Add(time.Minute), Reached: at.Add(time.Minute)},
		Parts: []loop.Part{
			{Name: "network", Condition: loop.Converged, Resources: 40, Checked: at},
			{Name: "postgres.main", Condition: loop.Failing, Pending: make([]loop.Pending, 3), Fights: make([]loop.Fight, 2)},
		},
		Sessions: []loop.Session{{ID: "a"}, {ID: "b", Stale: true}},
		Warm:     4,
	}
}

// Names, helps and types are as Prometheus' conventions want them, with
// everything there is.
func TestConventions(t *testing.T) {
	m := New("v1", example)
	m.Passed("kernel", time.Second)
	for range 2 { // what the first asking began is there the second time
		problems, err := testutil.GatherAndLint(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestState(t *testing.T) {
	m := New("v1", example)
	want := `# HELP cordon_fights Resources that something else keeps changing back.
# TYPE cordon_fights gauge
cordon_fights 2
# HELP cordon_converged 1 when all is as the newest revision says.
# TYPE cordon_converged gauge
cordon_converged 0
# HELP cordon_part_converged 1 when the part is as declared.
# TYPE cordon_part_converged gauge
cordon_part_converged{part="network"} 1
cordon_part_converged{part="postgres.main"} 0
# HELP cordon_part_pending_changes Changes of the part that are to be made.
# TYPE cordon_part_pending_changes gauge
cordon_part_pending_changes{part="network"} 0
cordon_part_pending_changes{part="postgres.main"} 3
# HELP cordon_revision_enforced_timestamp_seconds Since when it is enforced.
# TYPE cordon_revision_enforced_timestamp_seconds gauge
cordon_revision_enforced_timestamp_seconds 1.70000006e+09
# HELP cordon_part_checked_timestamp_seconds When the part was last read whole.
# TYPE cordon_part_checked_timestamp_seconds gauge
cordon_part_checked_timestamp_seconds{part="network"} 1.7e+09
# HELP cordon_sessions Sessions that run.
# TYPE cordon_sessions gauge
cordon_sessions 2
# HELP cordon_stale_sessions Sessions that run under an older profile.
# TYPE cordon_stale_sessions gauge
cordon_stale_sessions 1
# HELP cordon_build_info 1, with the version of cordon.
# TYPE cordon_build_info gauge
cordon_build_info{version="v1"} 1
`
	names := []string{
		"cordon_fights", "cordon_converged", "cordon_part_converged", "cordon_part_pending_changes", "cordon_revision_enforced_timestamp_seconds",
		"cordon_part_checked_timestamp_seconds", "cordon_sessions", "cordon_stale_sessions", "cordon_build_info",
	}
	if err := testutil.GatherAndCompare(m, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	m := New("v1", func() loop.State { return loop.State{} })
	for _, e := range []loop.Event{
		{Kind: loop.DriftSeen, Part: "network", Action: "update"},
		{Kind: loop.ChangeMade, Part: "network", Action: "update"},
		{Kind: loop.ChangeMade, Part: "network", Action: "update"},
		{Kind: loop.ChangeFailed, Part: "root", Error: "no"},
		{Kind: loop.SessionStarted, Session: "0a1b2c3d", By: "user:ann", Sandbox: "x"},
	} {
		m.Event(e)
	}
	m.Lost()
	want := `# HELP cordon_changes_total Changes made, by part and by what they did: create, update, delete.
# TYPE cordon_changes_total counter
cordon_changes_total{action="update",part="network"} 2
# HELP cordon_drift_total Resources that somebody else changed.
# TYPE cordon_drift_total counter
cordon_drift_total{part="network"} 1
# HELP cordon_part_failures_total Times that a part began to fail, or failed for another reason.
# TYPE cordon_part_failures_total counter
cordon_part_failures_total{part="root"} 1
# HELP cordon_events_lost_total Events that could not be written into the event log.
# TYPE cordon_events_lost_total counter
cordon_events_lost_total 1
`
	names := []string{"cordon_changes_total", "cordon_drift_total", "cordon_part_failures_total", "cordon_events_lost_total"}
	if err := testutil.GatherAndCompare(m, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(m, "cordon_events_total"); err != nil || n != len(loop.Kinds()) {
		t.Errorf("%d kinds of events, %v, want %d", n, err, len(loop.Kinds()))
	}
}

// What a session or a commit can choose is no label's value.
func TestNoUnboundedLabels(t *testing.T) {
	const mark = "chosen-by-others"
	s := example()
	s.Revision.ID, s.Revision.Title, s.Revision.Author, s.Revision.Signer = mark, mark, mark, mark
	s.Refused = &loop.Refusal{ID: mark, Why: mark}
	s.Sessions = []loop.Session{{ID: mark, Project: mark, Sandbox: mark, User: mark, Address: mark}}
	s.Parts[1].Why, s.Parts[1].Pending[0].Addr, s.Parts[1].Fights[0].Addr = mark, mark, mark
	m := New("v1", func() loop.State { return s })
	for _, k := range loop.Kinds() {
		m.Event(loop.Event{Kind: k, By: mark, Addr: mark, Revision: mark, Session: mark, Project: mark, Sandbox: mark, Text: mark, Error: mark})
	}
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.Contains(f.String(), mark) {
			t.Errorf("%s", f)
		}
	}
}
