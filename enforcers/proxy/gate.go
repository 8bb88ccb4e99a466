package proxy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aicodesit/cordon/specs"
)

// Bounds that are not declared.
const (
	bodyMemory  = 256 << 20 // of bodies of all sessions together, in bytes
	defaultBody = 32 << 20  // a body when not declared, in bytes: what the API itself takes
	rateWindow  = time.Minute
)

// gates holds each session's rate, concurrency and memory.
type gates struct {
	limit  specs.ProxyLimit
	memory atomic.Int64 // of bodies held now, in bytes

	mu   sync.Mutex
	open map[string]*gate
}

func newGates(limit *specs.ProxyLimit) *gates {
	g := &gates{open: map[string]*gate{}}
	if limit != nil {
		g.limit = *limit
	}
	if g.limit.Body <= 0 {
		g.limit.Body = defaultBody
	}
	return g
}

// of returns the session's gate, which goes when the session does.
func (g *gates) of(s Session) *gate {
	key := s.key()
	g.mu.Lock()
	defer g.mu.Unlock()
	if have := g.open[key]; have != nil {
		return have
	}
	made := &gate{all: g, times: make([]time.Time, g.limit.RequestsPerMinute)}
	g.open[key] = made
	context.AfterFunc(s.Alive, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.open, key)
	})
	return made
}

// gate is one session's.
type gate struct {
	all *gates

	mu     sync.Mutex
	times  []time.Time // when the last requests came, a ring
	next   int         // the oldest of times
	active int
	memory int64
}

// enter admits a request. Refused ones don't count.
func (g *gate) enter(now time.Time) (leave func(), bad *refusal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	limit := g.all.limit
	if len(g.times) > 0 {
		if wait := g.times[g.next].Add(rateWindow).Sub(now); wait > 0 {
			return nil, tooMany("rate", fmt.Sprintf("more than %d requests in a minute", limit.RequestsPerMinute), wait)
		}
	}
	if limit.Concurrent > 0 && g.active >= limit.Concurrent {
		return nil, tooMany("concurrent", fmt.Sprintf("more than %d requests at a time", limit.Concurrent), time.Second)
	}
	if len(g.times) > 0 {
		g.times[g.next] = now
		g.next = (g.next + 1) % len(g.times)
	}
	g.active++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.active--
	}, nil
}

// hold takes memory for bodies, of which a session may have a quarter, or
// one body. It never waits: who waits holds what others wait for.
func (g *gate) hold(n int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.memory+n > max(bodyMemory/4, g.all.limit.Body) {
		return false
	}
	if g.all.memory.Add(n) > bodyMemory {
		g.all.memory.Add(-n)
		return false
	}
	g.memory += n
	return true
}

func (g *gate) release(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.memory -= n
	g.all.memory.Add(-n)
}
