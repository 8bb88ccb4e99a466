package postgres

import (
	"cmp"
	"fmt"
	"regexp"
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
	anon    []string            // commands of the anonymous
	shared  []string            // those of anon that the logged-in have too, on the same rows
	own     []string            // commands of the logged-in on their own rows
	all     []string            // commands of admin and service, on all rows
	owner   map[string]string   // the owner column by command; none when the relation has none
	columns map[string][]string // what a command of anon and own is bound to; absent: all columns
	check   string              // condition on what anon and own write, in the form of [shorten]
	notes   []string            // why something declared is not given
}

// resolve applies what package specs and doc.go say about defaults.
func resolve(s specs.Schema, t specs.Table) access {
	d, named := declared(s, t)
	a := access{anon: d.Anonymous, shared: d.Anonymous, own: d.Authenticated, owner: map[string]string{}, all: commands[:]}
	for _, c := range commands {
		if column := cmp.Or(d.OwnerColumns[c], d.OwnerColumn, s.OwnerColumn); slices.Contains(t.Columns, column) {
			a.owner[c] = column
		}
	}
	if d.Authenticated != nil {
		a.shared = both(d.Anonymous, d.Authenticated)
	}
	a.bind(d, t)
	switch t.Kind {
	case kindTable, kindPartitioned:
		a.rows(s, d)
		a.condition(d, t)
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
	a.withhold(t)
	return a
}

// bind keeps commands to the columns that are declared and there.
func (a *access) bind(d specs.TableAccess, t specs.Table) {
	for command, list := range d.Columns {
		if a.columns == nil {
			a.columns = map[string][]string{}
		}
		a.columns[command] = both(list, t.Columns)
		if gone := minus(list, t.Columns); len(gone) > 0 {
			a.notes = append(a.notes, fmt.Sprintf("%s: it has no column %q", command, gone))
		}
	}
	slices.Sort(a.notes)
}

// rows leaves to the logged-in the commands that have an owner column.
func (a *access) rows(s specs.Schema, d specs.TableAccess) {
	own := a.own
	if d.Authenticated == nil {
		own = commands[:]
	}
	a.own = slices.DeleteFunc(slices.Clone(own), func(c string) bool { return a.owner[c] == "" })
	var closed []string
	for _, c := range minus(d.Authenticated, d.Anonymous) {
		if a.owner[c] == "" {
			closed = append(closed, c)
		}
	}
	if len(closed) == 0 {
		return
	}
	note := "it has no owner column to tell their rows by"
	if wanted := cmp.Or(d.OwnerColumns[closed[0]], d.OwnerColumn, s.OwnerColumn); wanted != "" {
		note = fmt.Sprintf("it has no column %q to tell their rows by", wanted)
	}
	what := "nothing"
	if len(a.own) > 0 {
		what = "no " + strings.Join(closed, ", ")
	}
	a.notes = append(a.notes, what+" for the logged-in: "+note)
}

// condition is the declared check as the server writes it. One that it does
// not take lets nothing be written.
func (a *access) condition(d specs.TableAccess, t specs.Table) {
	switch {
	case d.Check == "":
	case t.Check == "":
		a.check = shorten("false")
		a.notes = append(a.notes, "check: nothing may be written, for the server does not take the condition: "+cmp.Or(t.CheckError, "it was not asked"))
	default:
		a.check = shorten(t.Check)
		if names := settable(t.Check); len(names) > 0 {
			a.notes = append(a.notes, "check: it reads what whoever sends SQL may set ("+strings.Join(names, ", ")+"): it binds only who can't")
		}
	}
}

// settable are the settings, but for the claims, that a condition reads by name.
func settable(condition string) []string {
	var out []string
	for _, found := range readsSetting.FindAllStringSubmatch(condition, -1) {
		if !strings.HasPrefix(strings.ToLower(found[1]), "request.") {
			out = append(out, found[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var readsSetting = regexp.MustCompile(`(?i)\bcurrent_setting\(\s*'((?:[^']|'')*)'`)

// view closes one that reads with its owner's rights. The rows of others are
// those that the tables below show to who asks.
func (a *access) view(t specs.Table, named bool) {
	if t.Invoker {
		return
	}
	*a = access{}
	if named {
		a.notes = []string{"nothing is granted: a view reads with its owner's rights, past row level security, unless it is made WITH (security_invoker = true), which PostgreSQL 15 and newer know"}
	}
}

// withoutRows takes away what needs row level security.
func (a *access) withoutRows(t specs.Table) {
	if len(minus(a.own, a.anon)) > 0 {
		a.notes = append(a.notes, "nothing for the logged-in beyond what the anonymous have: a "+t.Kind+" has no row level security")
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
	for i, g := range table.Grants {
		if g.Role == p.Role(specs.RoleAnon) || g.Role == p.Role(specs.RoleUser) {
			table.Grants[i].Privileges = a.bound(g.Privileges)
		}
	}
	table.Grants = slices.DeleteFunc(table.Grants, func(g Grant) bool { return len(g.Privileges) == 0 })
	if t.Kind == kindTable || t.Kind == kindPartitioned {
		table.RowSecurity = "forced"
		table.Policies = a.policies(p)
		for _, name := range t.Sequences {
			if len(inserts) == 0 {
				break
			}
			table.Sequences = append(table.Sequences, Sequence{name, grants(inserts)})
		}
	}
	return table, len(table.Grants) > 0
}

// bound names the columns that commands are bound to.
func (a access) bound(privileges []string) []string {
	out := []string{}
	for _, p := range privileges {
		list, some := a.columns[strings.ToLower(p)]
		if !some {
			out = append(out, p)
		}
		for _, column := range list {
			out = append(out, privilege{name: p, column: column}.label())
		}
	}
	slices.Sort(out)
	return out
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
	out = append(out, a.owned(p)...)
	for _, c := range a.anon {
		out = append(out, a.public(p, c))
	}
	if a.check != "" {
		for _, c := range []string{"insert", "update"} {
			out = append(out, Policy{
				Name: policyPrefix + "check_" + c, Command: c, Restrictive: true, Check: a.check,
				Roles: []string{p.Role(specs.RoleAnon), p.Role(specs.RoleUser)},
			})
		}
	}
	slices.SortFunc(out, func(a, b Policy) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// owned are the policies of own rows: one, or one for each command where the
// owner is told by different columns.
func (a access) owned(p specs.Project) []Policy {
	if len(a.own) == 0 {
		return nil
	}
	user := []string{p.Role(specs.RoleUser)}
	first := a.owner[a.own[0]]
	if !slices.ContainsFunc(a.own, func(c string) bool { return a.owner[c] != first }) {
		own := short("own", first)
		return []Policy{{Name: policyPrefix + "own", Command: "all", Using: own, Check: own, Roles: user}}
	}
	var out []Policy
	for _, c := range a.own {
		own := short("own", a.owner[c])
		out = append(out, forCommand(Policy{Name: policyPrefix + "own_" + c, Command: c, Roles: user}, own))
	}
	return out
}

// forCommand puts the condition where the command has one.
func forCommand(p Policy, rows string) Policy {
	if p.Command != "insert" {
		p.Using = rows
	}
	if p.Command == "insert" || p.Command == "update" {
		p.Check = rows
	}
	return p
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
	if column := a.owner[command]; command != "select" && column != "" {
		rows = short("nobody's", column)
	}
	return forCommand(out, rows)
}

func union(a, b []string) []string { return append(slices.Clone(a), minus(b, a)...) }

func minus(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}
