package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/reconciler"
)

// rounds bounds how often a change is computed anew in its transaction: an
// object that was given away is taken back first, which changes its grants.
const rounds = 3

// object is a Resource that can be compared with and made in the catalogs.
type object interface {
	reconciler.Resource
	block() string
	scope() scope
	// find returns what is live at the address, nil when it bears no mark.
	find(*state) object
	// make is what brings the state nearer to the object, unmake to its
	// absence. No statements: nothing can be done.
	make(context.Context, pgx.Tx, *state) ([]statement, error)
	unmake(context.Context, pgx.Tx, *state) ([]statement, error)
	// settled is the object without drift, which is never made.
	settled() object
}

// errGone tells that others were faster, errNever what is never given.
func errGone(what string) error { return fmt.Errorf("the %s is gone: plan again", what) }

func errNever(what string) error { return fmt.Errorf("%s are only ever taken away", what) }

func same(a, b object) bool { return a != nil && form(a) == form(b) }

func form(o object) string {
	if o == nil {
		return "absent"
	}
	b, err := json.Marshal(o)
	if err != nil { // structs of strings always marshal
		return err.Error()
	}
	return string(b)
}

func (r Role) block() string   { return r.Database }
func (s Schema) block() string { return s.Database }
func (t Table) block() string  { return t.Database }

func (r Role) scope() scope   { return scope{roles: []string{r.Name}} }
func (s Schema) scope() scope { return scope{schemas: []string{s.Name}} }
func (t Table) scope() scope  { return scope{schemas: []string{t.Schema}} }

func (r Role) settled() object   { r.Drift, r.Login = nil, false; return r }
func (s Schema) settled() object { s.Drift = nil; return s }
func (t Table) settled() object  { t.Drift = nil; return t }

func (r Role) find(s *state) object {
	if live := s.roles[r.Name]; live != nil && s.mine(live) {
		return s.role(live)
	}
	return nil
}

func (r Role) make(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) {
	name := quote(r.Name)
	live := s.roles[r.Name]
	if live == nil || !s.mine(live) {
		comment := "COMMENT ON ROLE " + name + " IS " + literal(s.roleMark(r.Name))
		if s.taken[r.Name] {
			return nil, fmt.Errorf("there is a role of this name that is not cordon's in this database: rename it, or let cordon have it by %s", comment)
		}
		out := []statement{{sql: "CREATE ROLE " + name + " NOLOGIN"}, {sql: comment}}
		for _, m := range r.Members {
			out = append(out, s.join(r.Name, m))
		}
		return out, nil
	}
	var out []statement
	if mark := s.roleMark(r.Name); live.mark != mark {
		out = append(out, statement{sql: "COMMENT ON ROLE " + name + " IS " + literal(mark)})
	}
	alter := slices.Clone(live.attributes)
	if live.login {
		alter = append(alter, "LOGIN")
	}
	if len(alter) > 0 {
		out = append(out, statement{sql: "ALTER ROLE " + name + " NO" + strings.Join(alter, " NO")})
	}
	for _, of := range live.memberOf {
		out = append(out, s.leave(of.with, r.Name, of))
	}
	var there []string
	for _, m := range live.members {
		if s.becomes(m) && slices.Contains(r.Members, m.with) {
			there = append(there, m.with)
			continue
		}
		out = append(out, s.leave(r.Name, m.with, m))
	}
	for _, m := range minus(r.Members, there) {
		out = append(out, s.join(r.Name, m))
	}
	out = append(out, live.reset(s.database)...)
	for _, server := range live.mappings {
		out = append(out, statement{sql: "DROP USER MAPPING FOR " + name + " SERVER " + quote(server)})
	}
	return append(out, s.dropStrays(r.Name)...), nil
}

// dependsSQL is what a role owns in this database (and of the cluster), and
// whether it stands in access control lists or policies.
const dependsSQL = `
SELECT coalesce(string_agg(pg_describe_object(d.classid, d.objid, d.objsubid), ', ') FILTER (WHERE d.deptype = 'o'), ''), count(*) > 0
FROM pg_shdepend d JOIN pg_roles r ON d.refobjid = r.oid AND d.refclassid = 'pg_authid'::regclass
WHERE r.rolname = $1 AND d.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))`

