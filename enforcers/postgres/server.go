package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/specs"
)

// $1 is the name of the guard, $2 its mark.
const serverSQL = `
SELECT current_setting('server_version_num')::int, current_user::text, r.rolsuper, pg_has_role(d.datdba, 'USAGE'), pg_is_in_recovery(),
       EXISTS (SELECT FROM pg_event_trigger e WHERE e.evtname = $1 AND obj_description(e.oid, 'pg_event_trigger') = $2),
       coalesce(shobj_description(d.oid, 'pg_database'), '')
FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()`

// queueServer returns what is filled in when b was sent.
func queueServer(b *pgx.Batch, database string) *specs.Server {
	out := &specs.Server{Database: database}
	s := state{block: database}
	b.Queue(serverSQL, guardName(database), s.guardMark()).QueryRow(func(row pgx.Row) error {
		var follows bool
		var comment string
		err := row.Scan(&out.Version, &out.User, &out.Superuser, &out.Owner, &follows, &out.Guarded, &comment)
		_, _, out.Marked = Database{Database: database}.marked(comment)
		switch {
		case err != nil:
			return err
		case follows:
			return errors.New(standby)
		}
		return nil
	})
	return out
}
