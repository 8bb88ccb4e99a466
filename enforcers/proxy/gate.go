package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
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
	open map[gateKey]*gate
}

// gateKey tells sessions apart, as Session.key does.
type gateKey struct {
	id      string
	started int64
}

func newGates(limit *specs.ProxyLimit) *gates {
	g := &gates{open: map[gateKey]*gate{}}
	if limit != nil {
		g.limit = *limit
	}
	if g.limit.Body <= 0 {
		g.limit.Body = defaultBody
	}
	return g
}

// of returns the session's gate, which goes when the session or its token does.
func (g *gates) of(s *Session) *gate {
	key := gateKey{s.Lease.ID, s.Lease.Started.Unix()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if have := g.open[key]; have != nil && have.alive == s.Alive {
		return have
	}
	made := g.make(key, s.Alive)
	g.open[key] = made
	return made
}

// make is apart from of, where what it keeps would be allocated each time.
func (g *gates) make(key gateKey, alive context.Context) *gate {
	made := &gate{all: g, alive: alive}
	context.AfterFunc(alive, func() {
		g.mu.Lock()
		if g.open[key] == made { // not that of the session's next token
			delete(g.open, key)
		}
		g.mu.Unlock()
		made.end(ended(alive))
	})
	return made
}

// gate is one session's.
type gate struct {
	all   *gates
	alive context.Context // the session's

	mu      sync.Mutex
	times   []int64 // when the requests of the last minute came, in nanoseconds since 1970, if there is a rate
	memory  int64
	running []*ending.Context // the requests that were admitted: at most one for each of the session's connections
	over    error             // why it ended
}

// enter admits a request, which leaves in the end, and ends when the session does,
// at once if that has. Refused ones don't count.
func (g *gate) enter(request *ending.Context, now time.Time) *refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	limit := &g.all.limit
	if limit.RequestsPerMinute > 0 {
		if wait := g.wait(now, limit.RequestsPerMinute); wait > 0 {
			return tooMany("rate", fmt.Sprintf("more than %d requests in a minute", limit.RequestsPerMinute), wait)
		}
	}
	if limit.Concurrent > 0 && len(g.running) >= limit.Concurrent {
		return tooMany("concurrent", fmt.Sprintf("more than %d requests at a time", limit.Concurrent), time.Second)
	}
	if limit.RequestsPerMinute > 0 {
		g.times = append(g.times, now.UnixNano())
	}
	if g.over != nil {
		request.End(g.over)
	}
	g.running = append(g.running, request)
	return nil
}

// leave lets go of a request that is through, and makes room for another.
func (g *gate) leave(request *ending.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.running, request); i >= 0 {
		g.running = slices.Delete(g.running, i, i+1)
	}
}

// end ends the session's requests, of now and later.
func (g *gate) end(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = cause
	for _, request := range g.running {
		request.End(cause)
	}
}

// wait is how long it takes until there are fewer than most in a minute.
func (g *gate) wait(now time.Time, most int) time.Duration {
	past := now.Add(-rateWindow).UnixNano()
	for len(g.times) > 0 && g.times[0] <= past {
		g.times = g.times[1:]
	}
	if len(g.times) < most {
		return 0
	}
	return time.Duration(g.times[0] - past)
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
