package daemon

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aicodesit/cordon/reconciler/loop"
)

const (
	firstRestart = 100 * time.Millisecond
	lastRestart  = time.Minute
)

// Service is something that runs as long as it is declared.
type Service struct {
	Name   string // as a part's: "proxy.llm"
	Digest string // of all that it is made of; another one restarts it
	// Start makes it ready, and run runs it until ctx ends.
	Start func(ctx context.Context) (run func() error, err error)
}

// Services run what is declared, and start again what fails.
type Services struct {
	Log  *slog.Logger
	Emit func(loop.Event)

	mu      sync.Mutex
	ctx     context.Context // of [Services.Run]; nil before
	wanted  []Service
	running map[string]*service
	all     sync.WaitGroup
}

type service struct {
	Service
	stop  context.CancelFunc
	ended chan struct{}
	part  loop.Part
}

// Run runs services until ctx ends and all have ended.
func (s *Services) Run(ctx context.Context) {
	s.mu.Lock()
	s.ctx, s.running = ctx, map[string]*service{}
	wanted := s.wanted
	s.mu.Unlock()
	s.Use(wanted)
	<-ctx.Done()
	s.all.Wait()
}

// Use makes list what runs. One that is as it was goes on undisturbed; one
// that changed ends before it begins anew.
func (s *Services) Use(list []Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = list
	if s.ctx == nil || s.ctx.Err() != nil {
		return
	}
	for name, r := range s.running {
		if !slices.ContainsFunc(list, func(w Service) bool { return w.Name == name }) {
			r.stop()
			delete(s.running, name)
		}
	}
	for _, w := range list {
		before := s.running[w.Name]
		if before != nil && before.Digest == w.Digest {
			continue
		}
		var after <-chan struct{}
		if before != nil {
			before.stop()
			after = before.ended
		}
		s.begin(w, after)
	}
}

// begin runs w once after is closed, unless it is nil.
func (s *Services) begin(w Service, after <-chan struct{}) {
	ctx, stop := context.WithCancel(s.ctx)
	r := &service{Service: w, stop: stop, ended: make(chan struct{})}
	r.part = loop.Part{Name: w.Name, Condition: loop.Waiting, Since: time.Now()}
	s.running[w.Name] = r
	s.all.Go(func() {
		defer close(r.ended)
		if after != nil {
			<-after
		}
		for failures := 1; ctx.Err() == nil; failures++ {
			if s.once(ctx, r, failures) {
				failures = 0
			}
			select {
			case <-ctx.Done():
			case <-time.After(min(firstRestart<<min(failures, 20), lastRestart)):
			}
		}
	})
}

// once runs r until it ends, and tells whether it had begun.
func (s *Services) once(ctx context.Context, r *service, failures int) (ran bool) {
	run, err := r.Start(ctx)
	if err == nil {
		s.note(r, loop.Converged, nil, 0)
		ran = true
		err = run()
	}
	if ctx.Err() == nil && err != nil {
		s.note(r, loop.Failing, err, failures)
	}
	return ran
}

// note sets how a service stands, and tells of what is new about it.
func (s *Services) note(r *service, c loop.Condition, err error, failures int) {
	s.mu.Lock()
	p := &r.part
	before, why := *p, ""
	if err != nil {
		why = err.Error()
	}
	if p.Condition != c {
		p.Condition, p.Since = c, time.Now()
	}
	p.Why, p.Failures, p.Checked = why, failures, time.Now()
	s.mu.Unlock()
	switch {
	case c == loop.Failing && why != before.Why:
		s.Emit(loop.Event{Kind: loop.ChangeFailed, Part: r.Name, Error: why})
	case c == loop.Converged && before.Condition == loop.Failing:
		s.Emit(loop.Event{Kind: loop.PartRecovered, Part: r.Name})
	}
}

// Parts are the services as a [loop.State] has them.
func (s *Services) Parts() []loop.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []loop.Part
	for _, r := range s.running {
		out = append(out, r.part)
	}
	slices.SortFunc(out, func(a, b loop.Part) int { return strings.Compare(a.Name, b.Name) })
	return out
}
