package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// Review makes the Server look, as it serves, whether those who started the
// sessions that run may still have them: another set is enforced.
func (s *Server) Review() {
	select {
	case s.review <- struct{}{}:
	default:
	}
}

// reviewPause is when a review that did not come to know all, or a session that
// could not be ended, is looked at again.
const reviewPause = 5 * time.Second

// reviews looks whenever it is to, until ctx ends and with it what it began.
func (s *Server) reviews(ctx context.Context) {
	defer s.ending.all.Wait()
	var later <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.again:
			if later == nil {
				later = time.After(reviewPause)
			}
		case <-s.review:
			s.reviewAll(ctx)
		case <-later:
			later = nil
			s.reviewAll(ctx)
		}
	}
}

// unsure logs an error after which the review is to be made again.
func (s *Server) unsure(ctx context.Context, err error, what string, args ...any) {
	if ctx.Err() != nil {
		return
	}
	s.Log.ErrorContext(ctx, what, append(args, "error", err)...)
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// reviewAll ends the sessions of users that the set in force does not permit.
// What root started by itself is root's to end. Where the user database does
// not answer, nothing is ended for that.
func (s *Server) reviewAll(ctx context.Context) {
	set, ready := s.Set()
	if !ready {
		return
	}
	revoked := s.ending.now() // first: what ends meanwhile may be in the list
	list, err := s.List(ctx, set)
	if err != nil {
		s.unsure(ctx, err, "whether users may still have their sessions is not known")
		return
	}
	users := map[uint32]*census{}
	var unknown []error
	for _, x := range list {
		if x.Operator == nil || revoked[x.ID] {
			continue
		}
		who := users[*x.Operator]
		if who == nil {
			if who, err = take(s.accounts, peer{uid: *x.Operator}); err != nil {
				unknown = append(unknown, err)
				continue
			}
			users[*x.Operator] = who
		}
		why, err := who.mayNot(set, x.Project, x.Sandbox)
		switch {
		case err != nil:
			unknown = append(unknown, err)
		case why != "":
			s.ending.begin(x.ID, func() { s.revoke(ctx, x, why) })
		}
	}
	if len(unknown) > 0 {
		s.unsure(ctx, unknown[0], "whether users may still have their sessions is not known", "sessions", len(unknown))
	}
}

// endings are the sessions that are being ended. Each may take all of its grace
// period, for which no other is kept waiting.
type endings struct {
	all sync.WaitGroup
	mu  sync.Mutex
	ids map[string]bool
}

func (e *endings) now() map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.ids)
}

func (e *endings) begin(id string, end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ids == nil {
		e.ids = map[string]bool{}
	}
	e.ids[id] = true
	e.all.Go(func() {
		end()
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.ids, id)
	})
}

// revoke ends a session as `cordon stop` does.
func (s *Server) revoke(ctx context.Context, x Session, why string) {
	s.Emit(loop.Event{Kind: loop.SessionRevoked, Session: x.ID, Project: x.Project, Sandbox: x.Sandbox, Text: why})
	if err := s.Stop(ctx, x.ID, session.Order{Why: why}); err != nil {
		s.unsure(ctx, err, "a session that its user may not have any more", "session", x.ID)
	}
}

// mayNot is why the user may not have a session that runs; "": it may. Whom the
// user database has in a group is in it, for what its processes have is not known
// any more.
func (c *census) mayNot(set specs.Set, project, sandbox string) (why string, err error) {
	p := specs.Find(set.Projects, project)
	if p == nil {
		return "project " + project + " is not declared any more", nil
	}
	operates, err := c.listed(*p)
	if err == nil && !operates && len(p.Operators) > 0 {
		operates, err = c.listedNow(*p)
	}
	switch {
	case err != nil:
		return "", err
	case !operates:
		return "user " + c.name + " is not an operator of project " + project + " any more", nil
	case !slices.Contains(p.Sandboxes, sandbox):
		return "project " + project + " has no sandbox " + sandbox + " any more", nil
	}
	return "", nil
}

// listed tells whether the project has the user for an operator.
func (c *census) listed(p specs.Project) (bool, error) {
	ok, inGroup, err := c.operator(p)
	return ok || inGroup != "", err
}

// listedNow looks again in a database that answers: one that is away for a
// moment knows nobody.
func (c *census) listedNow(p specs.Project) (bool, error) {
	if err := c.answers(); err != nil {
		return false, fmt.Errorf("the user database: %w", err)
	}
	now, err := take(c.accounts, c.peer)
	if err != nil {
		return false, err
	}
	c.name = now.name
	return now.listed(p)
}
