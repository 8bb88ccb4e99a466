package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// ChangeNotes tell in words who gains and who loses access by changes of
// tables. What is made anew is told only where it is open to more than the
// logged-in on their own rows.
func (e *Enforcer) ChangeNotes(changes []reconciler.Change) []reconciler.Note {
	var out []reconciler.Note
	for _, c := range changes {
		before, was := c.Before.(Table)
		after, is := c.After.(Table)
		if !was && !is {
			continue
		}
		for _, text := range gains(before, after, was) {
			out = append(out, reconciler.Note{Addr: c.Addr(), Text: text})
		}
	}
	return out
}

func gains(before, after Table, was bool) []string {
	var out []string
	t := after
	if t.Name == "" {
		t = before
	}
	roles := map[string]bool{}
	for _, g := range append(slices.Clone(before.Grants), after.Grants...) {
		roles[g.Role] = true
	}
	sorted := make([]string, 0, len(roles))
	for r := range roles {
		sorted = append(sorted, r)
	}
	slices.Sort(sorted)
	for _, role := range sorted {
		if !was && !wide(role) {
			continue
		}
		had, has := before.doable(role), after.doable(role)
		say := func(verb string, list []string) {
			if len(list) > 0 {
				out = append(out, fmt.Sprintf("%s %s %s on %s.%s", who(role), verb, strings.Join(list, ", "), t.Schema, t.Name))
			}
		}
		say("gains", minus(has, had))
		say("loses", minus(had, has))
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
