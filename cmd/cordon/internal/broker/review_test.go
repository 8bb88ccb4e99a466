package broker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

func TestReview(t *testing.T) {
	bob, eve, gone := uint32(1000), uint32(1001), uint32(4711)
	run := func(id, project, sandbox string, operator *uint32) Session {
		return Session{Status: session.Status{Lease: specs.Lease{ID: id, Project: project, Sandbox: sandbox, Operator: operator}}}
	}
	list := []Session{
		run("named", "shop", "shell", &bob), run("grouped", "shop", "shell", &eve), run("unknown", "shop", "shell", &gone),
		run("root", "shop", "shell", nil), run("unpaired", "shop", "agent", &bob), run("undeclared", "old", "shell", &bob),
	}
	d := db{
		users: map[string]uint32{"bob": bob, "eve": eve}, groups: map[string]uint32{"shop": 50},
		in: map[uint32][]uint32{eve: {1001, 50}}, // its process may have the group or not
	}
	for name, c := range map[string]struct {
		operators []string
		broken    bool
		want      []string // ended, with a word of why
	}{
		"permitted":        {[]string{"user:bob", "group:shop"}, false, []string{"undeclared: not declared", "unknown: user 4711", "unpaired: no sandbox agent"}},
		"a user less":      {[]string{"group:shop"}, false, []string{"named: user bob", "undeclared: not declared", "unknown: user 4711", "unpaired: user bob"}},
		"a group less":     {[]string{"user:bob"}, false, []string{"grouped: user eve", "undeclared: not declared", "unknown: user 4711", "unpaired: no sandbox agent"}},
		"nobody":           {nil, false, []string{"grouped: user eve", "named: user bob", "undeclared: not declared", "unknown: user 4711", "unpaired: user bob"}},
		"no user database": {[]string{"user:bob", "group:shop"}, true, []string{"undeclared: not declared"}},
	} {
		var mu sync.Mutex
		var ended []string
		told := map[string]string{}
		s := New(Options{
			Set: func() (specs.Set, bool) {
				return specs.Set{Projects: []specs.Project{{Name: "shop", Operators: c.operators, Sandboxes: []string{"shell"}}}}, true
			},
			List: func(context.Context, specs.Set) ([]Session, error) { return list, nil },
			Stop: func(_ context.Context, id string, o session.Order) error {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, id+": "+o.Why)
				return nil
			},
			Emit: func(e loop.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == loop.SessionRevoked {
					told[e.Session] = e.Text
				}
			},
		})
		d.broken = c.broken
		s.accounts = d
		s.reviewAll(t.Context())
		slices.Sort(ended)
		if len(ended) != len(c.want) {
			t.Errorf("%s: ended %q, want %q", name, ended, c.want)
			continue
		}
		for i, want := range c.want {
			id, why, _ := strings.Cut(want, ": ")
			if !strings.HasPrefix(ended[i], id+": ") || !strings.Contains(ended[i], why) || id+": "+told[id] != ended[i] {
				t.Errorf("%s: ended %q and told %q, want %q", name, ended[i], told[id], want)
			}
		}
	}
}
