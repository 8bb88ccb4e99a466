package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// privilege is one grant in an object's access control list.
type privilege struct {
	grantee, grantor string // grantee "" is PUBLIC
	name, column     string // "SELECT"; column "" is the whole object
	grantable        bool
}

// letters are the privileges of relations and schemas in an aclitem, as
// https://www.postgresql.org/docs/current/ddl-priv.html has them.
var letters = map[byte]string{
	'r': "SELECT", 'a': "INSERT", 'w': "UPDATE", 'd': "DELETE", 'D': "TRUNCATE", 'x': "REFERENCES",
	't': "TRIGGER", 'm': "MAINTAIN", 'U': "USAGE", 'C': "CREATE", 'X': "EXECUTE", 'c': "CONNECT", 'T': "TEMPORARY", 's': "SET", 'A': "ALTER SYSTEM",
}

// parseACL reads aclitems, grantee=letters/grantor, of an object or one of
// its columns.
func parseACL(items []string, column string) ([]privilege, error) {
	var out []privilege
	for _, item := range items {
		grantee, rest, ok := aclName(item, '=')
		granted, tail, slash := strings.Cut(rest, "/")
		grantor, _, closed := aclName(tail, 0)
		if !ok || !slash || !closed {
			return nil, fmt.Errorf("access control entry %q: not of the form grantee=privileges/grantor", item)
		}
		for i := 0; i < len(granted); i++ {
			name, known := letters[granted[i]]
			if !known {
				return nil, fmt.Errorf("access control entry %q: unknown privilege %q", item, granted[i])
			}
			p := privilege{grantee: grantee, grantor: grantor, name: name, column: column}
			if i+1 < len(granted) && granted[i+1] == '*' {
				p.grantable = true
				i++
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// acls are the lists of objects that were read already, as the server sends
// them: tables of one project have the same. They are shared, not to be changed.
type acls map[string][]privilege

// read parses the list in a column of the row, an array of text.
func (known acls) read(rows pgx.Rows, column int) ([]privilege, error) {
	raw := rows.RawValues()[column]
	if list, ok := known[string(raw)]; ok {
		return list, nil
	}
	var items []string
	field := rows.FieldDescriptions()[column]
	if err := rows.Conn().TypeMap().Scan(field.DataTypeOID, field.Format, raw, &items); err != nil {
		return nil, err
	}
	list, err := parseACL(items, "")
	known[string(raw)] = slices.Clip(list)
	return known[string(raw)], err
}

// aclName reads a name up to the byte end (0: the end of s). Names with
// special characters stand in double quotes, doubled inside.
func aclName(s string, end byte) (name, rest string, ok bool) {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"' && quoted && i+1 < len(s) && s[i+1] == '"':
			b.WriteByte('"')
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == end && !quoted:
			return b.String(), s[i+1:], true
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), "", end == 0 && !quoted
}

// label is the privilege as it stands in a [Grant].
func (p privilege) label() string {
	s := p.name
	if p.column != "" {
		s += " (" + p.column + ")"
	}
	if p.grantable {
		s += " with grant option"
	}
	return s
}

// grantsOf is the normal form of the entries whose grantee is managed.
func grantsOf(acl []privilege, managed func(string) bool) []Grant {
	byRole := map[string][]string{}
	for _, p := range acl {
		if managed(p.grantee) {
			byRole[p.grantee] = append(byRole[p.grantee], p.label())
		}
	}
	var out []Grant
	for role, list := range byRole {
		if role == "" {
			role = Public
		}
		slices.Sort(list)
		out = append(out, Grant{role, slices.Compact(list)})
	}
	sortGrants(out)
	return out
}

// alterACL is what turns the managed entries of acl into want: what is taken
// away, furthest from the owner first and each as its grantor (as anyone else,
// REVOKE does nothing and says nothing), and what is given.
func alterACL(target, owner string, acl []privilege, managed func(string) bool, want []Grant) (revokes, grants []statement) {
	wanted := map[[2]string]bool{}
	for _, g := range want {
		for _, p := range g.Privileges {
			wanted[[2]string{g.Role, p}] = true
		}
	}
	revoke := slices.DeleteFunc(slices.Clone(acl), func(p privilege) bool {
		return !managed(p.grantee) || wanted[[2]string{grantee(p), p.label()}]
	})
	slices.SortStableFunc(revoke, func(a, b privilege) int { return depth(acl, owner, b) - depth(acl, owner, a) })
	for _, p := range revoke {
		option := ""
		bare := p
		bare.grantable = false
		if wanted[[2]string{grantee(p), bare.label()}] {
			option = "GRANT OPTION FOR "
		}
		s := statement{sql: "REVOKE " + option + p.sql() + " ON " + target + " FROM " + roleSQL(grantee(p)) + " CASCADE"}
		if p.grantor != owner {
			s.as = p.grantor
		}
		revokes = append(revokes, s)
	}
	return revokes, grantACL(target, acl, want)
}

// grantACL gives what of want is not in acl.
func grantACL(target string, acl []privilege, want []Grant) []statement {
	var out []statement
	for _, g := range want {
		missing := slices.DeleteFunc(slices.Clone(g.Privileges), func(label string) bool {
			return slices.ContainsFunc(acl, func(p privilege) bool { p.grantable = false; return grantee(p) == g.Role && p.label() == label })
		})
		for i, label := range missing {
			missing[i] = labelSQL(label)
		}
		if len(missing) > 0 {
			out = append(out, statement{sql: "GRANT " + strings.Join(missing, ", ") + " ON " + target + " TO " + roleSQL(g.Role)})
		}
	}
	return out
}

// depth is how many hands a privilege went through from the owner.
func depth(acl []privilege, owner string, p privilege) int {
	n := 0
	for seen := map[string]bool{}; p.grantor != owner && !seen[p.grantor]; n++ {
		seen[p.grantor] = true
		i := slices.IndexFunc(acl, func(q privilege) bool { return q.grantee == p.grantor && q.name == p.name && q.grantable })
		if i < 0 {
			break
		}
		p = acl[i]
	}
	return n
}

func grantee(p privilege) string {
	if p.grantee == "" {
		return Public
	}
	return p.grantee
}

func (p privilege) sql() string {
	if p.column == "" {
		return p.name
	}
	return p.name + " (" + quote(p.column) + ")"
}

// labelSQL is a label without grant option as GRANT has it.
func labelSQL(label string) string {
	name, column, ok := strings.Cut(label, " (")
	if !ok {
		return label
	}
	return name + " (" + quote(strings.TrimSuffix(column, ")")) + ")"
}

func roleSQL(role string) string {
	if role == Public {
		return Public
	}
	return quote(role)
}

func quote(parts ...string) string { return pgx.Identifier(parts).Sanitize() }

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
