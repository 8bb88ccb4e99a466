package ending

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
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
	c := New()
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
	plain := New()
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
	own := New()
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

func TestOf(t *testing.T) {
	own := New()
	c, release := Of(own)
	release()
	if c != own || own.Err() != nil {
		t.Error("a Context is not taken as it is")
	}
	parent, cancel := context.WithCancelCause(context.Background())
	c, release = Of(parent)
	defer release()
	called := make(chan struct{})
	AfterFunc(c, func() { close(called) })
	cancel(errTold)
	within(t, "it ends with its parent", called)
	if context.Cause(c) != errTold {
		t.Error(context.Cause(c))
	}
	c, release = Of(context.Background())
	if release(); c.Err() == nil {
		t.Error("it outlives its release")
	}
	parent, cancel = context.WithCancelCause(context.Background())
	c, release = Of(parent)
	defer release()
	if cancel(errTold); c.Err() == nil { // at once, before it is told
		t.Error("it outlives its parent")
	}
}

// Why it ended stays the same, before it is told of its parent's end and after.
func TestErrStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c, release := Of(parent)
		defer release()
		time.Sleep(time.Second)
		synctest.Wait()
		for range 2 {
			if err := c.Err(); err != context.DeadlineExceeded {
				t.Errorf("it ended by its parent's deadline: %v", err)
			}
			<-c.Done()
		}
	})
}

// A request's context, with what is to be called in the end, is few allocations.
func TestAllocations(t *testing.T) {
	f := func() {}
	if n := testing.AllocsPerRun(100, func() {
		c := New()
		one, two := AfterFunc(c, f), AfterFunc(c, f)
		two.Now()
		one.Now()
		c.End(nil)
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
