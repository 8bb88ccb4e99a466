package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/reconciler"
)

// Explain tells the statements that Apply would send, in their order, with
// the locks that they take. What an object given away needs beyond being
// taken back shows only when it is.
func (e *Enforcer) Explain(ctx context.Context, changes []reconciler.Change) ([][]reconciler.Step, error) {
	out := make([][]reconciler.Step, len(changes))
	byBlock := map[string][]int{}
	jobs := make([]*job, len(changes))
	for i, c := range changes {
		if jobs[i] = newJob(c); jobs[i].err != nil {
			return nil, jobs[i].err
		}
		block := jobs[i].object.block()
		byBlock[block] = append(byBlock[block], i)
	}
	for block, list := range byBlock {
		var part []*job
		for _, i := range list {
			part = append(part, jobs[i])
		}
		err := e.reading(ctx, block, func(tx pgx.Tx) error {
			s, err := readState(ctx, tx, block, scopeOf(part))
			if err != nil {
				return err
			}
			for _, i := range list {
				statements, _, err := steps(ctx, tx, s, jobs[i:i+1])
				if err != nil { // Apply will say so
					out[i] = []reconciler.Step{{Text: "-- " + strings.ReplaceAll(err.Error(), "\n", " ")}}
					continue
				}
				for _, st := range statements {
					for _, sql := range st.all() {
						out[i] = append(out[i], reconciler.Step{Text: sql, Lock: lockOf(sql)})
					}
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// locks by how a statement begins; "" is none on a relation. See
// https://www.postgresql.org/docs/current/explicit-locking.html and the pages
// of the statements.
var locks = [...]struct{ prefix, lock string }{
	{"LOCK TABLE", "ACCESS EXCLUSIVE, not waited for"},
	{"ALTER TABLE", "ACCESS EXCLUSIVE"},
	{"ALTER VIEW", "ACCESS EXCLUSIVE"},
	{"ALTER MATERIALIZED VIEW", "ACCESS EXCLUSIVE"},
	{"ALTER FOREIGN TABLE", "ACCESS EXCLUSIVE"},
	{"ALTER SEQUENCE", "ACCESS EXCLUSIVE"},
	{"CREATE POLICY", "ACCESS EXCLUSIVE"},
	{"ALTER POLICY", "ACCESS EXCLUSIVE"},
	{"DROP POLICY", "ACCESS EXCLUSIVE"},
	{"COMMENT ON POLICY", "SHARE UPDATE EXCLUSIVE"},
}

func lockOf(sql string) string {
	i := slices.IndexFunc(locks[:], func(l struct{ prefix, lock string }) bool { return strings.HasPrefix(sql, l.prefix) })
	if i < 0 {
		return ""
	}
	return locks[i].lock
}
