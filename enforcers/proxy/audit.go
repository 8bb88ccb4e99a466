package proxy

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// exchange is what is told of a request, in the audit and the metrics: never
// bodies, never keys.
type exchange struct {
	start    time.Time
	session  Session
	addr     string
	method   string
	path     string
	model    string
	upstream string
	status   int
	reason   string // why it was refused or cut, one of a few words; "" for neither
	used     usage
	spent    int64 // millionths
	sent     int64 // bytes of the answer's body
	first    time.Duration
}

const maxLogged = 200

// shown is a text of the client's as it may be logged: bounded, and without
// anything like a token.
func shown(text, prefix string) string {
	for _, like := range []string{prefix, "sk-ant-", "sk-proj-"} {
		if like != "" && strings.Contains(text, like) {
			return "[redacted]"
		}
	}
	if len(text) > maxLogged {
		return text[:maxLogged] + "…"
	}
	return text
}

// log writes the audit's line.
func (x *exchange) log(ctx context.Context, audit *slog.Logger, proxy string) {
	if audit == nil || !audit.Enabled(ctx, slog.LevelInfo) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 16), // all that follow
		slog.String("proxy", proxy), slog.String("session", x.session.Lease.ID), slog.String("project", x.session.Lease.Project),
		slog.String("address", x.addr), slog.String("method", x.method), slog.String("path", x.path), slog.Int("status", x.status),
		slog.Float64("ms", float64(time.Since(x.start).Microseconds())/1000),
	)
	if x.reason != "" {
		attrs = append(attrs, slog.String("reason", x.reason))
	}
	if x.upstream != "" {
		attrs = append(attrs, slog.String("upstream", x.upstream), slog.String("model", x.model), slog.Int64("input_tokens", x.used.input()),
			slog.Int64("cache_read_tokens", x.used.CacheRead), slog.Int64("output_tokens", x.used.Output), slog.Int64("bytes", x.sent),
			slog.Float64("first_ms", float64(x.first.Microseconds())/1000))
	}
	if x.spent > 0 {
		attrs = append(attrs, slog.Int64("money", x.spent))
	}
	// Not by the Logger, which would look up from where it is called.
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "request", 0)
	r.AddAttrs(attrs...)
	_ = audit.Handler().Handle(ctx, r)
}

// metrics are the proxy's, without labels that grow with sessions or with
// what clients send.
type metrics struct {
	requests *prometheus.CounterVec // status
	refused  *prometheus.CounterVec // reason
	tokens   tokenCounters
	failures *prometheus.CounterVec // upstream
	active   prometheus.Gauge
	first    prometheus.Histogram
}

type tokenCounters struct{ input, cacheRead, cacheWrite, output prometheus.Counter }

func (t tokenCounters) add(u usage) {
	t.input.Add(float64(u.Input))
	t.cacheRead.Add(float64(u.CacheRead))
	t.cacheWrite.Add(float64(u.CacheWrite + u.CacheWriteLong))
	t.output.Add(float64(u.Output))
}

func newMetrics(proxy string, registry prometheus.Registerer) (*metrics, error) {
	labels := prometheus.Labels{"proxy": proxy}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cordon", Subsystem: "proxy", Name: name, Help: help, ConstLabels: labels}, []string{label})
	}
	m := &metrics{
		requests: counter("requests_total", "Requests answered, by status.", "status"),
		refused:  counter("refused_total", "Requests refused or cut by the proxy, by reason.", "reason"),
		failures: counter("upstream_failures_total", "Tries that an upstream failed, by upstream.", "upstream"),
		active:   prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "cordon", Subsystem: "proxy", Name: "active_requests", Help: "Requests being answered.", ConstLabels: labels}),
		first: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "cordon", Subsystem: "proxy", Name: "first_byte_seconds", Help: "From the request to the first byte of its answer.", ConstLabels: labels,
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}),
	}
	tokens := counter("tokens_total", "Tokens charged, by kind.", "kind")
	kind := func(name string) prometheus.Counter { return tokens.WithLabelValues(name) }
	m.tokens = tokenCounters{kind("input"), kind("cache_read"), kind("cache_write"), kind("output")}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.refused, tokens, m.failures, m.active, m.first} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
