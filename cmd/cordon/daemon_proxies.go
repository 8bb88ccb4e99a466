package main

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/aicodesit/cordon/cmd/cordon/internal/daemon"
	"github.com/aicodesit/cordon/enforcers/proxy"
	"github.com/aicodesit/cordon/internal/secret"
	"github.com/aicodesit/cordon/specs"
)

// proxies run inside a daemon. Where credentials are and which repositories
// there are may change while one runs: no stream is cut for that.
type proxies struct {
	*app
	services daemon.Services
	metrics  registries
	now      atomic.Pointer[surroundings]
}

// surroundings is what all proxies use of the set in force.
type surroundings struct {
	set     specs.Set
	secrets *secret.Cache
	gate    gate
}

// use runs what set declares.
func (p *proxies) use(set specs.Set) {
	next := &surroundings{set: set, secrets: secret.NewCache(p.Secrets(set.Secrets))}
	if old := p.now.Load(); old != nil && digestOf(old.set.Secrets) == digestOf(set.Secrets) {
		next.secrets = old.secrets
	}
	var err error
	if next.gate, err = p.gitGate(set, next.secrets); err != nil {
		p.Log().Error("sessions' git reaches what was declared before", "error", err)
		if old := p.now.Load(); old != nil {
			next.gate = old.gate
		}
	}
	p.now.Store(next)
	p.metrics.keep(set.Proxies)
	var list []daemon.Service
	for _, spec := range set.Proxies {
		list = append(list, p.service(set, spec))
	}
	p.services.Use(list)
}

// service is one proxy.
func (p *proxies) service(set specs.Set, spec specs.Proxy) daemon.Service {
	type pool struct {
		Name string
		Pool netip.Prefix
	}
	networks := proxied(set, spec.Name)
	var pools []pool
	for _, n := range networks {
		pools = append(pools, pool{n.Name, n.Pool})
	}
	return daemon.Service{
		Name: "proxy." + spec.Name, Digest: digestOf([]any{spec, pools}),
		Start: func(ctx context.Context) (func() error, error) {
			return p.proxy(ctx, networks, proxy.Options{
				Proxy:   spec,
				Secret:  func(name string) (string, error) { return p.now.Load().secrets.Read(name) },
				Forget:  func(name string) { p.now.Load().secrets.Forget(name) },
				Git:     p.git,
				Metrics: p.metrics.fresh(spec.Name),
			})
		},
	}
}

func (p *proxies) git(w http.ResponseWriter, r *http.Request, s proxy.Session, report func(int, string)) {
	gate := p.now.Load().gate
	if gate == nil {
		report(http.StatusServiceUnavailable, "unavailable")
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	gate(w, r, s, report)
}

// registries hold the metrics of each proxy apart: one that starts again
// begins anew.
type registries struct {
	mu     sync.Mutex
	byName map[string]*prometheus.Registry
}

func (r *registries) fresh(name string) *prometheus.Registry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string]*prometheus.Registry{}
	}
	r.byName[name] = prometheus.NewRegistry()
	return r.byName[name]
}

// keep forgets those of proxies that are not declared any more.
func (r *registries) keep(list []specs.Proxy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.byName, func(name string, _ *prometheus.Registry) bool { return specs.Find(list, name) == nil })
}

// Gather implements [prometheus.Gatherer].
func (r *registries) Gather() ([]*dto.MetricFamily, error) {
	r.mu.Lock()
	var all prometheus.Gatherers
	for _, g := range r.byName {
		all = append(all, g)
	}
	r.mu.Unlock()
	return all.Gather()
}
