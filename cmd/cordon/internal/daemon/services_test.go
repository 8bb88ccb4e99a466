package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aicodesit/cordon/reconciler/loop"
)

// stage notes what services do.
type stage struct {
	mu  sync.Mutex
	log []string
	err error // of starts
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *stage) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.log, " ")
	s.log = nil
	return out
}

func (s *stage) service(name, digest string) Service {
	return Service{Name: name, Digest: digest, Start: func(ctx context.Context) (func() error, error) {
		s.mu.Lock()
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		s.note("+%s%s", name, digest)
		return func() error { <-ctx.Done(); s.note("-%s%s", name, digest); return nil }, nil
	}}
}

func TestServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &stage{}
		var told []string
		s := &Services{Log: slog.New(slog.DiscardHandler), Emit: func(e loop.Event) { told = append(told, string(e.Kind)+" "+e.Error) }}
		s.Use([]Service{st.service("a", "1")}) // before it runs
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		want := func(said string) {
			t.Helper()
			synctest.Wait()
			if got := st.said(); got != said {
				t.Errorf("%q, want %q", got, said)
			}
		}
		want("+a1")
		s.Use([]Service{st.service("a", "1"), st.service("b", "1")})
		want("+b1")
		s.Use([]Service{st.service("a", "2"), st.service("b", "1")})
		want("-a1 +a2")
		s.Use([]Service{st.service("b", "1")})
		want("-a2")

		st.err = errors.New("port taken")
		s.Use([]Service{st.service("b", "1"), st.service("c", "1")})
		time.Sleep(10 * time.Minute)
		want("")
		if p := s.Parts(); len(p) != 2 || p[0].Condition != loop.Converged || p[1].Condition != loop.Failing || p[1].Why != "port taken" || p[1].Failures < 10 {
			t.Errorf("parts %+v", p)
		}
		st.mu.Lock()
		st.err = nil
		st.mu.Unlock()
		time.Sleep(time.Minute)
		want("+c1")
		if got := strings.Join(told, "; "); got != "failure port taken; recovery " {
			t.Errorf("told %s", got)
		}
		cancel()
		<-done
		if got := st.said(); got != "-b1 -c1" && got != "-c1 -b1" {
			t.Errorf("at the end: %s", got)
		}
	})
}
