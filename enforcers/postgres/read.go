package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Survey adds the relations of the declared schemas to set.
func (e *Enforcer) Survey(ctx context.Context, set specs.Set) (specs.Set, error) {
	schemas := map[string][]string{}
	for _, p := range set.Projects {
		if p.Schema != nil {
			schemas[p.Schema.Database] = append(schemas[p.Schema.Database], p.SchemaName())
		}
	}
	e.declared = schemas
	set.Tables, set.Functions, set.Servers = nil, nil, nil
	for _, d := range set.Databases {
		if len(schemas[d.Name]) == 0 {
			continue
		}
		first := len(set.Tables)
		err := e.reading(ctx, d.Name, func(tx pgx.Tx) error { return survey(ctx, tx, &set, d.Name, schemas[d.Name]) })
		if err == nil {
			err = e.normalise(ctx, set, set.Tables[first:], d.Name)
		}
		if err != nil {
			return specs.Set{}, err
		}
	}
	return set, nil
}

// surveyed is one row of surveySQL.
type surveyed struct {
	specs.Table
	kind string // pg_class.relkind
	of   uint32 // the parent's or, of a sequence, the table's oid
}

var kinds = map[string]string{"r": kindTable, "p": kindPartitioned, "v": kindView, "m": kindMatView, "f": kindForeign}

// survey adds the facts of a database to set. All is asked in one go: while
// the server works, what it has said is taken in.
func survey(ctx context.Context, tx pgx.Tx, set *specs.Set, database string, schemas []string) error {
	var tables []specs.Table
	b := new(pgx.Batch)
	b.Queue(surveySQL, schemas).Query(func(rows pgx.Rows) (err error) {
		tables, err = scanSurvey(rows, database)
		return err
	})
	b.Queue(unsafeSQL, schemas).Query(func(rows pgx.Rows) error { return scanUnsafe(rows, *set, tables, database) })
	b.Queue(surveyFunctionsSQL, schemas).Query(func(rows pgx.Rows) error {
		functions, err := scanFunctions(rows, database)
		set.Functions = append(set.Functions, functions...)
		return err
	})
	server := queueServer(b, database)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	set.Tables, set.Servers = append(set.Tables, tables...), append(set.Servers, *server)
	return nil
}

func scanSurvey(rows pgx.Rows, database string) ([]specs.Table, error) {
	all := map[uint32]*surveyed{}
	var oid uint32
	var s surveyed
	_, err := pgx.ForEachRow(rows, []any{&oid, &s.Schema, &s.Name, &s.kind, &s.Columns, &s.of, &s.Invoker}, func() error {
		found := s
		found.Database, found.Table.Kind = database, kinds[s.kind]
		slices.Sort(found.Columns)
		all[oid] = &found
		s.Columns = nil // not to be scanned into again
		return nil
	})
	if err != nil {
		return nil, err
	}
	return facts(all), nil
}

