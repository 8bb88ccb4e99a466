package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/reconciler"
)

// state is what the catalogs say, in their own terms. Resources are made of
// it in read.go, statements in apply.go.
type state struct {
	block, database, user string // the block's name, the database's, and as whom it was read
	roles                 map[string]*liveRole
	logins                map[string]*liveRole
	taken                 map[string]bool // names of roles asked for that are there, marked or not
	schemas               map[string]*liveSchema
	relations             map[uint32]*relation
	byName                map[[2]string]*relation     // by schema and name
	bySignature           map[[2]string]*liveFunction // by schema and signature
	functions             []*liveFunction
	defaults              []liveDefault
	guard                 liveGuard
	live                  liveDatabase
	strays                []stray
	exposing              []exposing
	version               int
	authenticator         string // by the files; it may lack its mark still
	conditions            conditions
}

// liveRole is a role that bears a mark, of any installation.
type liveRole struct {
	name, mark string
	login      bool
	attributes []string // SUPERUSER and the like, that it should not have
	memberOf   []membership
	members    []membership
	settings   []setting
	mappings   []string // foreign servers that it is somebody on
	inherit    bool
}

type liveSchema struct {
	name, owner, comment string
	acl                  []privilege
	marked               bool // of this database block
	superuser            bool // the owner is
}

type relation struct {
	oid                 uint32
	schema, name, kind  string // kind as pg_class.relkind
	owner               string
	rowSecurity, forced bool
	acl                 []privilege // columns' too
	of                  uint32      // of a serial column's sequence: its table
	sequences           []*relation
	policies            []livePolicy
}

type livePolicy struct {
	name, command, using, check, comment string
	permissive, marked                   bool
	roles                                []string // "" is PUBLIC
	oid                                  uint32
	usingAt, checkAt                     int // where in the conditions they are, -1 for none
}

// ours tells whether it is cordon's to change in any way: by its mark, or by
// its name, which cordon has for itself on the tables of marked schemas.
func (p livePolicy) ours() bool { return p.marked || strings.HasPrefix(p.name, policyPrefix) }

// security is the relation's row level security in the normal form.
func (r *relation) security() string {
	switch {
	case r.kind != "r" && r.kind != "p":
		return ""
	case !r.rowSecurity:
		return "off"
	case !r.forced:
		return "enabled"
	}
	return "forced"
}

// target is the relation as GRANT names it.
func (r *relation) target() string {
	if r.kind == "S" {
		return "SEQUENCE " + quote(r.schema, r.name)
	}
	return "TABLE " + quote(r.schema, r.name)
}

// scope is what to read: everything that bears a mark, or all there is in some
// schemas, and some roles. The marks of all roles that occur are included.
type scope struct {
	whole          bool
	exposing       bool // also what exposes rows from outside; whole includes it
	schemas, roles []string
	authenticator  string // by the files, "" is none
}

// readState asks the same few queries whatever the number of objects.
func readState(ctx context.Context, tx pgx.Tx, block string, in scope) (*state, error) {
	s := &state{block: block, authenticator: in.authenticator, roles: map[string]*liveRole{}, logins: map[string]*liveRole{}, taken: map[string]bool{}, schemas: map[string]*liveSchema{}, relations: map[uint32]*relation{}, byName: map[[2]string]*relation{}, bySignature: map[[2]string]*liveFunction{}, conditions: conditions{shapes: map[string]*shape{}}}
	b := new(pgx.Batch)
	b.Queue(sessionSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&s.database, &s.user, &s.version) })
	s.queueSchemas(b, in)
	s.queueRelations(b, in)
	s.queueFunctions(b, in)
	s.queueDefaults(b)
	s.queueGuard(b)
	s.queueDatabase(b)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	s.link()
	b = new(pgx.Batch)
	s.conditions.queue(b, 0)
	s.queueRoles(b, in)
	s.queueStrays(b)
	if in.whole || in.exposing {
		s.queueExposing(b)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	return s, s.settle(ctx, tx)
}

func (s *state) queueSchemas(b *pgx.Batch, in scope) {
	sql, args := schemasSQL, []any(nil)
	if !in.whole {
		sql, args = sql+" AND n.nspname = ANY ($1)", []any{in.schemas}
	}
	b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		var n liveSchema
		var acl []string
		_, err := pgx.ForEachRow(rows, []any{&n.name, &n.owner, &acl, &n.comment, &n.superuser}, func() error {
			found := n
			mark, _, _ := strings.Cut(n.comment, "\n")
			found.marked = isMark(mark, "schema", s.block)
			var err error
			found.acl, err = parseACL(acl, "")
			s.schemas[n.name] = &found
			return err
		})
		return err
	})
}

// isMark tells whether text marks something of the kind in the database block.
func isMark(text, kind, block string) bool {
	return strings.HasPrefix(text, owner.Mark(string(reconciler.NewAddr(Name, kind, block)))+".")
}

