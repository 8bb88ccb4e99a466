package ending

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

var errTold = errors.New("told so")

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("never: %s", what)
	}
}

// All that hangs on a context ends with it, for the cause that was told first.
func TestEnd(t *testing.T) {
	c := new(Context)
	derived, cancel := context.WithCancel(c)
	defer cancel()
	if c.Err() != nil || derived.Err() != nil {
		t.Error("it begins ended")
	}
	const many = 3 * few
	var called sync.WaitGroup
	called.Add(many + 1)
	for range many {
		AfterFunc(c, called.Done)
	}
	c.End(errTold)
	c.End(nil)
	AfterFunc(c, called.Done) // is called at once
	called.Wait()             // and none twice, which panics
	within(t, "a derived one ends", derived.Done())
	within(t, "it ends", c.Done())
	if !errors.Is(c.Err(), context.Canceled) || context.Cause(c) != errTold || context.Cause(derived) != errTold {
		t.Errorf("%v, for %v and %v", c.Err(), context.Cause(c), context.Cause(derived))
	}
	plain := new(Context)
	plain.End(nil)
	within(t, "what was never asked before", plain.Done())
	if context.Cause(plain) != context.Canceled || !errors.Is(plain.Err(), context.Canceled) {
		t.Error(context.Cause(plain), plain.Err())
	}
}

// What was stopped is not called, and stops nothing else.
func TestStop(t *testing.T) {
	std, cancel := context.WithCancel(context.Background())
	defer cancel()
	own := new(Context)
	for _, tt := range []struct {
		name string
		c    context.Context
		end  func()
	}{{"own", own, func() { own.End(nil) }}, {"std", std, cancel}} {
		name, c := tt.name, tt.c
		called := make(chan struct{})
		first := AfterFunc(c, func() { t.Errorf("%s: what was stopped is called", name) })
		if !first.Now() || first.Now() {
			t.Errorf("%s: not stopped, or twice", name)
		}
		second := AfterFunc(c, func() { close(called) })
		if first.Now() {
			t.Errorf("%s: it stops another", name)
		}
		tt.end()
		within(t, "the other is called", called)
		if second.Now() {
			t.Errorf("%s: stopped after it was called", name)
		}
		if AfterFunc(c, func() {}).Now() {
			t.Errorf("%s: stopped after the end", name)
		}
	}
}

// A request's context, with what is to be called in the end, is few allocations.
func TestAllocations(t *testing.T) {
	f := func() {}
	if n := testing.AllocsPerRun(100, func() {
		c := new(Context)
		one, two := AfterFunc(c, f), AfterFunc(c, f)
		two.Now()
		one.Now()
		c.End(nil)
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
