package broker

import (
	"context"
	"maps"
	"slices"
	"sync"

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

// reviews looks whenever it is to, until ctx ends and with it what it began.
func (s *Server) reviews(ctx context.Context) {
	defer s.ending.all.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.review:
			s.reviewAll(ctx)
		}
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
		s.Log.ErrorContext(ctx, "whether users may still have their sessions is not known", "error", err)
		return
	}
	users := map[uint32]*census{}
	for _, x := range list {
		if x.Operator == nil || revoked[x.ID] {
			continue
		}
		who := users[*x.Operator]
		if who == nil {
			if who, err = take(s.accounts, peer{uid: *x.Operator}); err != nil {
				s.Log.ErrorContext(ctx, "whether a user may still have a session is not known", "session", x.ID, "error", err)
				continue
			}
			users[*x.Operator] = who
		}
		why, err := who.mayNot(set, x.Project, x.Sandbox)
		switch {
		case err != nil:
			s.Log.ErrorContext(ctx, "whether a user may still have a session is not known", "session", x.ID, "error", err)
		case why != "":
			s.ending.begin(x.ID, func() { s.revoke(ctx, x, why) })
		}
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
	if err := s.Stop(ctx, x.ID, session.Order{Why: why}); err != nil && ctx.Err() == nil {
		s.Log.ErrorContext(ctx, "a session that its user may not have any more", "session", x.ID, "error", err)
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
	ok, inGroup, err := c.operator(*p)
	switch {
	case err != nil:
		return "", err
	case !ok && inGroup == "":
		return "user " + c.name + " is not an operator of project " + project + " any more", nil
	case !slices.Contains(p.Sandboxes, sandbox):
		return "project " + project + " has no sandbox " + sandbox + " any more", nil
	}
	return "", nil
}