// facts joins sequences to their tables and partitions to the outermost.
func facts(all map[uint32]*surveyed) []specs.Table {
	for _, s := range all {
		table, ok := all[s.of]
		if s.kind == "S" && ok && table.Schema == s.Schema {
			table.Sequences = append(table.Sequences, s.Name)
		}
	}
	out := make([]specs.Table, 0, len(all))
	for _, s := range all {
		if s.kind == "S" {
			continue
		}
		for up, ok := all[s.of]; ok && up.Schema == s.Schema; up, ok = all[up.of] {
			s.Parent = up.Name
		}
		slices.Sort(s.Sequences)
		out = append(out, s.Table)
	}
	slices.SortFunc(out, func(a, b specs.Table) int {
		if c := strings.Compare(a.Schema, b.Schema); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// Read is all that bears the mark in the databases.
func (e *Enforcer) Read(ctx context.Context) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	for _, d := range e.options.Databases {
		err := e.reading(ctx, d.Name, func(tx pgx.Tx) error {
			s, err := readState(ctx, tx, d.Name, scope{whole: true, authenticator: d.Authenticator})
			if err != nil {
				return err
			}
			out = append(out, s.resources()...)
			for _, x := range s.exposures(d.Trusted) {
				out = append(out, x)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *state) resources() []reconciler.Resource {
	var out []reconciler.Resource
	for _, r := range s.roles {
		if s.mine(r) {
			out = append(out, s.role(r))
		}
	}
	for _, n := range s.schemas {
		if schema, ok := s.schema(n); ok {
			out = append(out, schema)
		}
	}
	for _, r := range s.relations {
		if table, ok := s.table(r); ok {
			out = append(out, table)
		}
	}
	for _, f := range s.functions {
		if function, ok := s.function(f); ok {
			out = append(out, function)
		}
	}
	for _, d := range s.allDefaults() {
		out = append(out, d)
	}
	if g, ok := s.liveGuard(); ok {
		out = append(out, g)
	}
	if d := (Database{Database: s.block}).find(s); d != nil {
		out = append(out, d)
	}
	for _, r := range s.logins {
		if s.isLogin(r.name) {
			out = append(out, s.login(r))
		}
	}
	return out
}

// mine tells whether the role is of this database block and this database:
// roles are the cluster's, and several installations may share it.
func (s *state) mine(r *liveRole) bool {
	return strings.HasPrefix(r.mark, owner.Mark(string(reconciler.NewAddr(Name, "role", s.block)))+".") &&
		strings.HasSuffix(r.mark, inDatabase+s.database)
}

// inDatabase precedes the database's own name in the mark of a role.
const inDatabase = " in database "

func (s *state) roleMark(role string) string {
	return owner.Mark(string(roleAddr(s.block, role))) + inDatabase + s.database
}

func (s *state) role(r *liveRole) Role {
	out := Role{Database: s.block, Name: r.name, Login: r.login, Drift: s.drift(r)}
	for _, m := range r.members {
		if s.becomes(m) {
			out.Members = append(out.Members, m.with)
		}
	}
	slices.Sort(out.Members)
	out.Members = slices.Compact(out.Members) // each grantor's membership stands for itself, from 16 on
	if r.mark != s.roleMark(r.name) {
		out.Drift = append(out.Drift, "marked as something else")
	}
	return out
}

func (s *state) drift(r *liveRole) []string {
	out := append(slices.Clone(r.attributes), s.strayDrift(r.name)...)
	for _, o := range r.memberOf {
		out = append(out, fmt.Sprintf("member of %q", o.with))
	}
	for _, m := range r.members {
		if !s.becomes(m) {
			out = append(out, fmt.Sprintf("has the member %q%s", m.with, m.options()))
		}
	}
	for _, c := range r.settings {
		out = append(out, "set "+c.name())
	}
	for _, server := range r.mappings {
		out = append(out, fmt.Sprintf("has a user mapping on server %q", server))
	}
	slices.Sort(out)
	return out
}

// schema is n in the normal form, and whether it bears the mark: a comment,
// or privileges of a role that bears one.
func (s *state) schema(n *liveSchema) (Schema, bool) {
	out := Schema{Database: s.block, Name: n.name, Grants: grantsOf(n.acl, s.managed(n, n.owner))}
	if n.marked {
		out.NewFunctions = newClosed
		if !n.superuser {
			out.NewFunctions = s.newFunctions(n.owner)
		}
	}
	switch {
	case !n.marked:
		out.Drift = []string{"not marked"}
	case s.bound(n.owner):
		out.Drift = []string{fmt.Sprintf("owned by %q", n.owner)}
	}
	return out, n.marked || len(out.Grants) > 0
}

func (s *state) marked(role string) bool { return s.roles[role] != nil }

// authenticates tells whether the role is the block's authenticator, also
// while it bears no mark yet.
func (s *state) authenticates(role string) bool {
	return role != "" && role == s.authenticator || s.isLogin(role)
}

// bound tells whether the role must have nothing of a project's but what is
// declared.
func (s *state) bound(role string) bool { return s.marked(role) || s.authenticates(role) }

// projects tells whether n is a project's: marked, or it was, for a role of its
// name is. What a mark that is lost had kept away is so seen together with that.
func (s *state) projects(n *liveSchema) bool {
	if n == nil {
		return false
	}
	service := s.roles[serviceOf(n)]
	return n.marked || service != nil && s.mine(service)
}

// serviceOf is the role by which a schema is known, see powerCTE.
func serviceOf(n *liveSchema) string { return specs.Project{Name: n.name}.Role(specs.RoleService) }

// usurps tells whether an owner of something in n is not to own it.
func (s *state) usurps(n *liveSchema, owner string) bool {
	return s.marked(owner) || s.projects(n) && s.authenticates(owner)
}

// managed tells whose privileges on an object in n are cordon's business:
// marked roles' everywhere, PUBLIC's in projects' schemas, the authenticator's
// there and in the catalogs. What an owner has is inherent.
func (s *state) managed(n *liveSchema, owner string) func(string) bool {
	return func(grantee string) bool {
		if grantee == "" {
			return s.projects(n)
		}
		return grantee != owner && (s.marked(grantee) || (s.projects(n) || n != nil && n.name == "pg_catalog") && s.authenticates(grantee))
	}
}

// table is r in the normal form, and whether it bears the mark: a policy's
// comment, privileges of a role that bears one, or PUBLIC's in a schema that
// does.
func (s *state) table(r *relation) (Table, bool) {
	n := s.schemas[r.schema]
	out := Table{Database: s.block, Schema: r.schema, Name: r.name, RowSecurity: r.security()}
	if r.of != 0 {
		return out, false // part of its table's access
	}
	out.Grants = grantsOf(r.acl, s.managed(n, r.owner))
	live := len(out.Grants) > 0
	for _, q := range r.sequences {
		if g := grantsOf(q.acl, s.managed(n, q.owner)); len(g) > 0 {
			out.Sequences = append(out.Sequences, Sequence{q.name, g})
			live = true
		}
	}
	for _, p := range r.policies {
		if s.counts(r, p) {
			form := s.policy(r, p)
			out.Policies = append(out.Policies, form)
			live = live || p.marked
		}
	}
	if s.usurps(n, r.owner) && (live || s.projects(n)) {
		live = true
		out.Drift = []string{fmt.Sprintf("owned by %q", r.owner)}
	}
	return out, live
}

// counts tells whether a policy is part of the access that is managed:
// cordon's own, and those of others that open rows to managed roles.
func (s *state) counts(r *relation, p livePolicy) bool {
	n := s.schemas[r.schema]
	if p.marked || !s.projects(n) {
		return p.marked
	}
	return p.ours() || p.permissive && slices.ContainsFunc(p.roles, s.managed(n, ""))
}

func (s *state) policy(r *relation, p livePolicy) Policy {
	out := Policy{
		Name: p.name, Command: policyCommands[p.command], Restrictive: !p.permissive,
		Using: shorten(p.using), Check: shorten(p.check),
		Unmarked: p.ours() && p.comment != owner.Mark(string(s.tableAddr(r))),
	}
	for _, role := range p.roles {
		switch {
		case role == "":
			out.Roles = append(out.Roles, Public)
		case s.bound(role) || p.ours():
			out.Roles = append(out.Roles, role)
		}
	}
	slices.Sort(out.Roles)
	return out
}

func (s *state) tableAddr(r *relation) reconciler.Addr {
	return Table{Database: s.block, Schema: r.schema, Name: r.name}.Addr()
}

var policyCommands = map[string]string{"*": "all", "r": "select", "a": "insert", "w": "update", "d": "delete"}
