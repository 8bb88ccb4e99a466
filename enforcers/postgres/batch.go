package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

const (
	// together bounds the changes in one transaction: each holds a lock until
	// its end, of which a server has 64 for each connection.
	together = 500
	// patience is how long a change waits for a lock while it holds those of
	// others. One that did not get it is tried again by itself.
	patience = 200 * time.Millisecond
)

// job is a change on its way.
type job struct {
	change reconciler.Change
	object object
	gone   bool   // it is to be absent
	login  string // the authenticator of its database, by the files
	after  []*job // must have been made
	err    error
}

// Apply makes one change.
func (e *Enforcer) Apply(ctx context.Context, c reconciler.Change) error {
	return e.ApplyAll(ctx, []reconciler.Change{c}, [][]int{nil})[0]
}

// ApplyAll makes changes in one transaction for each database, or a few if
// they are many: it reads again what the objects are now, sends what is
// different, and reads what has become of them. Where the server refuses
// something, or an object does not become what was wanted, the others are
// made without it and nothing of it stays.
func (e *Enforcer) ApplyAll(ctx context.Context, changes []reconciler.Change, after [][]int) []error {
	jobs := make([]*job, len(changes))
	byBlock := map[string][]*job{}
	var blocks []string
	for i, c := range changes {
		j := newJob(c)
		for _, k := range after[i] {
			j.after = append(j.after, jobs[k])
		}
		jobs[i] = j
		if j.err != nil {
			continue
		}
		block := j.object.block()
		j.login = e.authenticator(block)
		if byBlock[block] == nil {
			blocks = append(blocks, block)
		}
		byBlock[block] = append(byBlock[block], j)
	}
	for _, block := range blocks {
		for part := range slices.Chunk(byBlock[block], together) {
			e.applyPart(ctx, block, part)
		}
	}
	errs := make([]error, len(jobs))
	for i, j := range jobs {
		if errs[i] = j.err; j.err != nil && !errors.Is(j.err, reconciler.ErrNotTried) {
			errs[i] = fmt.Errorf("%s: %w", j.change.Addr(), j.err)
		}
	}
	return errs
}

func (e *Enforcer) authenticator(block string) string {
	if d := specs.Find(e.options.Databases, block); d != nil {
		return d.Authenticator
	}
	return ""
}

func newJob(c reconciler.Change) *job {
	res := c.After
	if res == nil {
		res = c.Before
	}
	o, ok := res.(object)
	if !ok {
		return &job{change: c, err: fmt.Errorf("a %T can't be applied: plan again", res)}
	}
	return &job{change: c, object: o, gone: c.After == nil}
}

// applyPart makes the jobs in one transaction, and those that lost against
// others one by one after it.
func (e *Enforcer) applyPart(ctx context.Context, block string, jobs []*job) {
	if len(jobs) > 1 {
		err := e.try(ctx, block, min(patience, e.options.lockTimeout), func(tx pgx.Tx) error { return convergeAll(ctx, tx, jobs) })
		if err != nil && !transient(err) {
			for _, j := range jobs {
				j.err = err
			}
			return
		}
		if err == nil && !slices.ContainsFunc(jobs, func(j *job) bool { return j.again() }) {
			return
		}
		e.options.Log.Debug("postgres: trying again, one by one", "database", block, "err", err)
		if err != nil { // nothing of it stays
			for _, j := range jobs {
				j.err = err
			}
		}
	}
	for _, j := range jobs {
		if len(jobs) > 1 && !j.again() {
			continue
		}
		if j.err = j.waits(); j.err == nil {
			j.err = e.change(ctx, block, func(tx pgx.Tx) error { return converge(ctx, tx, []*job{j}) })
		}
	}
}

// again tells whether a second try may do what a first one did not.
func (j *job) again() bool {
	return j.err != nil && (transient(j.err) || errors.Is(j.err, reconciler.ErrNotTried))
}

// waits is why the job can't be made: one that it needs was not.
func (j *job) waits() error {
	for _, on := range j.after {
		if on.err != nil {
			return reconciler.ErrNotTried
		}
	}
	return nil
}

