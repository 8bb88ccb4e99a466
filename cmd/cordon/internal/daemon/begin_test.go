package daemon

import (
	"context"
	"errors"
	"testing"
)

func TestBeginning(t *testing.T) {
	failed := errors.New("no")
	_, err := Beginning(func(context.Context, func()) error { return failed })(t.Context())
	if !errors.Is(err, failed) {
		t.Errorf("what never began: %v, want %v", err, failed)
	}
	end := make(chan struct{})
	run, err := Beginning(func(_ context.Context, began func()) error {
		began()
		began()
		<-end
		return failed
	})(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(end)
	if err := run(); !errors.Is(err, failed) {
		t.Errorf("what began: %v, want %v", err, failed)
	}
}
