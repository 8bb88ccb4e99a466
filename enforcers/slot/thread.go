package slot

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// alone runs f on a thread of its own that is thrown away: f may leave it in
// another network namespace. It is never the first thread, whose namespace is
// what /proc/self and /proc/net show.
func alone(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The goroutine started below can't get this thread, which is held.
			defer runtime.UnlockOSThread()
			done <- alone(f)
			return
		}
		done <- f()
	}()
	return <-done
}

// parallel does the works 0 to n-1 on a few threads as alone has them, and
// returns an error of one that failed. begin is called on each of them, for
// what does the works there and what is called at the end.
func parallel(n int, begin func() (do func(int) error, end func(), err error)) error {
	workers := min(n, runtime.GOMAXPROCS(0), 8)
	var next atomic.Int64
	errs := make(chan error, workers)
	for range workers {
		go func() {
			errs <- alone(func() error {
				do, end, err := begin()
				if err != nil {
					return err
				}
				defer end()
				for {
					i := int(next.Add(1)) - 1
					if i >= n {
						return nil
					}
					if err := do(i); err != nil {
						return err
					}
				}
			})
		}()
	}
	var failed error
	for range workers {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}
