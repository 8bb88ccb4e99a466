package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// exchange is what is told of a request, in the audit and the metrics: never
// bodies, never keys.
type exchange struct {
	start    time.Time
	session  Session
	addr     netip.Addr
	method   string // as it came, like the next two: what may be shown is seen to when it is
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

// log writes the audit's line, as log/slog's JSON handler would, in a fraction
// of its time.
func (x *exchange) log(s *Server) {
	if s.audit == nil {
		return
	}
	now := time.Now()
	s.audit.mu.Lock()
	defer s.audit.mu.Unlock()
	l := line(s.audit.lines)
	l = append(now.AppendFormat(append(l, `{"time":"`...), time.RFC3339Nano), `","level":"INFO","msg":"request"`...)
	l = l.text("proxy", s.spec.Name).text("session", x.session.Lease.ID).text("project", x.session.Lease.Project)
	l = l.text("address", x.addr.String()).text("method", shown(x.method, "")).text("path", shown(x.path, s.spec.TokenPrefix())).number("status", int64(x.status)).millis("ms", now.Sub(x.start))
	if x.reason != "" {
		l = l.text("reason", x.reason)
	}
	if x.upstream != "" {
		l = l.text("upstream", x.upstream).text("model", shown(x.model, s.spec.TokenPrefix())).number("input_tokens", x.used.input()).
			number("cache_read_tokens", x.used.CacheRead).number("output_tokens", x.used.Output).number("bytes", x.sent).millis("first_ms", x.first)
	}
	if x.spent > 0 {
		l = l.number("money", x.spent)
	}
	s.audit.add(append(l, "}\n"...))
}

const maxUnwritten = 64 << 10 // bytes of the audit

// auditEvery is how long a line waits for others to be written with: what a
// killed cordon may not have said.
const auditEvery = 10 * time.Millisecond

// auditor writes lines, some at a time: a write each would take as long as
// what they are about.
type auditor struct {
	out   io.Writer
	flush *time.Timer

	mu    sync.Mutex
	lines line // not yet written
}

func newAuditor(out io.Writer) *auditor {
	if out == nil {
		return nil
	}
	a := &auditor{out: out, lines: make(line, 0, 4<<10)}
	a.flush = time.AfterFunc(auditEvery, a.write)
	return a
}

// add takes lines and one more in place of lines. The caller holds mu.
func (a *auditor) add(lines line) {
	if len(a.lines) == 0 {
		a.flush.Reset(auditEvery)
	}
	a.lines = lines
	if len(lines) >= maxUnwritten { // who makes more waits for the reader
		a.writeLocked()
	}
}

// write writes what is not yet written.
func (a *auditor) write() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeLocked()
}

func (a *auditor) writeLocked() {
	if len(a.lines) > 0 {
		_, _ = a.out.Write(a.lines)
		a.lines = a.lines[:0]
	}
}

// line is a JSON object in the making.
type line []byte

func (l line) name(name string) line {
	return append(append(append(l, `,"`...), name...), `":`...)
}

func (l line) number(name string, n int64) line { return strconv.AppendInt(l.name(name), n, 10) }

func (l line) millis(name string, d time.Duration) line {
	return strconv.AppendFloat(l.name(name), float64(d.Microseconds())/1000, 'f', -1, 64)
}

func (l line) text(name, text string) line {
	l = l.name(name)
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // no text makes it fail
			return append(l, quoted...)
		}
	}
	return append(append(append(l, '"'), text...), '"')
}

// metrics are the proxy's, without labels that grow with sessions or with
// what clients send.
type metrics struct {
	requests *prometheus.CounterVec // status
	ok       prometheus.Counter     // of them, status 200
	refused  *prometheus.CounterVec // reason
	tokens   tokenCounters
	failures *prometheus.CounterVec // upstream
	active   prometheus.Gauge
	first    prometheus.Histogram
}

// answered counts the answers with a status.
func (m *metrics) answered(status int) prometheus.Counter {
	if status == http.StatusOK { // nearly all
		return m.ok
	}
	return m.requests.WithLabelValues(strconv.Itoa(status))
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
	m.ok = m.requests.WithLabelValues("200")
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
