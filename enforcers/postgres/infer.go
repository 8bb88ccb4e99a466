package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Infer declares what a database has: of each schema that bears cordon's mark
// the project that it would be made by, and of each other the strictest that
// there is. A table whose access no declaration makes is declared closed, so
// that nothing that is planned from it gives anyone more; the notes name it.
// Schemas that want does not take are left out.
func (e *Enforcer) Infer(ctx context.Context, block string, want func(schema string) bool) ([]specs.Project, []reconciler.Note, error) {
	var s *state
	var names []string
	err := e.reading(ctx, block, func(tx pgx.Tx) (err error) {
		if s, err = readState(ctx, tx, block, scope{whole: true}); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, schemasToInferSQL, guardName(block))
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !want(name) })
	set := specs.Set{Databases: []specs.Database{{Name: block}}}
	for _, name := range names {
		set.Projects = append(set.Projects, specs.Project{Name: name, Directory: "/srv/projects/" + name, Schema: &specs.Schema{Database: block}})
	}
	if set, err = e.Survey(ctx, set); err != nil {
		return nil, nil, err
	}
	var notes []reconciler.Note
	for i := range set.Projects {
		notes = append(notes, s.infer(&set.Projects[i], set)...)
	}
	return set.Projects, notes, nil
}

// Schemas that a project may have: not the server's, not an extension's.
const schemasToInferSQL = `
SELECT n.nspname::text FROM pg_namespace n
WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'public', 'none', $1) AND octet_length(n.nspname) <= 55
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_namespace'::regclass AND d.objid = n.oid AND d.deptype = 'e')
ORDER BY n.nspname COLLATE "C"`

func (s *state) infer(p *specs.Project, set specs.Set) []reconciler.Note {
	n := s.schemas[p.Name]
	managed := n != nil && n.marked
	found := slices.DeleteFunc(slices.Clone(set.Tables), func(t specs.Table) bool { return t.Schema != p.Name })
	notes := s.inferTables(p, found, s.commonOwner(found), managed)
	if len(notes) > 0 { // a table without an owner may have a column of that name
		again := *p
		again.Schema = &specs.Schema{Database: p.Schema.Database}
		if fewer := s.inferTables(&again, found, "", managed); len(fewer) < len(notes) {
			p.Schema, notes = again.Schema, fewer
		}
	}
	s.inferFunctions(p, set.Functions, managed)
	return notes
}

// inferTables declares the tables where owner is the column of the schema.
func (s *state) inferTables(p *specs.Project, found []specs.Table, owner string, managed bool) []reconciler.Note {
	p.Schema.OwnerColumn = owner
	var notes []reconciler.Note
	for _, t := range found {
		d, exact := s.inferTable(p, t, managed)
		if !exact {
			addr := Table{Database: t.Database, Schema: t.Schema, Name: t.Name}.Addr()
			notes = append(notes, reconciler.Note{Addr: addr, Text: "no declaration gives this access: it is declared closed"})
		}
		if d != nil {
			p.Schema.Tables = append(p.Schema.Tables, *d)
		}
	}
	slices.SortFunc(p.Schema.Tables, func(a, b specs.TableAccess) int { return cmp.Compare(a.Name, b.Name) })
	return notes
}

func (s *state) inferFunctions(p *specs.Project, found []specs.Function, managed bool) {
	past := map[string]bool{}
	for _, f := range found {
		past[f.Schema+"."+signature(f.Name, f.Arguments)] = f.Past != ""
	}
	for _, f := range s.functions {
		if f.schema != p.Name || !managed {
			continue
		}
		live, _ := s.function(f)
		anon, user := has(live.Grants, p.Role(specs.RoleAnon)), has(live.Grants, p.Role(specs.RoleUser))
		known := slices.ContainsFunc(p.Schema.Functions, func(g specs.FunctionAccess) bool { return g.Name == f.name })
		named := anon || user || past[f.schema+"."+signature(f.name, f.arguments)] && len(live.Grants) > 0
		if named && !known {
			p.Schema.Functions = append(p.Schema.Functions, specs.FunctionAccess{Name: f.name, Anonymous: anon, Authenticated: user && !anon})
		}
	}
	slices.SortFunc(p.Schema.Functions, func(a, b specs.FunctionAccess) int { return cmp.Compare(a.Name, b.Name) })
}

func has(list []Grant, role string) bool {
	return slices.ContainsFunc(list, func(g Grant) bool { return g.Role == role })
}

