package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// Kinds of relations, as in specs.Table.
const (
	kindTable       = "table"
	kindPartitioned = "partitioned table"
	kindView        = "view"
	kindMatView     = "materialized view"
	kindForeign     = "foreign table"
)

// policyPrefix is what the names of cordon's policies begin with.
const policyPrefix = "cordon_"

var commands = [...]string{"delete", "insert", "select", "update"}

// access is what the files say about one relation, resolved.
type access struct {
	anon   []string // commands of the anonymous
	shared []string // those of anon that the logged-in have too, on the same rows
	own    []string // commands of the logged-in on their own rows
	all    []string // commands of admin and service, on all rows
	column string   // the owner column; "" when the relation has none
	note   string   // why something declared is not given
}

// resolve applies what package specs and doc.go say about defaults.
func resolve(s specs.Schema, t specs.Table) access {
	d, named := declared(s, t)
	a := access{anon: d.Anonymous, shared: d.Anonymous, own: d.Authenticated, column: d.OwnerColumn, all: commands[:]}
	if a.column == "" {
		a.column = s.OwnerColumn
	}
	wanted := a.column
	if !slices.Contains(t.Columns, a.column) {
		a.column = ""
	}
	if d.Authenticated != nil {
		a.shared = both(d.Anonymous, d.Authenticated)
	}
	switch t.Kind {
	case kindTable, kindPartitioned:
		a.rows(d, wanted)
	case kindView:
		a.view(t, named)
	case kindMatView:
		a.anon, a.shared, a.all = both(a.anon, []string{"select"}), both(a.shared, []string{"select"}), []string{"select"}
		a.withoutRows(t)
	case kindForeign:
		if !named {
			a.all = nil
		}
		a.withoutRows(t)
	}
	return a
}

func (a *access) rows(d specs.TableAccess, wanted string) {
	switch {
	case a.column != "" && d.Authenticated == nil:
		a.own = commands[:]
	case a.column == "":
		a.own = nil
		if len(minus(d.Authenticated, d.Anonymous)) > 0 {
			a.note = "nothing for the logged-in: it has no owner column to tell their rows by"
			if wanted != "" {
				a.note = fmt.Sprintf("nothing for the logged-in: it has no column %q to tell their rows by", wanted)
			}
		}
	}
}

// view closes one that reads with its owner's rights. The rows of others are
// those that the tables below show to who asks.
func (a *access) view(t specs.Table, named bool) {
	if t.Invoker {
		return
	}
	*a = access{}
	if named {
		a.note = "nothing is granted: a view reads with its owner's rights, past row level security, unless it is made WITH (security_invoker = true)"
	}
}

// withoutRows takes away what needs row level security.
func (a *access) withoutRows(t specs.Table) {
	if len(minus(a.own, a.anon)) > 0 {
		a.note = "nothing for the logged-in beyond what the anonymous have: a " + t.Kind + " has no row level security"
	}
	a.own = nil
}

// declared finds what is said of the relation, or of the table that it is a
// part of: who may not read the whole must not read it by its parts.
func declared(s specs.Schema, t specs.Table) (d specs.TableAccess, named bool) {
	for _, name := range []string{t.Name, t.Parent} {
		i, ok := slices.BinarySearchFunc(s.Tables, name, func(e specs.TableAccess, n string) int { return strings.Compare(e.Name, n) })
		if ok {
			return s.Tables[i], true
		}
	}
	return specs.TableAccess{}, false
}

// table is the access in the normal form; ok is false when there is none.
func (a access) table(p specs.Project, t specs.Table) (table Table, ok bool) {
	table = Table{Database: t.Database, Schema: t.Schema, Name: t.Name}
	byRole := map[string][]string{
		p.Role(specs.RoleAnon):    a.anon,
		p.Role(specs.RoleUser):    union(a.own, a.shared),
		p.Role(specs.RoleAdmin):   a.all,
		p.Role(specs.RoleService): a.all,
	}
	inserts := map[string][]string{}
	for role, list := range byRole {
		if slices.Contains(list, "insert") {
			inserts[role] = []string{"usage"}
		}
	}
	table.Grants = grants(byRole)
	if t.Kind == kindTable || t.Kind == kindPartitioned {
		table.RowSecurity = "forced"
		table.Policies = a.policies(p)
		for _, name := range t.Sequences {
			table.Sequences = append(table.Sequences, Sequence{name, grants(inserts)})
		}
	}
	return table, len(table.Grants) > 0
}

func grants(byRole map[string][]string) []Grant {
	var out []Grant
	for role, list := range byRole {
		if len(list) == 0 {
			continue
		}
		g := Grant{Role: role}
		for _, c := range list {
			g.Privileges = append(g.Privileges, strings.ToUpper(c))
		}
		slices.Sort(g.Privileges)
		out = append(out, g)
	}
	sortGrants(out)
	return out
}

func sortGrants(list []Grant) {
	slices.SortFunc(list, func(a, b Grant) int { return strings.Compare(a.Role, b.Role) })
}

// policies tell which rows; which commands, the grants do. So there is one for
// own rows whatever may be done with them.
func (a access) policies(p specs.Project) []Policy {
	out := []Policy{{
		Name: policyPrefix + "all", Command: "all", Using: "true", Check: "true",
		Roles: []string{p.Role(specs.RoleAdmin), p.Role(specs.RoleService)},
	}}
	if len(a.own) > 0 {
		own := short("own", a.column)
		out = append(out, Policy{
			Name: policyPrefix + "own", Command: "all", Using: own, Check: own,
			Roles: []string{p.Role(specs.RoleUser)},
		})
	}
	for _, c := range a.anon {
		out = append(out, a.public(p, c))
	}
	slices.SortFunc(out, func(a, b Policy) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// public is the policy for one command of the anonymous. They see every row,
// and change those that are nobody's: otherwise they could act in the name of
// someone who is logged in.
func (a access) public(p specs.Project, command string) Policy {
	out := Policy{Name: policyPrefix + "public_" + command, Command: command, Roles: []string{p.Role(specs.RoleAnon)}}
	if slices.Contains(a.shared, command) {
		out.Roles = append(out.Roles, p.Role(specs.RoleUser))
	}
	rows := "true"
	if command != "select" && a.column != "" {
		rows = short("nobody's", a.column)
	}
	if command != "insert" {
		out.Using = rows
	}
	if command == "insert" || command == "update" {
		out.Check = rows
	}
	return out
}

func union(a, b []string) []string { return append(slices.Clone(a), minus(b, a)...) }

func minus(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}
