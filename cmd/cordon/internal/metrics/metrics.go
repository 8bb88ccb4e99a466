// Package metrics is what a daemon tells Prometheus. Labels are the names of
// parts, which the files declare, and of kinds, of which there are few.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/aicodesit/cordon/reconciler/loop"
)

// Metrics count what happens, and show a state as it is when they are asked
// for. They are a prometheus.Gatherer.
type Metrics struct {
	*prometheus.Registry
	changes, failures, drift, seen, lost *prometheus.CounterVec
	passes                               *prometheus.HistogramVec
}

// New returns the metrics of a daemon of that version.
func New(version string, state func() loop.State) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		changes:  counter("cordon_changes_total", "Changes made, by part and by what they did: create, update, delete.", "part", "action"),
		failures: counter("cordon_part_failures_total", "Times that a part began to fail, or failed for another reason.", "part"),
		drift:    counter("cordon_drift_total", "Resources that somebody else changed.", "part"),
		seen:     counter("cordon_events_total", "Events, by kind. Of sessions that began and ended between two looks there are none.", "kind"),
		lost:     counter("cordon_events_lost_total", "Events that could not be written into the event log."),
		passes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cordon_reconcile_duration_seconds", Help: "How long it took to look at a group of parts and to repair what differed.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"group"}),
	}
	m.lost.WithLabelValues()
	for _, k := range loop.Kinds() {
		m.seen.WithLabelValues(string(k))
	}
	info := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cordon_build_info", Help: "1, with the version of cordon.", ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	m.MustRegister(
		m.changes, m.failures, m.drift, m.seen, m.lost, m.passes, info, stateCollector{m, state},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Event counts one.
func (m *Metrics) Event(e loop.Event) {
	m.seen.WithLabelValues(string(e.Kind)).Inc()
	switch e.Kind {
	case loop.ChangeMade:
		m.changes.WithLabelValues(e.Part, string(e.Action)).Inc()
	case loop.ChangeFailed:
		m.failures.WithLabelValues(e.Part).Inc()
	case loop.DriftSeen:
		m.drift.WithLabelValues(e.Part).Inc()
	}
}

// Lost counts an event that could not be written.
func (m *Metrics) Lost() { m.lost.WithLabelValues().Inc() }

// Passed counts a look at a group.
func (m *Metrics) Passed(group string, took time.Duration) {
	m.passes.WithLabelValues(group).Observe(took.Seconds())
}

// begin makes a part's counters exist, so that the first increase is seen as
// one.
func (m *Metrics) begin(part string) {
	m.failures.WithLabelValues(part)
	m.drift.WithLabelValues(part)
	for _, action := range []string{"create", "update", "delete"} {
		m.changes.WithLabelValues(part, action)
	}
}
