package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/reconciler"
)

// oldest is the first version whose catalogs and statements are known to fit,
// newest the last major version that the tests ran on.
const (
	oldest = 130000
	newest = 18
)

var errTooOld = errors.New("the server is too old: PostgreSQL 13 is the oldest that is supported")

// examineSQL is the version, whether the server only follows another, and
// what the connecting role may do. Membership in an owner counts when its
// rights are inherited, for then GRANT and ALTER act as the owner. From 16 on
// CREATEROLE alone changes no role that another made.
const examineSQL = `
SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_is_in_recovery(),
       r.rolsuper, r.rolcreaterole, has_database_privilege(current_database(), 'CREATE'),
       ARRAY(SELECT DISTINCT pg_get_userbyid(c.relowner)::text
             FROM pg_class c JOIN pg_description d ON d.objoid = c.relnamespace AND d.classoid = 'pg_namespace'::regclass
             WHERE d.description LIKE 'cordon:%' AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT pg_has_role(c.relowner, 'USAGE')
             ORDER BY 1),
       ARRAY(SELECT p.rolname::text FROM pg_roles p JOIN pg_shdescription d ON d.objoid = p.oid AND d.classoid = 'pg_authid'::regclass
             WHERE (d.description LIKE 'cordon:postgres.role.%' OR d.description LIKE 'cordon:postgres.login.%')
               AND right(split_part(d.description, E'\n', 1), length(' in database ' || current_database())) = ' in database ' || current_database()
               AND current_setting('server_version_num')::int >= 160000 AND NOT pg_has_role(p.oid, 'MEMBER WITH ADMIN OPTION')
             ORDER BY 1)
FROM pg_roles r WHERE r.rolname = current_user`

// Examine tells of each database whether it can be reached, and whether the
// connecting role has the rights to enforce anything.
func (e *Enforcer) Examine(ctx context.Context) []reconciler.Finding {
	var out []reconciler.Finding
	for _, d := range e.options.Databases {
		out = append(out, e.examine(ctx, d.Name))
	}
	return out
}

func (e *Enforcer) examine(ctx context.Context, database string) reconciler.Finding {
	f := reconciler.Finding{Subject: "postgresql " + database, Status: reconciler.Fail}
	var version string
	var number int
	var standby, super, createRole, create bool
	var owners, roles []string
	err := e.reading(ctx, database, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, examineSQL).Scan(&version, &number, &standby, &super, &createRole, &create, &owners, &roles)
	})
	f.Text = "PostgreSQL " + version
	switch {
	case errors.Is(err, errTooOld):
		f.Text, f.Remedy = err.Error(), "upgrade the server"
	case err != nil:
		f.Text, f.Remedy = err.Error(), "check the secret that the database block names, and that the server can be reached from this host"
	case standby:
		f.Text += ", a standby: it can't be changed"
		f.Remedy = "connect to the primary"
	case super:
		f.Status = reconciler.OK
		f.Text += ", connected as a superuser"
	case !createRole:
		f.Text += ", the connecting role lacks CREATEROLE"
		f.Remedy = "ALTER ROLE … CREATEROLE, as a superuser"
	case !create:
		f.Text += ", the connecting role lacks CREATE on the database"
		f.Remedy = "GRANT CREATE ON DATABASE … TO the connecting role"
	case len(owners) > 0:
		f.Text += fmt.Sprintf(", the connecting role is no member of %q, who own tables of projects", owners)
		f.Remedy = "GRANT these roles TO the connecting role"
	case len(roles) > 0:
		f.Text += fmt.Sprintf(", the connecting role lacks the ADMIN option on %q, which others made", roles)
		f.Remedy = "GRANT these roles TO the connecting role WITH ADMIN OPTION, as a superuser"
	default:
		f.Status = reconciler.Warn
		f.Text += ", the connecting role has what it needs, but for the event trigger that closes new tables at once: until the next apply they are as their maker left them"
		f.Remedy = "let a superuser apply once, or connect as one"
	}
	if f.Status != reconciler.Fail && number/10000 > newest {
		f.Status = reconciler.Warn
		f.Text += fmt.Sprintf("; the newest version that cordon was tested with is %d", newest)
		f.Remedy = strings.TrimSuffix("look for a newer cordon: what a newer server has besides, this one does not know; "+f.Remedy, "; ")
	}
	return f
}
