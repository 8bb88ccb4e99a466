package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Effective is what a role can do by one command on a relation, whoever gave
// it, and why.
type Effective struct {
	Role    string   `json:"role"`
	Command string   `json:"command"`
	Columns []string `json:"columns,omitempty"` // if not all of them
	Rows    string   `json:"rows"`              // "all", "none", or the conditions, in the form of [Policy]
	Why     []string `json:"why,omitempty"`
	// Paths are other objects by which it may do so too, with rights that are
	// not its own: rows as those rights have them.
	Paths []string `json:"paths,omitempty"`
}

// actingRole is what of a role decides its access.
type actingRole struct {
	name          string
	super, bypass bool
	has           []string // the roles whose rights it has, itself too
}

const actingSQL = `
SELECT r.rolname, r.rolsuper, r.rolbypassrls, ARRAY(SELECT g.rolname::text FROM pg_roles g WHERE pg_has_role(r.oid, g.oid, 'USAGE') ORDER BY 1)
FROM pg_roles r WHERE r.rolname = ANY ($1) ORDER BY r.rolname COLLATE "C"`

const columnNamesSQL = `
SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

// Access tells what the roles can do on a relation. Roles that are not there
// can do nothing.
func (e *Enforcer) Access(ctx context.Context, database, schema, table string, roles []string) ([]Effective, error) {
	var out []Effective
	err := e.reading(ctx, database, func(tx pgx.Tx) error {
		s, err := readState(ctx, tx, database, scope{whole: true})
		if err != nil {
			return err
		}
		r := s.byName[[2]string{schema, table}]
		if r == nil {
			return fmt.Errorf("there is no relation %s", quote(schema, table))
		}
		rows, err := tx.Query(ctx, columnNamesSQL, r.oid)
		if err != nil {
			return err
		}
		columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		if rows, err = tx.Query(ctx, actingSQL, roles); err != nil {
			return err
		}
		acting, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a actingRole, err error) {
			return a, row.Scan(&a.name, &a.super, &a.bypass, &a.has)
		})
		for _, a := range acting {
			for _, command := range []string{"select", "insert", "update", "delete"} {
				one := a.effective(s.schemas[schema], r, columns, command)
				one.Paths = a.paths(s, r, command)
				out = append(out, one)
			}
		}
		return err
	})
	return out, err
}

// effective is what a can do by the command.
func (a actingRole) effective(n *liveSchema, r *relation, columns []string, command string) Effective {
	out := Effective{Role: a.name, Command: command, Rows: "none"}
	if why := a.by(n.acl, n.owner, "USAGE", ""); len(why) == 0 {
		out.Why = []string{"it may not use the schema"}
		return out
	}
	privilege := strings.ToUpper(command)
	out.Why = a.by(r.acl, r.owner, privilege, "")
	if len(out.Why) == 0 {
		for _, c := range columns {
			if why := a.by(r.acl, r.owner, privilege, c); len(why) > 0 {
				out.Columns = append(out.Columns, c)
				out.Why = append(out.Why, why...)
			}
		}
		slices.Sort(out.Why)
		out.Why = slices.Compact(out.Why)
	}
	if len(out.Why) == 0 {
		out.Why = []string{"it has no privilege"}
		return out
	}
	rows, why := a.rows(r, command)
	out.Rows, out.Why = rows, append(out.Why, why...)
	return out
}

// by tells how a has a privilege, on the whole or on a column.
func (a actingRole) by(acl []privilege, owner, name, column string) []string {
	if a.super {
		return []string{"it is a superuser"}
	}
	var out []string
	if slices.Contains(a.has, owner) {
		out = append(out, "owner"+a.through(owner))
	}
	for _, p := range acl {
		switch {
		case p.name != name || p.column != column || p.grantee == owner:
		case p.grantee == "":
			out = append(out, fmt.Sprintf("granted to PUBLIC by %s", p.grantor))
		case slices.Contains(a.has, p.grantee):
			out = append(out, fmt.Sprintf("granted to it by %s%s", p.grantor, a.through(p.grantee)))
		}
	}
	return out
}

// through names the role by which a has something, if it is another.
func (a actingRole) through(role string) string {
	if role == a.name {
		return ""
	}
	return fmt.Sprintf(", as a member of %s", role)
}

// rows tells which rows policies leave to a.
func (a actingRole) rows(r *relation, command string) (rows string, why []string) {
	owns := slices.Contains(a.has, r.owner)
	switch {
	case r.kind != "r" && r.kind != "p":
		return "all", []string{"what is no table has no policies of its own"}
	case a.super || a.bypass:
		return "all", []string{"policies don't bind it"}
	case !r.rowSecurity:
		return "all", []string{"row level security is off"}
	case owns && !r.forced:
		return "all", []string{"row level security is not forced on the owner"}
	}
	var open, bounds []string
	for _, p := range r.policies {
		if c := policyCommands[p.command]; c != "all" && c != command || !a.named(p) {
			continue
		}
		condition := p.using
		if command == "insert" && (p.check != "" || p.using == "") {
			condition = p.check
		}
		if condition == "" {
			condition = "true"
		}
		why = append(why, "policy "+p.name)
		if p.permissive {
			open = append(open, shorten(condition))
		} else {
			bounds = append(bounds, shorten(condition))
		}
	}
	if len(open) == 0 {
		return "none", append(why, "no policy lets it")
	}
	rows = strings.Join(open, " or ")
	if slices.Contains(open, "true") {
		rows = "all"
	}
	if len(bounds) > 0 {
		rows += " that meet " + strings.Join(bounds, " and ")
	}
	return rows, why
}

func (a actingRole) named(p livePolicy) bool {
	return slices.ContainsFunc(p.roles, func(role string) bool { return role == "" || slices.Contains(a.has, role) })
}
