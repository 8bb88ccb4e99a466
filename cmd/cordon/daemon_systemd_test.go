package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// hanging is an enforcer that reads until it is released.
type hanging struct {
	reconciler.Enforcer
	release chan struct{}
}

func (hanging) Desired(specs.Set) ([]reconciler.Resource, error) { return nil, nil }

func (h hanging) Read(context.Context) ([]reconciler.Resource, error) {
	<-h.release
	return nil, nil
}

// A database that hangs must not get the daemon restarted; a host that does
// must.
func TestStuck(t *testing.T) {
	for name, want := range map[string]bool{kernelGroup: true, "postgres.main": false} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			d := &daemonProcess{loop: loop.New(loop.Options{})}
			d.loop.Use(loop.Target{Groups: []loop.Group{{
				Name: name, Reconciler: &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: "x", Enforcer: hanging{release: release}}}},
			}}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- d.loop.Run(ctx) }()
			time.Sleep(2 * time.Minute)
			if got := d.stuck(time.Minute); got != want {
				t.Errorf("%s hangs: stuck %t, want %t", name, got, want)
			}
			cancel()
			close(release)
			<-done
		})
	}
}
