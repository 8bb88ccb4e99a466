package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/owner"
)

// relation returns what t names, nil when it is not there.
func (t Table) relation(s *state) *relation {
	return s.byName[[2]string{t.Schema, t.Name}]
}

func (t Table) find(s *state) object {
	if r := t.relation(s); r != nil {
		if live, ok := s.table(r); ok {
			return live
		}
	}
	return nil
}

// make closes before it opens: row level security first, grants last.
func (t Table) make(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) { return t.alter(s) }

func (t Table) alter(s *state) ([]statement, error) {
	r := t.relation(s)
	if r == nil {
		return nil, errGone("relation")
	}
	if s.usurps(s.schemas[r.schema], r.owner) {
		return []statement{t.reclaim(s, r)}, nil
	}
	var out []statement
	if t.RowSecurity == "forced" && r.security() != "forced" {
		out = append(out, statement{sql: "ALTER TABLE " + quote(r.schema, r.name) + " ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"})
	}
	n := s.schemas[r.schema]
	revokes, grants := alterACL(r.target(), r.owner, r.acl, s.managed(n, r.owner), t.Grants)
	for _, q := range r.sequences {
		less, more := alterACL(q.target(), q.owner, q.acl, s.managed(n, q.owner), t.sequence(q.name))
		revokes, grants = append(revokes, less...), append(grants, more...)
	}
	policies := t.alterPolicies(s, r)
	if len(out)+len(policies) > 0 {
		out = append([]statement{{sql: "LOCK TABLE ONLY " + quote(r.schema, r.name) + " IN ACCESS EXCLUSIVE MODE NOWAIT"}}, out...)
	}
	return slices.Concat(out, revokes, policies, grants), nil
}

// reclaim takes the relation from a project's role: an owner is above grants
// and policies. It goes to the owner of the schema, if that is someone else.
func (t Table) reclaim(s *state, r *relation) statement {
	kind := cmp.Or(map[string]string{"v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE", "S": "SEQUENCE"}[r.kind], "TABLE")
	return statement{sql: "ALTER " + kind + " " + quote(r.schema, r.name) + " OWNER TO " + s.heir(r.schema)}
}

func (t Table) sequence(name string) []Grant {
	for _, q := range t.Sequences {
		if q.Name == name {
			return q.Grants
		}
	}
	return nil
}

// alterPolicies replaces the policies that differ. Within the transaction
// the table is locked from the first statement on: nobody sees it between.
func (t Table) alterPolicies(s *state, r *relation) []statement {
	var drop, create []statement
	var keep []string
	for _, p := range r.policies {
		if !s.counts(r, p) {
			continue
		}
		form := s.policy(r, p)
		if slices.ContainsFunc(t.Policies, form.equal) {
			keep = append(keep, p.name)
			continue
		}
		drop = append(drop, s.dropPolicy(r, p))
	}
	for _, p := range t.Policies {
		if !slices.Contains(keep, p.Name) {
			create = append(create, p.create(t)...)
		}
	}
	return append(drop, create...)
}

func (p Policy) equal(q Policy) bool {
	return p.Name == q.Name && p.Command == q.Command && p.Restrictive == q.Restrictive &&
		p.Using == q.Using && p.Check == q.Check && p.Unmarked == q.Unmarked && slices.Equal(p.Roles, q.Roles)
}

// dropPolicy removes a policy, or from one of others the roles that are
// managed, if there are any besides.
func (s *state) dropPolicy(r *relation, p livePolicy) statement {
	on := quote(p.name) + " ON " + quote(r.schema, r.name)
	var others []string
	for _, role := range p.roles {
		if role != "" && !s.bound(role) {
			others = append(others, quote(role))
		}
	}
	if !p.ours() && len(others) > 0 {
		return statement{sql: "ALTER POLICY " + on + " TO " + strings.Join(others, ", ")}
	}
	return statement{sql: "DROP POLICY " + on}
}

func (p Policy) create(t Table) []statement {
	on := quote(p.Name) + " ON " + quote(t.Schema, t.Name)
	var roles []string
	for _, r := range p.Roles {
		roles = append(roles, roleSQL(r))
	}
	sql := "CREATE POLICY " + on
	if p.Restrictive {
		sql += " AS RESTRICTIVE"
	}
	sql += " FOR " + strings.ToUpper(p.Command) + " TO " + strings.Join(roles, ", ")
	if p.Using != "" {
		sql += " USING (" + expand(p.Using) + ")"
	}
	if p.Check != "" {
		sql += " WITH CHECK (" + expand(p.Check) + ")"
	}
	return []statement{{sql: sql}, {sql: "COMMENT ON POLICY " + on + " IS " + literal(owner.Mark(string(t.Addr())))}}
}

// unmake takes the access away. Row level security stays on, or what others
// may still read would have no bounds any more; its owner, who could switch
// it off, is no longer subject to it.
func (t Table) unmake(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) {
	r := t.relation(s)
	if r == nil {
		return nil, nil
	}
	none := Table{Database: t.Database, Schema: t.Schema, Name: t.Name}
	out, err := none.alter(s)
	if err == nil && r.forced && slices.ContainsFunc(r.policies, func(p livePolicy) bool { return p.marked }) {
		out = append(out, statement{sql: "ALTER TABLE " + quote(r.schema, r.name) + " NO FORCE ROW LEVEL SECURITY"})
	}
	return out, err
}

func sortByName[T any](list []T, name func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(name(a), name(b)) })
}
