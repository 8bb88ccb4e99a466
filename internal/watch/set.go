package watch

import (
	"context"
	"slices"
	"time"
)

// set is the parts that are to be woken, each once.
type set []string

func (s *set) add(parts ...string) {
	for _, p := range parts {
		if !slices.Contains(*s, p) {
			*s = append(*s, p)
		}
	}
}

// wake wakes them, if there are any, and rests.
func (s set) wake(ctx context.Context, wake Wake, rest time.Duration) error {
	if len(s) > 0 {
		wake(s...)
	}
	return pause(ctx, rest)
}
