package postgres

import (
	"slices"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

// What is inferred from what was made plans nothing; what can't be declared,
// and schemas of others, are closed.
func TestInfer(t *testing.T) {
	w := newWorld(t, "infer", applicationSQL)
	for i, set := range conformanceSets(w) {
		converged(t, w, set)
		projects, notes, err := w.enforcer(t).Infer(t.Context(), "infer", anySchema)
		if err != nil || len(notes) > 0 {
			t.Fatalf("%d: %v %v", i, notes, err)
		}
		made := map[string]bool{}
		for _, p := range set.Projects {
			made[p.Name] = true
		}
		var ours []specs.Project
		for _, p := range projects {
			if made[p.Name] {
				ours = append(ours, p)
			}
		}
		back := w.set(ours...)
		if _, p := w.plan(back); !p.Empty() {
			t.Errorf("%d: the plan of what was inferred is not empty:\n%s", i, describe(p))
		}
		_, p := w.plan(w.declared(projects...))
		if more := Widens(p.Changes); len(projects) < 3 || len(more) > 0 {
			t.Errorf("%d: of %d projects: %v", i, len(projects), more)
		}
	}
	converged(t, w, conformanceSets(w)[0])
	w.exec(`CREATE POLICY odd ON shop.orders FOR SELECT TO shop_user USING (total = 3); GRANT TRUNCATE ON shop.notes TO shop_user`)
	projects, notes, err := w.enforcer(t).Infer(t.Context(), "infer", anySchema)
	if err != nil || len(notes) != 2 {
		t.Errorf("notes %v, %v; want one for each of the two tables", notes, err)
	}
	_, p := w.plan(w.declared(projects...))
	if more := Widens(p.Changes); len(more) > 0 {
		t.Errorf("inferred, it gives more: %v", more)
	}
	w.exec(`DROP POLICY odd ON shop.orders`)
}

func anySchema(string) bool { return true }

// inferred is that what is imported of a converged database, whatever others
// made around it, gives nobody more, and plans nothing for these projects unless
// there are tables that it had to declare closed, which it returns.
func inferred(t *testing.T, w *world, names ...string) (closed []string) {
	t.Helper()
	projects, notes, err := w.enforcer(t).Infer(t.Context(), w.block, anySchema)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range notes {
		parts := n.Addr.Parts()
		closed = append(closed, parts[3]+"."+parts[4])
	}
	var ours []specs.Project
	for _, p := range projects {
		if slices.Contains(names, p.Name) {
			ours = append(ours, p)
		}
	}
	_, p := w.plan(w.declared(ours...))
	if len(closed) == 0 && !p.Empty() {
		t.Errorf("the plan of what was imported is not empty:\n%s", describe(p))
	}
	_, all := w.plan(w.declared(projects...))
	if more := slices.Concat(Widens(p.Changes), Widens(all.Changes)); len(ours) != len(names) || len(more) > 0 {
		t.Errorf("imported %d of the projects, it gives more: %v", len(ours), more)
	}
	return closed
}
