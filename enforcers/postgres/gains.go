package postgres

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// ChangeNotes tell in words who gains and who loses access by changes of
// tables, functions and databases. What is made anew is told only where it is open to
// more than the logged-in on their own rows.
func (e *Enforcer) ChangeNotes(changes []reconciler.Change) []reconciler.Note {
	var out []reconciler.Note
	for _, c := range changes {
		if c.Action() != reconciler.Update && strings.HasPrefix(string(c.Addr()), Name+".database.") {
			continue // it is taken over, or given back with what PUBLIC had
		}
		if x, ok := exposureOf(c.Before); ok && c.After == nil {
			out = append(out, reconciler.Note{Addr: c.Addr(), Text: x.note()})
		}
		before, after := accessOf(c.Before), accessOf(c.After)
		for _, text := range gains(before, after) {
			out = append(out, reconciler.Note{Addr: c.Addr(), Text: text})
		}
	}
	return append(out, adoptions(changes)...)
}

// adoptions tell of schemas that are taken over: those that begin to be a
// project's and have tables already.
func adoptions(changes []reconciler.Change) []reconciler.Note {
	full := map[reconciler.Addr]bool{}
	for _, c := range changes {
		if t, ok := c.After.(Table); ok {
			full[schemaAddr(t.Database, t.Schema)] = true
		}
	}
	var out []reconciler.Note
	for _, c := range changes {
		if _, ok := c.After.(Schema); ok && c.Action() == reconciler.Create && full[c.Addr()] {
			out = append(out, reconciler.Note{Addr: c.Addr(), Text: "it has tables already: everybody (PUBLIC) loses what they may do with them, and who reached them by that alone can't any more"})
		}
	}
	return out
}

// accessTo is what roles may do with an object. The zero value is that of an
// object that is not there.
type accessTo struct {
	object string
	roles  []string
	doable func(role string) []string
}

// accessOf is that of a table or function, also of one from a snapshot.
func accessOf(r reconciler.Resource) accessTo {
	switch r := r.(type) {
	case Table:
		return accessTo{r.Schema + "." + r.Name, grantees(r.Grants), r.doable}
	case Function:
		return accessTo{r.Schema + "." + r.Signature, grantees(r.Grants), r.doable}
	case Database:
		return accessTo{"the database " + r.Database, []string{Public}, func(string) []string { return r.Public }}
	case reconciler.Recorded:
		return recorded(r)
	}
	return accessTo{}
}

func recorded(r reconciler.Recorded) accessTo {
	parts := r.Address.Parts()
	switch {
	case len(parts) == 3 && parts[0] == Name && parts[1] == "database":
		d := Database{Database: parts[2]}
		if json.Unmarshal(r.Attributes, &d) == nil {
			return accessOf(d)
		}
		return accessTo{}
	case len(parts) != 5 || parts[0] != Name:
		return accessTo{}
	}
	switch parts[1] {
	case "table":
		t := Table{Database: parts[2], Schema: parts[3], Name: parts[4]}
		if json.Unmarshal(r.Attributes, &t) == nil {
			return accessOf(t)
		}
	case "function":
		f := Function{Database: parts[2], Schema: parts[3], Signature: parts[4]}
		if json.Unmarshal(r.Attributes, &f) == nil {
			return accessOf(f)
		}
	}
	return accessTo{}
}

func grantees(grants []Grant) []string {
	var out []string
	for _, g := range grants {
		out = append(out, g.Role)
	}
	return out
}

func gains(before, after accessTo) []string {
	var out []string
	roles := slices.Concat(before.roles, after.roles)
	slices.Sort(roles)
	for _, role := range slices.Compact(roles) {
		if before.object == "" && !wide(role) {
			continue
		}
		var had, has []string
		if before.object != "" {
			had = before.doable(role)
		}
		if after.object != "" {
			has = after.doable(role)
		}
		say := func(verb string, list []string) {
			if len(list) > 0 {
				out = append(out, fmt.Sprintf("%s %s %s on %s", who(role), verb, strings.Join(list, ", "), cmp.Or(after.object, before.object)))
			}
		}
		say("gains", minus(has, had))
		say("loses", slices.DeleteFunc(minus(had, has), func(lost string) bool { return covered(lost, has) }))
	}
	return out
}

// covered tells whether what was for some rows is for all of them now.
func covered(lost string, has []string) bool {
	command, rows, _ := strings.Cut(lost, " of ")
	return strings.HasPrefix(rows, "rows ") && slices.Contains(has, command+" of all rows")
}

// doable is what a role may do.
func (f Function) doable(role string) []string {
	var out []string
	for _, g := range f.Grants {
		if g.Role == role {
			out = append(out, g.Privileges...)
		}
	}
	return out
}

// wide tells roles that stand for many who are not told apart.
func wide(role string) bool { return role == Public || strings.HasSuffix(role, "_"+specs.RoleAnon) }

// doable is what a role may do and on which rows.
func (t Table) doable(role string) []string {
	var out []string
	for _, g := range t.Grants {
		if g.Role != role {
			continue
		}
		for _, p := range g.Privileges {
			name, _, _ := strings.Cut(p, " ")
			if rows := t.reach(role, strings.ToLower(name)); rows != "" {
				p += " of " + rows
			}
			out = append(out, p)
		}
	}
	return out
}

func (t Table) reach(role, command string) string {
	if t.RowSecurity == "" || t.RowSecurity == "off" || !slices.Contains(commands[:], command) {
		return "all rows"
	}
	var rows []string
	for _, p := range t.Policies {
		if p.Restrictive || p.Command != "all" && p.Command != command || !slices.Contains(p.Roles, role) && !slices.Contains(p.Roles, Public) {
			continue
		}
		condition := p.Using
		if command == "insert" && p.Check != "" {
			condition = p.Check
		}
		if condition == "true" || condition == "" {
			return "all rows"
		}
		rows = append(rows, condition)
	}
	if len(rows) == 0 {
		return "no rows"
	}
	return "rows " + strings.Join(rows, " or ")
}

func who(role string) string {
	for suffix, name := range map[string]string{specs.RoleAnon: "the anonymous", specs.RoleUser: "the logged-in"} {
		if strings.HasSuffix(role, "_"+suffix) {
			return fmt.Sprintf("%s (%s)", name, role)
		}
	}
	return role
}
