package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/reconciler"
)

// Defaults are privileges that PUBLIC or a project's role would get on what a
// role makes from now on, be it in one schema or in all (Schema ""). None is
// ever desired: access follows the files, not who made an object.
type Defaults struct {
	Database string  `json:"-"`
	Maker    string  `json:"-"`
	Schema   string  `json:"-"`
	Grants   []Grant `json:"grants,omitempty"` // "SELECT on TABLES"
}

// Addr is postgres.defaults.DATABASE.MAKER or postgres.defaults.DATABASE.MAKER.SCHEMA.
func (d Defaults) Addr() reconciler.Addr {
	parts := []string{Name, "defaults", d.Database, d.Maker}
	if d.Schema != "" {
		parts = append(parts, d.Schema)
	}
	return reconciler.NewAddr(parts...)
}

// Excess implements [reconciler.Excess].
func (d Defaults) Excess() bool { return true }

// Needs are the roles, and the schema.
func (d Defaults) Needs() []reconciler.Addr {
	s := Schema{Database: d.Database, Name: d.Schema}
	needs := s.grantees(d.Grants, nil)
	if d.Schema != "" {
		needs = append(needs, s.Addr())
	}
	slices.Sort(needs)
	return needs
}

// liveDefault is a row of pg_default_acl.
type liveDefault struct {
	maker, schema, kind string // kind as ALTER DEFAULT PRIVILEGES names it
	acl                 []privilege
	powerful            bool
}

// powerful tells a maker that reaches rows of projects, and so makes tables
// and views that do, of whom a global default opens what it makes to PUBLIC.
const defaultsSQL = powerCTE + `
SELECT pg_get_userbyid(d.defaclrole), coalesce(n.nspname, ''),
       CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS' ELSE 'LARGE OBJECTS' END,
       d.defaclacl::text[], d.defaclnamespace = 0 AND d.defaclrole IN (TABLE power)
FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace
ORDER BY 1, 2, 3`

func (s *state) queueDefaults(b *pgx.Batch) {
	b.Queue(defaultsSQL).Query(func(rows pgx.Rows) error {
		var d liveDefault
		var acl []string
		_, err := pgx.ForEachRow(rows, []any{&d.maker, &d.schema, &d.kind, &acl, &d.powerful}, func() error {
			found := d
			var err error
			found.acl, err = parseACL(acl, "")
			s.defaults = append(s.defaults, found)
			return err
		})
		return err
	})
}

// New functions, in the normal form of [Schema].
const (
	newClosed = "closed" // none but their owner may execute them
	newPublic = "public" // everyone may
)

// newFunctions tells who may execute what the role makes. Only an entry for
// all schemas can take it from PUBLIC; one for a schema only adds.
func (s *state) newFunctions(maker string) string {
	for _, d := range s.defaults {
		if d.maker == maker && d.schema == "" && d.kind == "FUNCTIONS" &&
			!slices.ContainsFunc(d.acl, func(p privilege) bool { return p.grantee == "" }) {
			return newClosed
		}
	}
	return newPublic
}

// managedDefault tells whose default privileges are not to be. PUBLIC's and the
// authenticator's for all schemas are others' business too, unless a powerful
// role makes them.
func (s *state) managedDefault(d liveDefault) func(string) bool {
	if d.schema != "" {
		return s.managed(s.schemas[d.schema], d.maker)
	}
	return func(grantee string) bool {
		switch {
		case grantee == "":
			return d.powerful && (d.kind == "TABLES" || d.kind == "SEQUENCES")
		case s.authenticates(grantee):
			return d.powerful && grantee != d.maker
		}
		return s.marked(grantee) && grantee != d.maker
	}
}

// allDefaults are the default privileges in the normal form.
func (s *state) allDefaults() []Defaults {
	var out []Defaults
	for _, d := range s.defaults {
		var acl []privilege
		for _, p := range d.acl {
			p.name += " on " + d.kind
			acl = append(acl, p)
		}
		grants := grantsOf(acl, s.managedDefault(d))
		if len(grants) == 0 {
			continue
		}
		if i := len(out) - 1; i >= 0 && out[i].Maker == d.maker && out[i].Schema == d.schema {
			out[i].Grants = mergeGrants(out[i].Grants, grants)
			continue
		}
		out = append(out, Defaults{Database: s.block, Maker: d.maker, Schema: d.schema, Grants: grants})
	}
	return out
}

func mergeGrants(a, b []Grant) []Grant {
	for _, g := range b {
		i := slices.IndexFunc(a, func(h Grant) bool { return h.Role == g.Role })
		if i < 0 {
			a = append(a, g)
			continue
		}
		a[i].Privileges = append(a[i].Privileges, g.Privileges...)
		slices.Sort(a[i].Privileges)
	}
	sortGrants(a)
	return a
}

func (d Defaults) block() string   { return d.Database }
func (d Defaults) scope() scope    { return scope{schemas: []string{d.Schema}} }
func (d Defaults) settled() object { return d }

func (d Defaults) find(s *state) object {
	for _, l := range s.allDefaults() {
		if l.Maker == d.Maker && l.Schema == d.Schema {
			return l
		}
	}
	return nil
}

// make gives what stood there, for an undo.
func (d Defaults) make(context.Context, pgx.Tx, *state) ([]statement, error) {
	return nil, errNever("default privileges")
}

func (d Defaults) unmake(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) {
	var out []statement
	for _, l := range s.defaults {
		if l.maker != d.Maker || l.schema != d.Schema {
			continue
		}
		managed := s.managedDefault(l)
		for _, p := range l.acl {
			if managed(p.grantee) {
				out = append(out, statement{sql: defaultPrivileges(l.maker, l.schema) + " REVOKE " + p.name + " ON " + l.kind + " FROM " + roleSQL(grantee(p))})
			}
		}
	}
	return out, nil
}

func defaultPrivileges(maker, schema string) string {
	sql := "ALTER DEFAULT PRIVILEGES FOR ROLE " + quote(maker)
	if schema != "" {
		sql += " IN SCHEMA " + quote(schema)
	}
	return sql
}
