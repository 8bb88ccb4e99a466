package postgres

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// large is a world of n projects with 5 tables each, converged.
func large(t testing.TB, n int) (*world, specs.Set) {
	w := newWorld(t, fmt.Sprint("large", n), "")
	var projects []specs.Project
	for i := range n {
		projects = append(projects, project(fmt.Sprintf("p%d_%04d", n, i), "user_id",
			specs.TableAccess{Name: "t1", Anonymous: []string{"select"}},
			specs.TableAccess{Name: "t2", Authenticated: []string{"insert", "select"}},
			specs.TableAccess{Name: "t3", Authenticated: []string{}}))
	}
	const some = 50 // projects in a transaction: there is a bound on locks
	for i := 0; i < n; i += some {
		part := projects[i:min(i+some, n)]
		w.exec(fmt.Sprintf(`DO $$ BEGIN FOR i IN %d..%d LOOP
EXECUTE format('CREATE SCHEMA p%d_%%s', to_char(i, 'FM0000'));
FOR t IN 1..5 LOOP EXECUTE format('CREATE TABLE p%d_%%s.t%%s (id serial PRIMARY KEY, user_id uuid, a text, b text, c int, d timestamptz)', to_char(i, 'FM0000'), t); END LOOP;
END LOOP; END $$`, i, i+len(part)-1, n, n))
		w.applyUnchecked(w.set(part...))
	}
	t.Cleanup(func() { // one by one would take longer than all else
		w.exec(fmt.Sprintf(`DO $$ DECLARE r text; n int := 0; BEGIN FOR r IN SELECT rolname FROM pg_roles WHERE rolname LIKE 'p%d\_%%' LOOP
EXECUTE 'DROP OWNED BY ' || r; EXECUTE 'DROP ROLE ' || r; n := n + 1; IF n %% 100 = 0 THEN COMMIT; END IF;
END LOOP; UPDATE pg_description SET description = 'cleared' WHERE classoid = 'pg_namespace'::regclass AND description LIKE 'cordon:%%'; END $$`, n))
	})
	return w, w.set(projects...)
}

// BenchmarkPlan plans with nothing to do: survey, read, desired state, diff.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("projects=%d", n), func(b *testing.B) {
			w, set := large(b, n)
			r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: w.enforcer(b)}}}
			var p *reconciler.Plan
			for b.Loop() {
				var err error
				if p, err = r.Plan(context.Background(), set); err != nil {
					b.Fatal(err)
				}
			}
			if !p.Empty() || len(p.Live) != 10*n+2 {
				b.Fatalf("%d live, %d changes, %v", len(p.Live), len(p.Changes), p.Failures)
			}
		})
	}
}

// BenchmarkApply makes one project of 5 tables among many, and removes it.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10, 100} {
		b.Run(fmt.Sprintf("projects=%d", n), func(b *testing.B) {
			w, set := large(b, n)
			r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: w.enforcer(b)}}}
			less := set
			less.Projects = set.Projects[1:]
			for i := 0; b.Loop(); i++ {
				p, err := r.Plan(context.Background(), []specs.Set{less, set}[i%2])
				if err != nil || len(p.Changes) != 10 {
					b.Fatalf("%d changes, %v", len(p.Changes), err)
				}
				if err := r.Apply(context.Background(), p, nil).Err(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFromNothing makes the access of n projects of 5 tables, and says
// how many times as long it took as psql sending the same statements.
func BenchmarkFromNothing(b *testing.B) {
	const n = 50
	var took [2]time.Duration // of psql and cordon, in all rounds
	by := [2]func(*world, specs.Set) time.Duration{byPsql, byCordon}
	round := 0
	for ; b.Loop(); round++ {
		for _, i := range [2]int{round % 2, 1 - round%2} { // in turn, who begins too
			prefix := fmt.Sprintf("n%d_%d", round, i)
			w := newWorld(b, prefix, fmt.Sprintf(`DO $$ BEGIN FOR i IN 0..%d LOOP
EXECUTE format('CREATE SCHEMA %s_%%s', i);
FOR t IN 1..5 LOOP EXECUTE format('CREATE TABLE %s_%%s.t%%s (id serial PRIMARY KEY, user_id uuid, a text)', i, t); END LOOP;
END LOOP; END $$`, n-1, prefix, prefix))
			var projects []specs.Project
			for k := range n {
				projects = append(projects, project(fmt.Sprintf("%s_%d", prefix, k), "user_id", specs.TableAccess{Name: "t1", Anonymous: []string{"select"}}))
			}
			set := w.set(projects...)
			took[i] += by[i](w, set)
			if _, p := w.plan(set); !p.Empty() {
				b.Fatalf("left to do: %s", describe(p))
			}
		}
	}
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "x-of-psql")
	b.ReportMetric(took[1].Seconds()/float64(round), "s-cordon")
}

func byCordon(w *world, set specs.Set) time.Duration {
	r, p := w.plan(set)
	start := time.Now()
	if err := r.Apply(context.Background(), p, nil).Err(); err != nil {
		w.t.Fatal(err)
	}
	return time.Since(start)
}

func byPsql(w *world, set specs.Set) time.Duration {
	r, p := w.plan(set)
	steps, err := r.Enforcers[0].Enforcer.(*Enforcer).Explain(context.Background(), p.Changes)
	if err != nil {
		w.t.Fatal(err)
	}
	var script strings.Builder
	for _, list := range steps {
		for _, s := range list {
			script.WriteString(s.Text + ";\n")
		}
	}
	cmd := exec.Command("psql", "-qX1", "-v", "ON_ERROR_STOP=1", w.url)
	cmd.Stdin = strings.NewReader(script.String())
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	return time.Since(start)
}