// convergeAll makes the jobs, or, if that fails, each half by itself: what is
// refused is found in a number of tries that grows with the logarithm. Errors
// are those of the jobs, but for one that ends the transaction.
func convergeAll(ctx context.Context, tx pgx.Tx, jobs []*job) error {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool {
		j.err = j.waits()
		return j.err != nil
	})
	if len(jobs) == 0 {
		return nil
	}
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return converge(ctx, savepoint, jobs) })
	switch {
	case err == nil:
		return nil
	case tx.Conn().IsClosed() || ctx.Err() != nil:
		return err
	case len(jobs) == 1:
		jobs[0].err = err
		return nil
	}
	half := len(jobs) / 2
	if err := convergeAll(ctx, tx, jobs[:half]); err != nil {
		return err
	}
	return convergeAll(ctx, tx, jobs[half:])
}

// converge reads, sends what is different and reads again, until all is what
// was wanted, or returns an error.
func converge(ctx context.Context, tx pgx.Tx, jobs []*job) error {
	in := scopeOf(jobs)
	block := jobs[0].object.block()
	for range rounds {
		s, err := readState(ctx, tx, block, in)
		if err != nil {
			return err
		}
		statements, left, err := steps(ctx, tx, s, jobs)
		if err != nil || len(left) == 0 {
			return err
		}
		if len(statements) == 0 {
			return fmt.Errorf("can't be made as declared: it is %s", form(left[0].object.find(s)))
		}
		if err := run(ctx, tx, statements); err != nil {
			return err
		}
	}
	s, err := readState(ctx, tx, block, in)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if live := j.object.find(s); !j.made(live) {
			return fmt.Errorf("did not become what is declared, nothing is changed: it would be %s", form(live))
		}
	}
	return nil
}

// scopeOf is the scope of all jobs.
func scopeOf(jobs []*job) scope {
	out := scope{authenticator: jobs[0].login}
	for _, j := range jobs {
		in := j.object.scope()
		out.exposing = out.exposing || in.exposing
		out.schemas, out.roles = append(out.schemas, in.schemas...), append(out.roles, in.roles...)
	}
	slices.Sort(out.schemas)
	slices.Sort(out.roles)
	out.schemas, out.roles = slices.Compact(out.schemas), slices.Compact(out.roles)
	return out
}

func (j *job) made(live object) bool {
	return j.gone && live == nil || !j.gone && same(live, j.object.settled())
}

// steps are the statements for the jobs that are left, in their order. What a
// statement makes counts for those after it.
func steps(ctx context.Context, tx pgx.Tx, s *state, jobs []*job) (out []statement, left []*job, err error) {
	for _, j := range jobs {
		if j.made(j.object.find(s)) {
			continue
		}
		left = append(left, j)
		step := j.object.make
		if j.gone {
			step = j.object.unmake
		}
		list, err := step(ctx, tx, s)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, s.lend(j.object.scope().schemas, list)...)
		if !j.gone {
			s.pretend(j.object)
		}
	}
	return out, left, nil
}

// lend lets the roles that are acted as into the schema.
func (s *state) lend(schemas []string, list []statement) []statement {
	if len(schemas) != 1 || s.schemas[schemas[0]] == nil {
		return list
	}
	n := s.schemas[schemas[0]]
	for i, st := range list {
		in := func(p privilege) bool { return p.grantee == st.as && p.name == "USAGE" }
		if st.as != "" && st.as != n.owner && !slices.ContainsFunc(n.acl, in) {
			list[i].lend = n.name
		}
	}
	return list
}

// pretend notes that a role or a schema bears its mark.
func (s *state) pretend(o object) {
	switch o := o.(type) {
	case Role:
		if s.roles[o.Name] == nil {
			s.roles[o.Name] = &liveRole{name: o.Name, mark: s.roleMark(o.Name)}
		}
	case Login:
		if s.logins[o.Name] == nil {
			s.logins[o.Name] = &liveRole{name: o.Name, mark: s.loginMark(o.Name), login: true}
		}
	case Schema:
		if s.schemas[o.Name] == nil {
			s.schemas[o.Name] = &liveSchema{name: o.Name}
		}
		s.schemas[o.Name].marked = true
	}
}
