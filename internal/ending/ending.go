// Package ending has a context for one request, which ends once and tells why.
// What is to happen then is kept in the context itself. [context.AfterFunc]
// makes a context of its own for each function, and a map in the one it hangs
// on: of a request that several parts watch, that was a quarter of all that was
// allocated for it. One of the standard library is made only where it is asked
// for, which for most requests is never.
package ending

import (
	"context"
	"slices"
	"sync"
	"time"
)

// few is how many functions a Context keeps without allocating.
const few = 4

// Context is a [context.Context] that ends by End. [context.Cause] tells why,
// and contexts that are derived from it end with it. The zero Context is ready to
// use.
type Context struct {
	mu     sync.Mutex
	std    context.Context // the standard library's, once it is asked for
	cancel context.CancelCauseFunc
	ended  bool
	cause  error
	told   int // how many functions there ever were
	room   [few]entry
	after  []entry
}

// entry is a function that is to be called.
type entry struct {
	number int // from 1 on
	call   func()
}

// End ends the context and calls what was to be called then, each in a
// goroutine of its own. The first call tells the cause; nil is
// [context.Canceled].
func (c *Context) End(cause error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	after := c.after
	c.ended, c.cause, c.after = true, cause, nil
	if c.cancel != nil {
		c.cancel(cause)
	}
	c.mu.Unlock()
	for _, e := range after {
		go e.call()
	}
}

// standard is the context of the standard library, which ends with this one.
func (c *Context) standard() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.std == nil {
		c.std, c.cancel = context.WithCancelCause(context.Background())
		if c.ended {
			c.cancel(c.cause)
		}
	}
	return c.std
}

// Deadline tells that there is none.
func (c *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed at the end.
func (c *Context) Done() <-chan struct{} { return c.standard().Done() }

// Err is nil before the end. What it is then the standard library's context says,
// from the first time on: it must not change when that is asked for later.
func (c *Context) Err() error {
	c.mu.Lock()
	lives := c.std == nil && !c.ended
	c.mu.Unlock()
	if lives {
		return nil
	}
	return c.standard().Err()
}

// Value is also how [context.Cause], and contexts that are derived, find what
// they hang on.
func (c *Context) Value(key any) any { return c.standard().Value(key) }

// Stop takes back what AfterFunc was told.
type Stop struct {
	context *Context
	number  int
	std     func() bool
}

// Now keeps the function from being called. It returns false if that was
// called, or stopped before; it does not wait for it.
func (s Stop) Now() bool {
	if s.std != nil {
		return s.std()
	}
	s.context.mu.Lock()
	defer s.context.mu.Unlock()
	for i, e := range s.context.after {
		if e.number == s.number {
			s.context.after = slices.Delete(s.context.after, i, i+1)
			return true
		}
	}
	return false
}

// AfterFunc is [context.AfterFunc], which allocates next to nothing for a
// Context.
func AfterFunc(ctx context.Context, f func()) Stop {
	c, ok := ctx.(*Context)
	if !ok {
		return Stop{std: context.AfterFunc(ctx, f)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		go f()
		return Stop{context: c}
	}
	c.told++
	if c.after == nil {
		c.after = c.room[:0]
	}
	c.after = append(c.after, entry{c.told, f})
	return Stop{context: c, number: c.told}
}
