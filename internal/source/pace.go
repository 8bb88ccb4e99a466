package source

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Pace is the rhythm of a poll: intervals that differ by up to a tenth, in a
// sequence of the host's own, so that a fleet that was started at once does
// not ask its git server at once.
type Pace struct {
	interval time.Duration
	random   *rand.Rand
}

// NewPace returns the rhythm of a host. It always is the same for the same
// name.
func NewPace(host string, interval time.Duration) *Pace {
	h := fnv.New64a()
	_, _ = h.Write([]byte(host))
	return &Pace{interval: interval, random: rand.New(rand.NewPCG(h.Sum64(), 0))}
}

// Next returns how long to wait this time.
func (p *Pace) Next() time.Duration {
	tenth := p.interval / 10
	return p.interval - tenth + time.Duration(p.random.Int64N(2*int64(tenth)+1))
}

// Poll calls ring in the rhythm until ctx ends. The first time is at a random
// part of the interval: whoever starts it has just looked.
func (p *Pace) Poll(ctx context.Context, ring func()) error {
	wait := time.Duration(p.random.Int64N(int64(p.interval) + 1))
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
			ring()
		}
		wait = p.Next()
	}
}
