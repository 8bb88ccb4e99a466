package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Login is the authenticator: the role that the server of requests logs in as
// and that becomes the projects' roles. Whoever gets at its session can do
// RESET ROLE, so by itself it may do nothing: it is a member of no role with
// power, and nobody is a member of it.
type Login struct {
	Database string   `json:"-"`
	Name     string   `json:"-"`
	Login    bool     `json:"login"`
	Inherit  bool     `json:"inherit"`            // it has its roles' rights without SET ROLE
	Settings []string `json:"settings,omitempty"` // name=value, in this database; sorted
	Drift    []string `json:"drift,omitempty"`
}

// Addr is postgres.login.DATABASE.NAME.
func (l Login) Addr() reconciler.Addr { return reconciler.NewAddr(Name, "login", l.Database, l.Name) }

// Needs returns nothing.
func (l Login) Needs() []reconciler.Addr { return nil }

func logins(set specs.Set) []reconciler.Resource {
	var out []reconciler.Resource
	for _, d := range set.Databases {
		if d.Authenticator != "" && hasSchema(set, d.Name) {
			out = append(out, Login{Database: d.Name, Name: d.Authenticator, Login: true, Settings: settings(d)})
		}
	}
	return out
}

// settings are in the form of pg_db_role_setting.
func settings(d specs.Database) []string {
	var out []string
	for name, value := range d.Settings {
		if name == "search_path" {
			var list []string
			for _, schema := range strings.Split(value, ",") {
				list = append(list, identifierSQL(strings.Trim(strings.TrimSpace(schema), `"`)))
			}
			value = strings.Join(list, ", ")
		}
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// identifierSQL quotes a name only if it must be, as the server does.
func identifierSQL(name string) string {
	if _, plain := identifier(name); plain && !strings.Contains(name, `"`) {
		return name
	}
	return quote(name)
}

func members(set specs.Set, database string) []string {
	if d := specs.Find(set.Databases, database); d != nil && d.Authenticator != "" {
		return []string{d.Authenticator}
	}
	return nil
}

// membership is of one role in another, with its options; inherit and set are
// nil where the server has none of them.
type membership struct {
	with, grantor string
	admin         bool
	inherit, set  *bool
}

// becomes tells whether a membership is no more than the right to SET ROLE.
// Where the server has no options, it is the member's own attribute that
// keeps it from more, see [Login].
func (s *state) becomes(m membership) bool {
	return !m.admin && (m.inherit == nil || !*m.inherit) && (m.set == nil || *m.set) && s.isLogin(m.with)
}

func (m membership) options() string {
	var out []string
	for name, on := range map[string]bool{"admin": m.admin, "inherit": m.inherit != nil && *m.inherit, "no set": m.set != nil && !*m.set} {
		if on {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// optionsFrom is the version whose memberships have options, and a grantor
// each.
const optionsFrom = 160000

func (s *state) join(role, member string) statement {
	sql := "GRANT " + quote(role) + " TO " + quote(member)
	if s.version >= optionsFrom {
		sql += " WITH ADMIN FALSE, INHERIT FALSE, SET TRUE"
	}
	return statement{sql: sql}
}

func (s *state) leave(role, member string, m membership) statement {
	sql := "REVOKE " + quote(role) + " FROM " + quote(member)
	if s.version >= optionsFrom {
		sql += " GRANTED BY " + quote(m.grantor)
	}
	return statement{sql: sql + " CASCADE"}
}

// reset takes away what the role is set to.
func (r *liveRole) reset(database string) []statement {
	var here, everywhere bool
	for _, c := range r.settings {
		here, everywhere = here || c.here, everywhere || !c.here
	}
	var out []statement
	if everywhere {
		out = append(out, statement{sql: "ALTER ROLE " + quote(r.name) + " RESET ALL"})
	}
	if here {
		out = append(out, statement{sql: "ALTER ROLE " + quote(r.name) + " IN DATABASE " + quote(database) + " RESET ALL"})
	}
	return out
}

func (s *state) loginMark(name string) string {
	return owner.Mark(string(Login{Database: s.block, Name: name}.Addr())) + inDatabase + s.database
}

// isLogin tells whether the role is marked as the authenticator of the block.
func (s *state) isLogin(name string) bool {
	r := s.logins[name]
	if r == nil {
		return false
	}
	first, _, _ := strings.Cut(r.mark, adopted)
	return first == s.loginMark(name)
}

func (s *state) login(r *liveRole) Login {
	out := Login{Database: s.block, Name: r.name, Login: r.login, Inherit: r.inherit, Drift: slices.Clone(r.attributes)}
	for _, c := range r.settings {
		if c.here {
			out.Settings = append(out.Settings, c.value)
		} else {
			out.Drift = append(out.Drift, "set everywhere "+c.name())
		}
	}
	out.Drift = append(out.Drift, s.strayDrift(r.name)...)
	for _, o := range r.memberOf {
		out.Drift = append(out.Drift, fmt.Sprintf("member of %q", o.with))
	}
	for _, m := range r.members {
		out.Drift = append(out.Drift, fmt.Sprintf("has the member %q%s", m.with, m.options()))
	}
	if s.live.owner == r.name {
		out.Drift = append(out.Drift, "owns the database")
	}
	slices.Sort(out.Settings)
	slices.Sort(out.Drift)
	return out
}

// strip takes from the authenticator what it has besides the projects' roles.
func (s *state) strip(r *liveRole) []statement {
	var out []statement
	for _, o := range r.memberOf {
		out = append(out, s.leave(o.with, r.name, o))
	}
	for _, m := range r.members {
		out = append(out, s.leave(r.name, m.with, m))
	}
	if s.live.owner == r.name {
		out = append(out, statement{sql: "ALTER DATABASE " + quote(s.database) + " OWNER TO CURRENT_USER"})
	}
	return append(out, s.dropStrays(r.name)...)
}

func (l Login) block() string   { return l.Database }
func (l Login) scope() scope    { return scope{roles: []string{l.Name}} }
func (l Login) settled() object { l.Drift = nil; return l }

func (l Login) find(s *state) object {
	if s.isLogin(l.Name) {
		return s.login(s.logins[l.Name])
	}
	return nil
}

// make adopts a role that is there: its password and its comment stay.
func (l Login) make(ctx context.Context, tx pgx.Tx, s *state) ([]statement, error) {
	name, mark := quote(l.Name), s.loginMark(l.Name)
	if s.isLogin(l.Name) {
		out := "LOGIN NOINHERIT"
		for _, a := range s.logins[l.Name].attributes {
			out += " NO" + a
		}
		return slices.Concat([]statement{{sql: "ALTER ROLE " + name + " " + out}}, s.strip(s.logins[l.Name]), l.set(s)), nil
	}
	var comment *string
	err := tx.QueryRow(ctx, "SELECT coalesce(shobj_description(oid, 'pg_authid'), '') FROM pg_roles WHERE rolname = $1", l.Name).Scan(&comment)
	switch {
	case err == pgx.ErrNoRows:
		return []statement{{sql: "CREATE ROLE " + name + " LOGIN NOINHERIT"}, {sql: "COMMENT ON ROLE " + name + " IS " + literal(mark)}}, nil
	case err != nil:
		return nil, err
	case strings.HasPrefix(*comment, owner.Mark("")):
		return nil, fmt.Errorf("the role bears another mark of cordon's (%s): each database block needs an authenticator of its own", *comment)
	}
	return []statement{{sql: "COMMENT ON ROLE " + name + " IS " + literal(mark+adopted+*comment)}}, nil
}

// set replaces the settings.
func (l Login) set(s *state) []statement {
	live := s.logins[l.Name]
	if slices.Equal(s.login(live).Settings, l.Settings) && !slices.ContainsFunc(live.settings, func(c setting) bool { return !c.here }) {
		return nil
	}
	out := live.reset(s.database)
	for _, c := range l.Settings {
		name, value, _ := strings.Cut(c, "=")
		if name != "search_path" {
			value = literal(value)
		}
		out = append(out, statement{sql: "ALTER ROLE " + quote(l.Name) + " IN DATABASE " + quote(s.database) + " SET " + name + " = " + value})
	}
	return out
}

// unmake gives an adopted role its comment back, and drops one that cordon
// made unless it has come to own something.
func (l Login) unmake(ctx context.Context, tx pgx.Tx, s *state) ([]statement, error) {
	_, comment, was := strings.Cut(s.logins[l.Name].mark, adopted)
	if was {
		text := "NULL"
		if comment != "" {
			text = literal(comment)
		}
		reset := Login{Database: l.Database, Name: l.Name}.set(s)
		return append(reset, statement{sql: "COMMENT ON ROLE " + quote(l.Name) + " IS " + text}), nil
	}
	return Role{Database: l.Database, Name: l.Name}.unmake(ctx, tx, s)
}
