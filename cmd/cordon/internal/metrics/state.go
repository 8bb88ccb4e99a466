package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aicodesit/cordon/reconciler/loop"
)

// stateCollector shows the state at the time of asking.
type stateCollector struct {
	metrics *Metrics
	state   func() loop.State
}

// Describe tells nothing: which parts there are changes with the files.
func (c stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c stateCollector) Collect(out chan<- prometheus.Metric) {
	s := c.state()
	g := gauges{out}
	g.flag("cordon_converged", "1 when all is as the newest revision says.", s.Converged())
	g.flag("cordon_paused", "1 while nothing is repaired because somebody said so.", s.Paused != nil)
	g.flag("cordon_source_up", "1 when the source answered last.", s.Source.Error == "" && !s.Source.Asked.IsZero())
	g.time("cordon_source_asked_timestamp_seconds", "When the source was last asked.", s.Source.Asked)
	g.flag("cordon_revision_refused", "1 when the newest revision is refused and an older one, or none, is enforced.", s.Refused != nil)
	if s.Revision != nil {
		g.time("cordon_revision_timestamp_seconds", "When the revision was made that is enforced.", s.Revision.Time)
		g.time("cordon_revision_enforced_timestamp_seconds", "Since when it is enforced.", s.Revision.Since)
		g.flag("cordon_revision_reached", "1 when all had converged at the revision that is enforced.", !s.Revision.Reached.IsZero())
	}
	stale := 0
	for _, session := range s.Sessions {
		if session.Stale {
			stale++
		}
	}
	g.number("cordon_sessions", "Sessions that run.", len(s.Sessions))
	g.number("cordon_stale_sessions", "Sessions that run under an older profile.", stale)
	g.number("cordon_warm_slots", "Slots that stand ready.", s.Warm)
	fights := 0
	for _, p := range s.Parts {
		c.metrics.begin(p.Name)
		fights += len(p.Fights)
		g.part(p)
	}
	g.number("cordon_fights", "Resources that something else keeps changing back.", fights)
}

// gauges are sent as they are found.
type gauges struct{ out chan<- prometheus.Metric }

func (g gauges) part(p loop.Part) {
	g.flag("cordon_part_converged", "1 when the part is as declared.", p.Condition == loop.Converged, p.Name)
	g.flag("cordon_part_failing", "1 when the part can't be read or a change of it fails.", p.Condition == loop.Failing, p.Name)
	g.number("cordon_part_pending_changes", "Changes of the part that are to be made.", len(p.Pending), p.Name)
	g.number("cordon_part_resources", "Resources that the part is declared to have.", p.Resources, p.Name)
	g.time("cordon_part_checked_timestamp_seconds", "When the part was last read whole.", p.Checked, p.Name)
}

// set sends a gauge; a label's value, if there is one, is of the label part.
func (g gauges) set(name, help string, value float64, part ...string) {
	var labels []string
	if len(part) > 0 {
		labels = []string{"part"}
	}
	g.out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, value, part...)
}

func (g gauges) number(name, help string, n int, part ...string) {
	g.set(name, help, float64(n), part...)
}

func (g gauges) flag(name, help string, on bool, part ...string) {
	value := 0.0
	if on {
		value = 1
	}
	g.set(name, help, value, part...)
}

// time sends nothing of a time that never was.
func (g gauges) time(name, help string, t time.Time, part ...string) {
	if !t.IsZero() {
		g.set(name, help, float64(t.UnixMilli())/1000, part...)
	}
}