func (s *state) queueRelations(b *pgx.Batch, in scope) {
	which, columns, policies, args := relationsAll, "true", "true", []any(nil)
	if !in.whole {
		which, columns, policies, args = "n.nspname = ANY ($1)", "a.attrelid IN "+relationsOf, "p.polrelid IN "+relationsOf, []any{in.schemas}
	}
	b.Queue(relationsSQL+which, args...).Query(s.scanRelations)
	b.Queue(columnsSQL+columns, args...).Query(s.scanColumns)
	b.Queue(policiesSQL+policies, args...).Query(s.scanPolicies)
}

func (s *state) scanRelations(rows pgx.Rows) error {
	var r relation
	lists := acls{}
	_, err := pgx.ForEachRow(rows, []any{&r.oid, &r.schema, &r.name, &r.kind, &r.rowSecurity, &r.forced, &r.owner, nil, &r.of}, func() error {
		found := r
		var err error
		found.acl, err = lists.read(rows, 7)
		s.relations[r.oid] = &found
		return err
	})
	return err
}

func (s *state) scanColumns(rows pgx.Rows) error {
	var oid uint32
	var column string
	var acl []string
	_, err := pgx.ForEachRow(rows, []any{&oid, &column, &acl}, func() error {
		list, err := parseACL(acl, column)
		if r := s.relations[oid]; r != nil {
			r.acl = append(r.acl, list...)
		}
		return err
	})
	return err
}

// link hands the sequences of serial columns to their tables. One whose table
// is in another schema, or has no access of its own, stands for itself.
func (s *state) link() {
	for _, q := range s.relations {
		table := s.relations[q.of]
		if table == nil || table.schema != q.schema {
			q.of = 0
			continue
		}
		table.sequences = append(table.sequences, q)
	}
	for _, r := range s.relations {
		s.byName[[2]string{r.schema, r.name}] = r
		sortByName(r.sequences, func(q *relation) string { return q.name })
		sortByName(r.policies, func(p livePolicy) string { return p.name })
	}
}

func (s *state) queueRoles(b *pgx.Batch, in scope) {
	if len(in.roles) > 0 {
		b.Queue("SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)", in.roles).Query(func(rows pgx.Rows) error {
			var name string
			_, err := pgx.ForEachRow(rows, []any{&name}, func() error { s.taken[name] = true; return nil })
			return err
		})
	}
	roles, members, args := rolesAll, "true", []any(nil)
	if !in.whole {
		roles, members, args = rolesNamed, "(o.rolname = ANY ($1) OR m.rolname = ANY ($1))", []any{s.named(in)}
	}
	b.Queue(rolesSQL+roles, args...).Query(func(rows pgx.Rows) error { return scanRoles(rows, s.roles) })
	b.Queue(rolesSQL + loginsAll).Query(func(rows pgx.Rows) error { return scanRoles(rows, s.logins) })
	b.Queue(loginMembersSQL).Query(func(rows pgx.Rows) error { return scanMembers(rows, s.logins) })
	b.Queue(membersSQL+members, args...).Query(func(rows pgx.Rows) error { return scanMembers(rows, s.roles) })
}

// scanMembers hands memberships to those of the roles that take part.
func scanMembers(rows pgx.Rows, to map[string]*liveRole) error {
	var role string
	var m membership
	_, err := pgx.ForEachRow(rows, []any{&role, &m.with, &m.grantor, &m.admin, &m.inherit, &m.set}, func() error {
		if r := to[role]; r != nil {
			r.members = append(r.members, m)
		}
		if r := to[m.with]; r != nil {
			of := m
			of.with = role
			r.memberOf = append(r.memberOf, of)
		}
		return nil
	})
	return err
}

// attributes are what a project's role must not have, in the order of rolesSQL.
var attributes = [...]string{"SUPERUSER", "CREATEROLE", "CREATEDB", "REPLICATION", "BYPASSRLS"}

func scanRoles(rows pgx.Rows, into map[string]*liveRole) error {
	var r liveRole
	var has [len(attributes)]bool
	_, err := pgx.ForEachRow(rows, []any{&r.name, &r.mark, &r.login, &has[0], &has[1], &has[2], &has[3], &has[4], &r.inherit}, func() error {
		found := r
		for i, name := range attributes {
			if has[i] {
				found.attributes = append(found.attributes, name)
			}
		}
		into[r.name] = &found
		return nil
	})
	return err
}

// named are the roles whose marks are needed.
func (s *state) named(in scope) []string {
	seen := map[string]bool{}
	for _, r := range in.roles {
		seen[r] = true
	}
	acl := func(list []privilege) {
		for _, p := range list {
			seen[p.grantee] = true
		}
	}
	for _, n := range s.schemas {
		seen[n.owner], seen[serviceOf(n)] = true, true
		acl(n.acl)
	}
	for _, r := range s.relations {
		seen[r.owner] = true
		acl(r.acl)
		for _, p := range r.policies {
			for _, role := range p.roles {
				seen[role] = true
			}
		}
	}
	for _, f := range s.functions {
		seen[f.owner] = true
		acl(f.acl)
	}
	for _, d := range s.defaults {
		seen[d.maker] = true
		acl(d.acl)
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	return names
}
