package daemon

import (
	"context"
	"sync"
)

// Beginning makes a [Service.Start] of a function that says itself when it has
// begun: run calls began once or more.
func Beginning(run func(ctx context.Context, began func()) error) func(context.Context) (func() error, error) {
	return func(ctx context.Context) (func() error, error) {
		begun, ended := make(chan struct{}), make(chan error, 1)
		once := sync.OnceFunc(func() { close(begun) })
		go func() { ended <- run(ctx, once) }()
		select {
		case err := <-ended:
			return nil, err
		case <-begun:
			return func() error { return <-ended }, nil
		}
	}
}
