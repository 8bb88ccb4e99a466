package broker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

var errNothingYet = errors.New("the daemon enforces nothing yet: it has had no revision that it could load")

// ps lists the sessions that the caller may deal with.
func (s *Server) ps(ctx context.Context, c Caller, _ json.RawMessage) (any, error) {
	set, _ := s.Set()
	list, err := s.List(ctx, set)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(x Session) bool { return !c.operates(x.Project) }), nil
}

// stop ends one.
func (s *Server) stop(ctx context.Context, c Caller, body json.RawMessage) (any, error) {
	var q stopRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	set, _ := s.Set()
	list, err := s.List(ctx, set)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(x Session) bool { return x.ID == q.ID })
	if !c.Root && (i < 0 || !c.operates(list[i].Project)) {
		return nil, refuse("user %s operates no project with a running session %s", c.Name, quoted(q.ID))
	}
	return nil, s.Stop(ctx, q.ID, q.Order)
}

func (s *Server) set(context.Context, Caller, json.RawMessage) (any, error) {
	set, ok := s.Set()
	if !ok {
		return nil, errNothingYet
	}
	return set, nil
}

func (s *Server) state(_ context.Context, c Caller, _ json.RawMessage) (any, error) {
	if c.Root {
		return s.State(), nil
	}
	return Visible(s.State(), c), nil
}

// Visible is what of a state the operator of some projects may see: whether
// the host converged, and the sessions of those projects. What differs, why,
// and what others declare is root's to know.
func Visible(state loop.State, c Caller) loop.State {
	state.Source.Error, state.Source.Note, state.NotEnforced, state.Notes = "", "", nil, nil
	if r := state.Refused; r != nil {
		state.Refused = &loop.Refusal{ID: r.ID, Since: r.Since, Why: "root can tell"}
	}
	parts := make([]loop.Part, 0, len(state.Parts))
	for _, p := range state.Parts {
		parts = append(parts, loop.Part{Name: p.Name, Condition: p.Condition, Since: p.Since, Checked: p.Checked, Resources: p.Resources})
	}
	state.Parts = parts
	state.Sessions = slices.DeleteFunc(slices.Clone(state.Sessions), func(x loop.Session) bool { return !c.operates(x.Project) })
	return state
}

// declared is of a request what the specs know: events hold no text of a
// client's.
func (q runRequest) declared(set specs.Set) runRequest {
	if specs.Find(set.Projects, q.Project) == nil {
		q.Project = ""
	}
	if specs.Find(set.Sandboxes, q.Sandbox) == nil {
		q.Sandbox = ""
	}
	return q
}
