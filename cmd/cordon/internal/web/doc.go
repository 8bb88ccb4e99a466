// Package web is what a daemon shows by HTTP: metrics, health, and a page for
// people. All of it can only be read.
//
// The page is made on the server and needs no script; none could run in it, as
// the browser is told. What it shows was in part chosen by others: the titles
// of commits, names, errors.
package web

import (
	"embed"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/aicodesit/cordon/reconciler/loop"
)

// Options are what is shown.
type Options struct {
	State   func() loop.State
	Events  func(n int) ([]loop.Event, error) // the newest n, oldest first
	Alive   func() error                      // why the loop does not go round; nil: it does
	Metrics prometheus.Gatherer
	Hosts   []string // names that the daemon is reached by, beside addresses, localhost and the machine's own
	Log     *slog.Logger
}

//go:embed page.html style.css
var files embed.FS

// server answers.
type server struct{ Options }

// New returns what answers GET and HEAD for /, /metrics, /healthz and /readyz.
func New(o Options) http.Handler {
	s := server{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page(parse()))
	mux.HandleFunc("GET /style.css", style)
	mux.HandleFunc("GET /icon.svg", s.icon)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	// A family that can't be gathered must not hide the others.
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelError)}))
	return guard(allowed(o.Hosts), mux)
}
