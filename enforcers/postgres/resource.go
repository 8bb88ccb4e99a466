package postgres

import (
	"slices"

	"github.com/aicodesit/cordon/reconciler"
)

// Name is the first part of the addresses of this enforcer.
const Name = "postgres"

// Public is how the pseudo-role PUBLIC stands in [Grant] and [Policy]. No
// role of a project can have this name: theirs end in _anon, _user and so on.
const Public = "PUBLIC"

// Role is one of the four roles of a project's schema. It can't log in, has
// no attributes, settings and memberships, and no members but the declared
// authenticator; whatever departs from that is drift.
type Role struct {
	Database string   `json:"-"` // name of the database block
	Name     string   `json:"-"`
	Login    bool     `json:"login"`
	Members  []string `json:"members,omitempty"` // who may become it by SET ROLE, and no more
	Drift    []string `json:"drift,omitempty"`
}

// Schema is who may use a project's schema.
type Schema struct {
	Database string  `json:"-"`
	Name     string  `json:"-"`
	Grants   []Grant `json:"grants,omitempty"`
	// NewFunctions tells whether PUBLIC may execute what the schema's owner
	// makes from now on, in whatever schema: closed or public. What a
	// superuser makes is not told apart: its extensions are for all.
	NewFunctions string   `json:"new_functions,omitempty"`
	Drift        []string `json:"drift,omitempty"`
}

// Table is all access that PUBLIC and the roles of projects have to one
// relation: a table, a partition, a view, a sequence of its own.
type Table struct {
	Database    string     `json:"-"`
	Schema      string     `json:"-"`
	Name        string     `json:"-"`
	RowSecurity string     `json:"row_security,omitempty"` // off, enabled, forced; "" where the kind of relation has none
	Grants      []Grant    `json:"grants,omitempty"`
	Policies    []Policy   `json:"policies,omitempty"`  // sorted by name
	Sequences   []Sequence `json:"sequences,omitempty"` // of serial columns, sorted by name; those that someone has access to
	Drift       []string   `json:"drift,omitempty"`
}

// Sequence is the access to the sequence of a serial column.
type Sequence struct {
	Name   string  `json:"name"`
	Grants []Grant `json:"grants"`
}

// Grant is all that one role may do with an object, whoever granted it:
// "SELECT", for a column "SELECT (email)", and " with grant option" behind.
type Grant struct {
	Role       string   `json:"role"`
	Privileges []string `json:"privileges"` // sorted
}

// Policy is a row level security policy. Using and Check are in the short
// form of [shorten]; "" is absent.
type Policy struct {
	Name        string   `json:"name"`
	Command     string   `json:"command"` // all, select, insert, update, delete
	Roles       []string `json:"roles"`   // of those that are managed, sorted
	Restrictive bool     `json:"restrictive,omitempty"`
	Using       string   `json:"using,omitempty"`
	Check       string   `json:"check,omitempty"`
	Unmarked    bool     `json:"unmarked,omitempty"` // it lacks the mark: drift
}

// Addr implements reconciler.Resource; so do the methods below.
func (r Role) Addr() reconciler.Addr { return roleAddr(r.Database, r.Name) }

// Needs are the members.
func (r Role) Needs() []reconciler.Addr {
	var needs []reconciler.Addr
	for _, m := range r.Members {
		needs = append(needs, Login{Database: r.Database, Name: m}.Addr())
	}
	return needs
}

// Addr is postgres.schema.DATABASE.NAME.
func (s Schema) Addr() reconciler.Addr { return schemaAddr(s.Database, s.Name) }

// Needs are the roles that have grants.
func (s Schema) Needs() []reconciler.Addr { return s.grantees(s.Grants, nil) }

// Addr is postgres.table.DATABASE.SCHEMA.NAME.
func (t Table) Addr() reconciler.Addr {
	return reconciler.NewAddr(Name, "table", t.Database, t.Schema, t.Name)
}

// Needs are the schema and the roles that grants and policies name.
func (t Table) Needs() []reconciler.Addr {
	s := Schema{Database: t.Database, Name: t.Schema}
	needs := s.grantees(t.Grants, t.Policies)
	for _, q := range t.Sequences {
		needs = append(needs, s.grantees(q.Grants, nil)...)
	}
	needs = append(needs, s.Addr())
	slices.Sort(needs)
	return slices.Compact(needs)
}

func (s Schema) grantees(grants []Grant, policies []Policy) []reconciler.Addr {
	var needs []reconciler.Addr
	add := func(role string) {
		if role != Public {
			needs = append(needs, roleAddr(s.Database, role))
		}
	}
	for _, g := range grants {
		add(g.Role)
	}
	for _, p := range policies {
		for _, r := range p.Roles {
			add(r)
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

func roleAddr(database, name string) reconciler.Addr {
	return reconciler.NewAddr(Name, "role", database, name)
}

func schemaAddr(database, name string) reconciler.Addr {
	return reconciler.NewAddr(Name, "schema", database, name)
}
