package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/aicodesit/cordon/cmd/cordon/internal/view"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// healthz is whether the process should go on living.
func (s server) healthz(w http.ResponseWriter, _ *http.Request) { answer(w, s.Alive()) }

// readyz is whether a revision is enforced and everything was looked at.
func (s server) readyz(w http.ResponseWriter, _ *http.Request) { answer(w, ready(s.State())) }

func ready(s loop.State) error {
	if s.Revision == nil || len(s.Parts) == 0 {
		return errors.New(view.Of(s).Why)
	}
	for _, p := range s.Parts {
		if p.Condition == loop.Waiting {
			return fmt.Errorf("%s was not looked at yet", p.Name)
		}
	}
	return nil
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}
