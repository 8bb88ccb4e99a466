package postgres

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// anyArguments stand in the signature of a function that is declared by its
// name alone.
const anyArguments = "…"

// Suppose implements [reconciler.Supposer]: a superuser's connection to each
// database, a table with all columns that are named for each that set or other
// declares, and a function. Conditions are taken as they are written.
func (e *Enforcer) Suppose(set, other specs.Set) specs.Set {
	set.Tables, set.Functions, set.Servers = nil, nil, nil
	for _, d := range set.Databases {
		set.Servers = append(set.Servers, specs.Server{Database: d.Name, Version: oldest, Superuser: true, Owner: true})
	}
	both := slices.Concat(set.Projects, other.Projects)
	for _, p := range set.Projects {
		if p.Schema == nil {
			continue
		}
		for _, name := range names(p, both, func(s specs.Schema) (list []string) {
			for _, t := range s.Tables {
				list = append(list, t.Name)
			}
			return list
		}) {
			t := specs.Table{Database: p.Schema.Database, Schema: p.SchemaName(), Name: name, Kind: kindTable, Columns: namedColumns(p, both, name)}
			d, _ := declared(*p.Schema, t)
			t.Check = d.Check
			set.Tables = append(set.Tables, t)
		}
		for _, name := range names(p, both, func(s specs.Schema) (list []string) {
			for _, f := range s.Functions {
				list = append(list, f.Name)
			}
			return list
		}) {
			set.Functions = append(set.Functions, specs.Function{Database: p.Schema.Database, Schema: p.SchemaName(), Name: name, Arguments: anyArguments})
		}
	}
	slices.SortFunc(set.Tables, func(a, b specs.Table) int {
		return cmp.Or(strings.Compare(a.Database, b.Database), strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
	})
	return set
}

// names are those that any of the projects declares for p's schema, sorted.
func names(p specs.Project, projects []specs.Project, of func(specs.Schema) []string) []string {
	var out []string
	for _, q := range projects {
		if sameSchema(p, q) {
			out = append(out, of(*q.Schema)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func sameSchema(p, q specs.Project) bool {
	return q.Schema != nil && q.Schema.Database == p.Schema.Database && q.SchemaName() == p.SchemaName()
}

// namedColumns are the columns of a table that declarations speak of.
func namedColumns(p specs.Project, projects []specs.Project, table string) []string {
	return slices.DeleteFunc(names(p, projects, func(s specs.Schema) []string {
		d, _ := declared(s, specs.Table{Name: table})
		out := []string{s.OwnerColumn, d.OwnerColumn}
		for _, c := range d.OwnerColumns {
			out = append(out, c)
		}
		for _, list := range d.Columns {
			out = append(out, list...)
		}
		return out
	}), func(c string) bool { return c == "" })
}

// Locate implements [reconciler.Locator]: the table's block, or else the
// schema's, or that of the database.
func (e *Enforcer) Locate(set specs.Set, addr reconciler.Addr) specs.Range {
	parts := append(addr.Parts(), "", "", "", "", "")
	kind, database, schema, name := parts[1], parts[2], parts[3], parts[4]
	for _, p := range set.Projects {
		if p.Schema == nil || p.Schema.Database != database {
			continue
		}
		switch {
		case kind == "role" && (schema == p.Role(specs.RoleAnon) || schema == p.Role(specs.RoleUser) || schema == p.Role(specs.RoleAdmin) || schema == p.Role(specs.RoleService)):
			return p.Schema.Range
		case kind != "role" && schema == p.SchemaName():
			return within(*p.Schema, kind, name)
		}
	}
	if d := specs.Find(set.Databases, database); d != nil {
		return d.Range
	}
	return specs.Range{}
}

func within(s specs.Schema, kind, name string) specs.Range {
	for _, t := range s.Tables {
		if kind == "table" && t.Name == name {
			return t.Range
		}
	}
	for _, f := range s.Functions {
		if kind == "function" && strings.HasPrefix(name, f.Name+"(") {
			return f.Range
		}
	}
	return s.Range
}
