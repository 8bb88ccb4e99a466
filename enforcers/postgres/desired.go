package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Desired is, per project with a schema, its four roles, the schema, and the
// access to every relation that the facts have in it.
func (e *Enforcer) Desired(set specs.Set) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	facts := bySchema(set.Tables)
	for _, p := range set.Projects {
		if p.Schema == nil {
			continue
		}
		if err := check(p); err != nil {
			return nil, err
		}
		usage := map[string][]string{}
		for _, kind := range []string{specs.RoleAnon, specs.RoleUser, specs.RoleAdmin, specs.RoleService} {
			out = append(out, Role{Database: p.Schema.Database, Name: p.Role(kind), Members: members(set, p.Schema.Database)})
			usage[p.Role(kind)] = []string{"usage"}
		}
		out = append(out, Schema{Database: p.Schema.Database, Name: p.SchemaName(), Grants: grants(usage), NewFunctions: newClosed})
		out = append(out, functionsOf(p, set.Functions)...)
		for _, t := range facts[[2]string{p.Schema.Database, p.SchemaName()}] {
			if table, ok := resolve(*p.Schema, t).table(p, t); ok {
				out = append(out, table)
			}
		}
	}
	out = append(out, guards(set)...)
	out = append(out, databases(set)...)
	return append(out, logins(set)...), nil
}

// Notes tell of tables that are declared and not there, and of access that
// is declared and can't be given.
func (e *Enforcer) Notes(set specs.Set) []reconciler.Note {
	notes := append(guardNotes(set), databaseNotes(set)...)
	facts := bySchema(set.Tables)
	for _, p := range set.Projects {
		if p.Schema == nil {
			continue
		}
		found := facts[[2]string{p.Schema.Database, p.SchemaName()}]
		add := func(table, text string) {
			addr := Table{Database: p.Schema.Database, Schema: p.SchemaName(), Name: table}.Addr()
			notes = append(notes, reconciler.Note{Addr: addr, Text: text})
		}
		for _, d := range p.Schema.Tables {
			if !slices.ContainsFunc(found, func(t specs.Table) bool { return t.Name == d.Name }) {
				add(d.Name, "pending: the table does not exist yet")
			}
		}
		for _, t := range found {
			for _, note := range resolve(*p.Schema, t).notes {
				add(t.Name, note)
			}
		}
		notes = append(notes, functionNotes(p, set.Functions)...)
	}
	return notes
}

func bySchema(tables []specs.Table) map[[2]string][]specs.Table {
	out := map[[2]string][]specs.Table{}
	for _, t := range tables {
		k := [2]string{t.Database, t.Schema}
		out[k] = append(out[k], t)
	}
	return out
}

// check refuses names that are PostgreSQL's own or would be cut off, whatever
// let them through: a role's name that is cut is another project's.
func check(p specs.Project) error {
	name := p.SchemaName()
	addr := schemaAddr(p.Schema.Database, name)
	if longest := p.Role(specs.RoleService); len(longest) > specs.MaxRole {
		return fmt.Errorf("%s: the role %q would be %d bytes long, PostgreSQL keeps %d", addr, longest, len(longest), specs.MaxRole)
	}
	if name == "" || name == "public" || name == "none" || name == "information_schema" || strings.HasPrefix(name, "pg_") || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%s: %q can't be the name of a project's schema", addr, name)
	}
	return nil
}
