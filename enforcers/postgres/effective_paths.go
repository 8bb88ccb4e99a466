package postgres

import (
	"fmt"
	"slices"
	"strings"
)

// paths are the ways to rows of the relation past its own privileges and
// policies.
func (a actingRole) paths(s *state, r *relation, command string) []string {
	if a.super {
		return nil
	}
	var out []string
	for _, x := range s.exposing {
		needs, sure := x.privilege(r, strings.ToUpper(command))
		if needs == "" || !x.unnamed && !a.enters(s.schemas[x.schema]) {
			continue
		}
		acl := x.acl
		if of := s.byName[[2]string{x.schema, x.name}]; x.does != nil && of != nil {
			acl = of.acl
		}
		if !slices.Contains(a.has, x.owner) && !slices.ContainsFunc(acl, func(p privilege) bool { return p.name == needs && a.holds(p) }) {
			continue
		}
		way := "by"
		if !sure {
			way = "perhaps by"
		}
		out = append(out, fmt.Sprintf("%s the %s %s, with the rights of %s", way, x.kind, x.object, x.owner))
	}
	return out
}

func (a actingRole) holds(p privilege) bool {
	return p.grantee == "" || slices.Contains(a.has, p.grantee)
}

func (a actingRole) enters(n *liveSchema) bool {
	return n != nil && (slices.Contains(a.has, n.owner) || slices.ContainsFunc(n.acl, func(p privilege) bool { return p.name == "USAGE" && a.holds(p) }))
}

// privilege is what x takes to do the command on r by it, "" if that can't be;
// sure tells whether it is known to do so, or might.
func (x exposing) privilege(r *relation, command string) (name string, sure bool) {
	switch x.kind {
	case "function", builtin:
		return "EXECUTE", false
	case "foreign server", "language":
		return "USAGE", false
	}
	for i, base := range x.reaches {
		schema, rest, ok := aclName(base, '.')
		table, _, _ := aclName(rest, 0)
		switch {
		case x.does[i] != command:
		case ok && schema == r.schema && table == r.name:
			return command, true
		case strings.HasSuffix(base, ")"): // what a trigger runs
			name = command
		}
	}
	return name, false
}
