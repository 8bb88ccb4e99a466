package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aicodesit/cordon/internal/leanhttp"
	"github.com/aicodesit/cordon/internal/stricthttp"
	"github.com/aicodesit/cordon/specs"
)

// Options are what a Server is made of.
type Options struct {
	Proxy    specs.Proxy
	Sessions Sessions

	// Secret returns a credential by name; it is asked at each use. Forget,
	// if set, is told of those that an upstream did not take.
	Secret func(name string) (string, error)
	Forget func(name string)

	Log   *slog.Logger
	Audit io.Writer // gets a line of JSON for each request, within 10 ms; nil for none

	State   string                // directory that keeps the budgets over restarts; "" keeps them in memory only
	Metrics prometheus.Registerer // nil for none

	// Git, if set, answers what is asked for below [specs.GitPrefix] by a
	// session whose token is valid: its git shows none. report is told the
	// answer's status and, if that is a refusal, a word for it.
	Git func(w http.ResponseWriter, r *http.Request, s Session, report func(status int, reason string))

	// Transport reaches the upstreams; nil does so directly, by HTTP/1.1, with
	// certificates that the host trusts, and without a bound on how long a
	// model thinks before it answers.
	Transport *leanhttp.Transport
}

// Server is a proxy.
type Server struct {
	spec     specs.Proxy
	policy   specs.BodyPolicy
	prices   prices
	sessions Sessions
	git      func(http.ResponseWriter, *http.Request, Session, func(int, string))
	routes   routes
	gates    *gates
	ledger   *ledger
	state    string // the ledger's file, "" for none
	metrics  *metrics
	log      *slog.Logger
	audit    *auditor // nil for none
	http     *leanhttp.Transport
	buffers  sync.Pool // of *[]byte
	bodies   sync.Pool // of *[]byte
	reads    reads
	looks    sync.Pool     // of *inspection
	counters sync.Pool     // of *counter
	stirred  chan struct{} // see keep
}

// Bounds of connections.
const (
	perAddress  = 256 // open connections of one session
	headTimeout = 10 * time.Second
	idleTimeout = 2 * time.Minute
	restTimeout = 10 * time.Second // the handler flushes what it can: that is mostly five bytes
	headBytes   = 64 << 10
	endPatience = 5 * time.Second // for requests in flight when the server ends
	bufferSize  = 4 << 10         // of an answer on its way, for each request

	// ballastSize is for memory that is never touched, so that none is taken.
	// The collector runs when as much was allocated as lives; beside a proxy
	// at rest, that is nothing, so it would run every few hundred requests.
	ballastSize = 16 << 20
)

// New returns the server of a proxy. It returns an error for a proxy that is
// declared wrong, and for budgets that were kept but can't be read.
func New(o Options) (*Server, error) {
	s := &Server{spec: o.Proxy, prices: o.Proxy.Prices, sessions: o.Sessions, git: o.Git, log: o.Log, audit: newAuditor(o.Audit), stirred: make(chan struct{}, 1)}
	if o.Transport == nil {
		o.Transport = &leanhttp.Transport{}
	}
	s.http = o.Transport
	s.buffers.New = func() any { b := make([]byte, bufferSize); return &b }
	if o.Proxy.Policy != nil {
		s.policy = *o.Proxy.Policy
	}
	s.gates, s.ledger = newGates(o.Proxy.Limit), newLedger(o.Proxy.Budgets)
	if err := s.addRoutes(o); err != nil {
		return nil, fmt.Errorf("proxy.%s: %w", o.Proxy.Name, err)
	}
	if o.State != "" {
		s.state = ledgerPath(o.State, o.Proxy.Name)
		if err := s.ledger.load(s.state); err != nil {
			return nil, fmt.Errorf("proxy.%s: budgets: %w", o.Proxy.Name, err)
		}
	}
	var err error
	if s.metrics, err = newMetrics(o.Proxy.Name, o.Metrics); err != nil {
		return nil, fmt.Errorf("proxy.%s: metrics: %w", o.Proxy.Name, err)
	}
	return s, nil
}

func (s *Server) addRoutes(o Options) error {
	var ups []*upstream
	for _, u := range o.Proxy.AllUpstreams() {
		up, err := newUpstream(u, o)
		if err != nil {
			return err
		}
		ups = append(ups, up)
	}
	if len(ups) == 0 {
		return errors.New("has no upstream")
	}
	table, err := newRoutes(ups)
	if err != nil {
		return err
	}
	for _, r := range table {
		if r.class == classFiles && !s.policy.Files || r.class == classBatches && !s.policy.Batches {
			return fmt.Errorf("path %s needs policy { files = true } or { batches = true }: they share data between all who use the credential", r.pattern())
		}
	}
	s.routes = table
	return nil
}

// Serve answers what comes over l until ctx ends, and closes l. It returns
// nil when ctx ended it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &stricthttp.Server{
		Handler:     s.serve,
		HeadTimeout: headTimeout,
		IdleTimeout: idleTimeout,
		RestTimeout: restTimeout,
		HeadBytes:   headBytes,
		PerAddress:  perAddress,
		Log:         s.log,
	}
	defer s.audit.write()
	ballast := make([]byte, ballastSize)
	defer runtime.KeepAlive(ballast)
	kept := make(chan struct{})
	keeping, stop := context.WithCancel(context.Background())
	go func() { defer close(kept); s.keep(keeping) }()
	defer func() { stop(); <-kept }()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		server.Close()
		return fmt.Errorf("proxy.%s: %w", s.spec.Name, err)
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	if server.Shutdown(patience) != nil { // streams may run for hours
		server.Close()
	}
	<-failed
	return nil
}

// stir is called when there may be something to keep.
func (s *Server) stir() {
	select {
	case s.stirred <- struct{}{}:
	default:
	}
}

// keep writes the ledger down and ends slow bodies, now and then while there is
// something to do until ctx ends, and once more.
func (s *Server) keep(ctx context.Context) {
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-s.stirred:
			select {
			case <-ctx.Done():
				done = true
			case <-time.After(saveEvery):
			}
		}
		if s.reads.end(time.Now().Add(-bodyPatience)) {
			s.stir()
		}
		if s.state == "" {
			continue
		}
		if err := s.ledger.save(s.state); err != nil {
			s.log.Error("budgets are not kept", "proxy", s.spec.Name, "error", err)
			s.stir()
		}
	}
}
