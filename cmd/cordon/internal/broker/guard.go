package broker

import (
	"context"
	"sync"
	"time"
)

// How many connections wait for their answer, or for their session's start.
const (
	maxOfUser = 256
	maxOfAll  = 2048 // of users who are not root
)

// turnstile counts connections.
type turnstile struct {
	mu  sync.Mutex
	all int
	of  map[uint32]int
}

// enter lets a user's connection in. leave must be called once; further calls
// do nothing.
func (t *turnstile) enter(uid uint32) (leave func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[uid] >= maxOfUser || uid != 0 && t.all >= maxOfAll {
		return nil, false
	}
	if t.of == nil {
		t.of = map[uint32]int{}
	}
	t.of[uid]++
	if uid != 0 {
		t.all++
	}
	return sync.OnceFunc(func() { t.leave(uid) }), true
}

func (t *turnstile) leave(uid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[uid]--; t.of[uid] == 0 {
		delete(t.of, uid)
	}
	if uid != 0 {
		t.all--
	}
}

// turns bound how many sessions start at the same moment. One user has half of
// them at most: whose starts hang keeps only himself from starting more.
type turns struct {
	all chan struct{}
	mu  sync.Mutex
	of  map[uint32]*queue
}

// queue is the turns of one user, and how many hold or want one.
type queue struct {
	turns chan struct{}
	users int
}

func newTurns(n int) turns { return turns{all: make(chan struct{}, n), of: map[uint32]*queue{}} }

// take waits for a turn, or until ctx ends. Giving it back more than once does
// nothing.
func (t *turns) take(ctx context.Context, uid uint32) (give func(), err error) {
	q := t.join(uid)
	for _, c := range []chan struct{}{q.turns, t.all} {
		select {
		case c <- struct{}{}:
		case <-ctx.Done():
			if c == t.all {
				<-q.turns
			}
			t.part(uid, q)
			return nil, context.Cause(ctx)
		}
	}
	return sync.OnceFunc(func() {
		<-t.all
		<-q.turns
		t.part(uid, q)
	}), nil
}

func (t *turns) join(uid uint32) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.of[uid]
	if q == nil {
		q = &queue{turns: make(chan struct{}, max(1, cap(t.all)/2))}
		t.of[uid] = q
	}
	q.users++
	return q
}

func (t *turns) part(uid uint32, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(t.of, uid)
	}
}

// How many refusals of one user are told of at once, and after which time one
// more: the log of events is not his to fill.
const (
	refusalsAtOnce = 10
	refusalPause   = 10 * time.Second
	maxCulprits    = 1024
)

// hush decides which refusals are told of.
type hush struct {
	mu sync.Mutex
	of map[uint32]*culprit
}

type culprit struct {
	left    int
	counted time.Time
	untold  int
}

// tell counts a refusal and tells whether it is one to be told of, and how
// many before it were not.
func (h *hush) tell(uid uint32, now time.Time) (untold int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.of[uid]
	if c == nil {
		if h.of == nil || len(h.of) >= maxCulprits {
			h.of = map[uint32]*culprit{}
		}
		c = &culprit{left: refusalsAtOnce, counted: now}
		h.of[uid] = c
	}
	if more := int(now.Sub(c.counted) / refusalPause); more > 0 {
		c.left, c.counted = min(c.left+more, refusalsAtOnce), now
	}
	if c.left <= 0 {
		c.untold++
		return 0, false
	}
	c.left--
	untold, c.untold = c.untold, 0
	return untold, true
}
