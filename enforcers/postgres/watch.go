package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// sharedEvery is how often the catalogs are asked that no event trigger
	// tells of, and lostAfter how long the answer may take.
	sharedEvery = 250 * time.Millisecond
	lostAfter   = 10 * time.Second
	// watchRest is how long nobody is woken again: anybody may NOTIFY.
	watchRest = 250 * time.Millisecond
)

// Watch calls wake when the access in a database may have changed, until ctx
// ends, whose cause it then returns. Any other error says why it can't watch,
// or does no more: wake was then called once more, and Watch may be called
// again. It has a connection of its own, and may run beside all other methods.
//
// The guard's event triggers tell of tables, functions, policies and grants as
// their transaction commits. None fires for what all databases share: roles,
// memberships, settings, the database itself, the event triggers. Of these
// catalogs the number of rows and the sum of their xmin is asked for four times a
// second. Where there is no guard, for want of a superuser, nothing tells of
// the first kind.
func (e *Enforcer) Watch(ctx context.Context, database string, wake func()) error {
	err := e.watch(ctx, database, wake)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("database.%s: %w", database, err)
}

func (e *Enforcer) watch(ctx context.Context, database string, wake func()) error {
	told := false
	c, err := e.connect(ctx, database, func() { told = true })
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(closing)
	}()
	if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	sql, err := sharedSQL(ctx, c)
	if err != nil {
		return err
	}
	was := ""
	for first := true; ; first = false {
		is, err := shared(ctx, c, sql)
		if err != nil {
			wake() // a server that has been away may have been restored
			return err
		}
		if told || first || is != was {
			wake()
			was, told = is, false
			if err := sleep(ctx, watchRest); err != nil {
				return err
			}
			continue // what came meanwhile is read with the next answer
		}
		waiting, cancel := context.WithTimeout(ctx, sharedEvery)
		err = c.PgConn().WaitForNotification(waiting)
		cancel()
		if err != nil && (!pgconn.Timeout(err) || c.IsClosed()) {
			wake()
			return err
		}
	}
}

func shared(ctx context.Context, c *pgx.Conn, sql string) (is string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	err = c.QueryRow(ctx, sql).Scan(&is)
	return is, err
}

// sharedSQL is the query whose answer changes with what no event trigger tells
// of. Only a superuser sees pg_authid.
func sharedSQL(ctx context.Context, c *pgx.Conn) (sql string, err error) {
	var super bool
	var version int
	err = c.QueryRow(ctx, "SELECT rolsuper, current_setting('server_version_num')::int FROM pg_roles WHERE rolname = current_user").Scan(&super, &version)
	if err != nil {
		return "", err
	}
	rows := func(catalog string) string {
		return ", (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM " + catalog + ")"
	}
	sql = "SELECT concat_ws(' '" + rows("pg_auth_members") + rows("pg_db_role_setting") + rows("pg_shdescription") + rows("pg_event_trigger") +
		rows("pg_database WHERE datname = current_database()")
	if version >= parametersFrom {
		sql += rows("pg_parameter_acl")
	}
	if super {
		return sql + rows("pg_authid") + ")", nil
	}
	return sql + ", (SELECT md5(string_agg(r::text, ' ' ORDER BY oid)) FROM pg_roles r))", nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