// inferTable tries the default first, then what is read off the grants and
// policies. nil: nothing need be said.
func (s *state) inferTable(p *specs.Project, t specs.Table, managed bool) (d *specs.TableAccess, exact bool) {
	closed := &specs.TableAccess{Name: t.Name, Anonymous: []string{}, Authenticated: []string{}}
	r := s.byName[[2]string{t.Schema, t.Name}]
	if !managed {
		return closed, true
	}
	live := Table{Database: t.Database, Schema: t.Schema, Name: t.Name}
	if r != nil {
		live, _ = s.table(r)
	}
	guess := live.guess(p, t)
	t.Check = strings.TrimPrefix(guess.Check, sqlPrefix)
	for _, d := range []*specs.TableAccess{nil, guess, closed} {
		schema := *p.Schema
		schema.Tables = nil
		if d != nil {
			schema.Tables = []specs.TableAccess{*d}
		}
		t := t
		t.Parent = "" // what is said of the parent is not known yet
		if d == nil && t.Check != "" {
			continue
		}
		made, ok := resolve(schema, t).table(specs.Project{Name: p.Name, Schema: &schema}, t)
		if form(made) == form(live) || !ok && len(live.Grants) == 0 {
			return d, true
		}
	}
	return closed, false
}

// guess reads a declaration off the access.
func (t Table) guess(p *specs.Project, fact specs.Table) *specs.TableAccess {
	d := &specs.TableAccess{Name: t.Name, Anonymous: []string{}, Authenticated: []string{}}
	columns := map[string][]string{}
	for _, g := range t.Grants {
		list := map[string]*[]string{p.Role(specs.RoleAnon): &d.Anonymous, p.Role(specs.RoleUser): &d.Authenticated}[g.Role]
		if list == nil {
			continue
		}
		for _, label := range g.Privileges {
			name, column, bound := strings.Cut(label, " (")
			command := strings.ToLower(name)
			if !slices.Contains(*list, command) {
				*list = append(*list, command)
			}
			if column = strings.TrimSuffix(column, ")"); bound && !slices.Contains(columns[command], column) {
				columns[command] = append(columns[command], column)
			}
		}
		slices.Sort(*list)
	}
	if len(columns) > 0 {
		d.Columns = columns
	}
	for _, policy := range t.Policies {
		column, own := between(cmp.Or(policy.Using, policy.Check), "own(", ")")
		if nobody, ok := between(cmp.Or(policy.Using, policy.Check), "nobody's(", ")"); ok && d.OwnerColumn == "" && nobody != p.Schema.OwnerColumn {
			d.OwnerColumn = nobody
		}
		command, single := strings.CutPrefix(policy.Name, policyPrefix+"own_")
		if single && command != "delete" && !slices.Contains(d.Authenticated, command) { // of no column
			if d.Columns == nil {
				d.Columns = map[string][]string{}
			}
			d.Columns[command] = []string{}
			d.Authenticated = append(d.Authenticated, command)
			slices.Sort(d.Authenticated)
		}
		switch {
		case policy.Name == policyPrefix+"own" && own && column != p.Schema.OwnerColumn:
			d.OwnerColumn = column
		case single && own && column != p.Schema.OwnerColumn:
			if d.OwnerColumns == nil {
				d.OwnerColumns = map[string]string{}
			}
			d.OwnerColumns[command] = column
		case policy.Name == policyPrefix+"check_insert":
			d.Check = strings.TrimPrefix(policy.Check, sqlPrefix)
		}
	}
	return d
}

// commonOwner is the column that most tables tell the owner by.
func (s *state) commonOwner(tables []specs.Table) string {
	count := map[string]int{}
	best := ""
	for _, t := range tables {
		r := s.byName[[2]string{t.Schema, t.Name}]
		if r == nil {
			continue
		}
		for _, p := range r.policies {
			column, own := between(shorten(cmp.Or(p.using, p.check)), "own(", ")")
			if !own || !p.marked {
				continue
			}
			count[column]++
			if count[column] > count[best] || count[column] == count[best] && column < best {
				best = column
			}
		}
	}
	return best
}

// Widens names those who would gain by changes: what an import must not do.
func Widens(changes []reconciler.Change) []string {
	var out []string
	for _, c := range changes {
		before, _ := c.Before.(Table)
		after, ok := c.After.(Table)
		if !ok {
			continue
		}
		for _, g := range after.Grants {
			if strings.HasSuffix(g.Role, "_"+specs.RoleAdmin) || strings.HasSuffix(g.Role, "_"+specs.RoleService) {
				continue
			}
			if more := minus(after.doable(g.Role), before.doable(g.Role)); len(more) > 0 {
				out = append(out, fmt.Sprintf("%s: %s gains %s", c.Addr(), g.Role, strings.Join(more, ", ")))
			}
		}
	}
	return out
}