// unmake drops the role with its privileges, wherever in the database they
// are, but never what it owns.
func (r Role) unmake(ctx context.Context, tx pgx.Tx, _ *state) ([]statement, error) {
	var owned string
	var mentioned bool
	if err := tx.QueryRow(ctx, dependsSQL, r.Name).Scan(&owned, &mentioned); err != nil {
		return nil, err
	}
	if owned != "" {
		return nil, fmt.Errorf("the role is not dropped, for it owns %s: give that to another owner first", owned)
	}
	var out []statement
	if mentioned {
		out = append(out, statement{sql: "DROP OWNED BY " + quote(r.Name)})
	}
	return append(out, statement{sql: "DROP ROLE " + quote(r.Name)}), nil
}

func (s Schema) find(st *state) object {
	if n := st.schemas[s.Name]; n != nil {
		if live, ok := st.schema(n); ok {
			return live
		}
	}
	return nil
}

// adopted precedes, in the mark of a schema that others made, the comment that
// it had.
const adopted = "\n"

func (s Schema) make(_ context.Context, _ pgx.Tx, st *state) ([]statement, error) {
	var out []statement
	mark := owner.Mark(string(s.Addr()))
	n := st.schemas[s.Name]
	switch {
	case n == nil:
		n = &liveSchema{name: s.Name, marked: true}
		out = append(out, statement{sql: "CREATE SCHEMA " + quote(s.Name)}, s.comment(mark))
	case st.bound(n.owner):
		return []statement{{sql: "ALTER SCHEMA " + quote(s.Name) + " OWNER TO CURRENT_USER"}}, nil
	case !n.marked:
		out = append(s.close(st), s.comment(mark+adopted+n.comment))
	}
	managed := *n
	managed.marked = true
	revokes, grants := alterACL("SCHEMA "+quote(s.Name), n.owner, n.acl, st.managed(&managed, n.owner), s.Grants)
	out = slices.Concat(out, revokes, grants)
	if s.NewFunctions == newClosed && !n.superuser && n.owner != "" && st.newFunctions(n.owner) != newClosed {
		out = append(out, statement{sql: defaultPrivileges(n.owner, "") + " REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC"})
	}
	return out, nil
}

// close takes from PUBLIC and the authenticator what they have on what is in a
// schema that is adopted: of what gets no access, no resource would.
func (s Schema) close(all *state) []statement {
	taken := func(grantee string) bool { return grantee == "" || all.authenticates(grantee) }
	var out []statement
	for _, r := range all.relations {
		if r.schema == s.Name {
			revokes, _ := alterACL(r.target(), r.owner, r.acl, taken, nil)
			out = append(out, revokes...)
		}
	}
	for _, f := range all.functions {
		if f.schema == s.Name && !f.extension {
			revokes, _ := alterACL(f.target(), f.owner, f.acl, taken, nil)
			out = append(out, revokes...)
		}
	}
	for _, d := range all.defaults {
		if d.schema != s.Name {
			continue
		}
		for _, p := range d.acl {
			if taken(p.grantee) && p.grantee != d.maker {
				out = append(out, statement{sql: defaultPrivileges(d.maker, d.schema) + " REVOKE " + p.name + " ON " + d.kind + " FROM " + roleSQL(grantee(p))})
			}
		}
	}
	return out
}

func (s Schema) comment(text string) statement {
	sql := "COMMENT ON SCHEMA " + quote(s.Name) + " IS NULL"
	if text != "" {
		sql = strings.TrimSuffix(sql, "NULL") + literal(text)
	}
	return statement{sql: sql}
}

// contentSQL tells whether there is anything in a schema.
const contentSQL = `
SELECT EXISTS (SELECT FROM pg_depend d JOIN pg_namespace n ON d.refobjid = n.oid
WHERE d.refclassid = 'pg_namespace'::regclass AND n.nspname = $1)`

// unmake takes the access and the mark away. The schema itself goes only if
// cordon made it and there is nothing in it.
func (s Schema) unmake(ctx context.Context, tx pgx.Tx, st *state) ([]statement, error) {
	n := st.schemas[s.Name]
	out, _ := alterACL("SCHEMA "+quote(s.Name), n.owner, n.acl, st.managed(n, n.owner), nil)
	if !n.marked {
		return out, nil
	}
	if _, comment, was := strings.Cut(n.comment, adopted); was {
		return append(out, s.comment(comment)), nil
	}
	var full bool
	if err := tx.QueryRow(ctx, contentSQL, s.Name).Scan(&full); err != nil {
		return nil, err
	}
	if full {
		return append(out, s.comment("")), nil
	}
	return append(out, statement{sql: "DROP SCHEMA " + quote(s.Name) + " RESTRICT"}), nil
}
