package postgres

import (
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// What a plan says would be sent, sent by another hand, leaves nothing to do.
func TestExplainedIsWhatApplyDoes(t *testing.T) {
	w := newWorld(t, "told", `CREATE SCHEMA told; CREATE TABLE told.t (id serial, user_id text); CREATE FUNCTION told.f() RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	for _, p := range []specs.Project{
		project("told", "user_id"),
		project("told", "user_id", specs.TableAccess{Name: "t", Anonymous: []string{"select"}}),
	} {
		set := w.set(p)
		r, plan := w.plan(set)
		steps, err := r.Enforcers[0].Enforcer.(*Enforcer).Explain(t.Context(), plan.Changes)
		if err != nil {
			t.Fatal(err)
		}
		var script []string
		locked := 0
		for i, list := range steps {
			if len(list) == 0 {
				t.Errorf("%s: no statement", plan.Changes[i].Addr())
			}
			for _, s := range list {
				script = append(script, s.Text)
				if strings.HasPrefix(s.Lock, "ACCESS EXCLUSIVE") {
					locked++
				}
			}
		}
		if locked == 0 || len(plan.Changes) == 0 {
			t.Errorf("no statement takes a lock: %q", script)
		}
		pgtest.Exec(t, w.url, "BEGIN; "+strings.Join(script, ";\n")+"; COMMIT")
		if _, left := w.plan(set); !left.Empty() {
			t.Errorf("left to do:\n%s", describe(left))
		}
	}
	if got := lockOf("GRANT SELECT ON t TO u"); got != "" {
		t.Errorf("GRANT takes %q", got)
	}
	var _ reconciler.Explainer = New(Options{})
}
