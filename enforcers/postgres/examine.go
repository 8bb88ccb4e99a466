package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/reconciler"
)

// oldest is the first version whose catalogs and statements are known to fit.
const oldest = 130000

// examineSQL is the version, whether the server only follows another, and
// what the connecting role may do. Membership in an owner counts when its
// rights are inherited, for then GRANT and ALTER act as the owner.
const examineSQL = `
SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_is_in_recovery(),
       r.rolsuper, r.rolcreaterole, has_database_privilege(current_database(), 'CREATE'),
       ARRAY(SELECT DISTINCT pg_get_userbyid(c.relowner)::text
             FROM pg_class c JOIN pg_description d ON d.objoid = c.relnamespace AND d.classoid = 'pg_namespace'::regclass
             WHERE d.description LIKE 'cordon:%' AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT pg_has_role(c.relowner, 'USAGE')
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
	var owners []string
	err := e.reading(ctx, database, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, examineSQL).Scan(&version, &number, &standby, &super, &createRole, &create, &owners)
	})
	f.Text = "PostgreSQL " + version
	switch {
	case err != nil:
		f.Text, f.Remedy = err.Error(), "check the secret that the database block names, and that the server can be reached from this host"
	case number < oldest:
		f.Remedy = "upgrade the server: 13 is the oldest version that is supported"
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
	default:
		f.Status = reconciler.Warn
		f.Text += ", the connecting role has what it needs, but for the event trigger that closes new tables at once: until the next apply they are as their maker left them"
		f.Remedy = "let a superuser apply once, or connect as one"
	}
	return f
}
