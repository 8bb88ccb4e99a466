package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// lockTimeout bounds how long a change waits for a row of the catalogs. For
	// a table nothing is waited for, or the application's queries would queue up
	// behind: it is asked for again and again.
	lockTimeout = 2 * time.Second
	// attempts is how often a change is tried that lost against others, or for
	// as long as lockTimeout.
	attempts = 5
	// pause is between two of them, on average. A table of an application that never
	// rests is free for moments only: it takes many tries to meet one.
	pause = 50 * time.Millisecond
	// changing is the key of the advisory lock that changes are made under:
	// without it, two of them on one catalog row abort ("tuple concurrently
	// updated"). The number is "cordon" in ASCII.
	changing = 0x636f72646f6e
)

// statement is one change to the catalogs.
type statement struct {
	sql string
	as  string // the role to act as; "" is the connection's own

	// lend is a schema that the role to act as may not use: it is let in for
	// the statement, or could not name what it granted on.
	lend string
}

// all is the statement with what it takes around it.
func (s statement) all() []string {
	switch {
	case s.as == "":
		return []string{s.sql}
	case s.lend == "":
		return []string{"SET LOCAL ROLE " + quote(s.as), s.sql, "SET LOCAL ROLE NONE"}
	}
	on := " USAGE ON SCHEMA " + quote(s.lend)
	return []string{
		"GRANT" + on + " TO " + quote(s.as), "SET LOCAL ROLE " + quote(s.as), s.sql, "SET LOCAL ROLE NONE",
		"REVOKE" + on + " FROM " + quote(s.as),
	}
}

// conn returns the connection to a database, made anew if need be.
func (e *Enforcer) conn(ctx context.Context, database string) (*pgx.Conn, error) {
	if c := e.conns[database]; c != nil && !c.IsClosed() {
		return c, nil
	}
	c, err := e.connect(ctx, database, nil)
	if err != nil {
		return nil, fmt.Errorf("database.%s: %w", database, err)
	}
	e.conns[database] = c
	return c, nil
}

// checked is conn, for a connection that may have been idle for long, or began
// with settings that are gone since.
func (e *Enforcer) checked(ctx context.Context, database string) (*pgx.Conn, error) {
	if c := e.conns[database]; c != nil && (c.PgConn().CustomData()[claimed] != nil || c.Ping(ctx) != nil) {
		_ = c.Close(ctx)
		delete(e.conns, database)
	}
	return e.conn(ctx, database)
}

// connect never returns an error with the URL or its password in it. told is
// called for each notification, unless it is nil.
func (e *Enforcer) connect(ctx context.Context, database string, told func()) (*pgx.Conn, error) {
	url, err := e.options.URL(ctx, database)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil { // err quotes the URL
		return nil, errors.New("the connection secret is no PostgreSQL URL (postgres://USER:PASSWORD@HOST:PORT/DATABASE) or names files that can't be read")
	}
	config.Tracer = e.options.tracer
	if told != nil {
		config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { told() }
	}
	config.RuntimeParams["application_name"] = "cordon"
	config.RuntimeParams["search_path"] = "pg_catalog"            // names in the catalogs' own words, see catalog.go
	config.RuntimeParams["role"] = "none"                         // whatever the database or ALTER ROLE ALL makes of those who connect
	config.RuntimeParams["default_transaction_read_only"] = "off" // likewise: it would look like a standby
	config.RuntimeParams["standard_conforming_strings"] = "on"
	config.RuntimeParams["client_encoding"] = "UTF8"
	config.RuntimeParams["jit"] = "off" // compiling takes longer than the queries
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		text := fmt.Sprintf("connect as %q to %q at %s: %s", config.User, config.Database, config.Host, reason(err))
		if config.Password != "" {
			text = strings.ReplaceAll(text, config.Password, "***")
		}
		return nil, errors.New(text)
	}
	if err := fit(ctx, c); err != nil {
		_ = c.Close(ctx)
		return nil, err
	}
	return c, nil
}

// fit returns an error when the server is too old, or when something stands
// between cordon and it that hands out connections of its own: it names another
// process than the one that answers, or drops what the session is to begin
// with. The settings and locks that changes rely on could be another's at the
// next statement.
func fit(ctx context.Context, c *pgx.Conn) error {
	results, err := c.PgConn().Exec(ctx, "SELECT pg_backend_pid(), current_setting('search_path'), ("+forgetSQL+"), current_setting('server_version_num')").ReadAll()
	if err != nil {
		return err
	}
	row := results[0].Rows[0]
	if version, err := strconv.Atoi(string(row[3])); err != nil || version < oldest {
		return fmt.Errorf("%w (this is %s)", errTooOld, row[3])
	}
	if string(row[2]) != "0" {
		c.PgConn().CustomData()[claimed] = true
	}
	if string(row[0]) == strconv.FormatUint(uint64(c.PgConn().PID()), 10) && string(row[1]) == "pg_catalog" {
		return nil
	}
	return errors.New(pooled)
}

// forgetSQL empties the claims that the database and roles have set in the
// session: what is left are those of the server's configuration, which no
// catalog tells of. A session that had some can't tell when they are gone.
const forgetSQL = `
SELECT count(set_config(split_part(c, '=', 1), '', false)) FROM pg_db_role_setting d, unnest(d.setconfig) c
WHERE d.setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user)) AND c ILIKE 'request.%'
  AND d.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))`

// claimed is the key of connections that forgot claims.
const claimed = "cordon.claimed"

const pooled = "a connection pooler stands in between: cordon needs a session of its own, connect to the server directly"

// reason is why a connection could not be made, in the server's or the
// kernel's words.
func reason(err error) string {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &pg) && strings.Contains(pg.Message, "unsupported startup parameter"):
		return pg.Message + ": " + pooled
	case errors.As(err, &pg):
		return fmt.Sprintf("%s (SQLSTATE %s)", pg.Message, pg.Code)
	case errors.As(err, &connect):
		err = connect.Unwrap()
	}
	return strings.Join(strings.Fields(err.Error()), " ") // it has a line for each address that was tried
}

// reading runs f in a transaction that sees one state of the database.
func (e *Enforcer) reading(ctx context.Context, database string, f func(pgx.Tx) error) error {
	c, err := e.checked(ctx, database)
	if err != nil {
		return err
	}
	begin := "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " + e.declare(database)
	err = pgx.BeginTxFunc(ctx, c, pgx.TxOptions{BeginQuery: begin}, f)
	if err != nil {
		return fmt.Errorf("database.%s: %w", database, err)
	}
	return nil
}

// declare tells the transaction which schemas are projects' before they bear a
// mark, so that what leads past their policies is known by the first plan.
func (e *Enforcer) declare(database string) string {
	var names []string
	for _, name := range e.declared[database] {
		names = append(names, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)+`"`)
	}
	return "SELECT pg_catalog.set_config('" + declaredSchemas + "', " + literal("{"+strings.Join(names, ",")+"}") + ", true)"
}

// declaredSchemas is the setting, an array.
const declaredSchemas = "cordon.schemas"

// change runs f in a transaction of its own, one at a time in a database,
// and again when it lost against what others did meanwhile.
func (e *Enforcer) change(ctx context.Context, database string, f func(pgx.Tx) error) error {
	start := time.Now()
	for try := 1; ; try++ {
		err := e.try(ctx, database, e.options.lockTimeout, f)
		if err == nil || !transient(err) || try >= attempts && time.Since(start) > e.options.lockTimeout {
			return err
		}
		e.options.Log.Debug("postgres: trying again", "database", database, "try", try, "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + rand.N(pause)): // in step with nobody
		}
	}
}

func (e *Enforcer) try(ctx context.Context, database string, wait time.Duration, f func(pgx.Tx) error) error {
	c, err := e.conn(ctx, database)
	if err != nil {
		return err
	}
	return primary(pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		lock := fmt.Sprintf("SET LOCAL lock_timeout = %d; SELECT pg_advisory_xact_lock(%d); %s", wait.Milliseconds(), changing, e.declare(database))
		if _, err := tx.Exec(ctx, lock, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		return f(tx)
	}))
}

// primary says what a server means that refuses every change.
func primary(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "25006" || strings.Contains(pg.Message, "recovery")) {
		return fmt.Errorf("%w: %s", err, standby)
	}
	return err
}

const standby = "the server is a standby or read-only: connect to the primary"

// transient tells errors that a second try may not meet: serialization
// failure, deadlock, lock timeout, and the catalogs' "tuple concurrently
// updated" (or deleted), which has no code of its own.
func transient(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "55P03":
		return true
	}
	return strings.HasPrefix(pg.Message, "tuple concurrently ")
}

// run sends statements in one go.
func run(ctx context.Context, tx pgx.Tx, list []statement) error {
	var sql []string
	for _, s := range list {
		sql = append(sql, s.all()...)
	}
	results, err := tx.Conn().PgConn().Exec(ctx, strings.Join(sql, ";\n")).ReadAll()
	if err == nil {
		return nil
	}
	done := 0
	for _, r := range results {
		if r.Err == nil {
			done++
		}
	}
	return fmt.Errorf("%s: %w", sql[min(done, len(sql)-1)], explain(tx, err))
}

// explain adds the server's details, and what to do when the connecting role
// may not.
func explain(tx pgx.Tx, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	if pg.Detail != "" {
		err = fmt.Errorf("%w: %s", err, strings.ReplaceAll(pg.Detail, "\n", "; "))
	}
	if pg.Code != "42501" {
		return err
	}
	return fmt.Errorf("%w: the role %q that cordon connects as must be a superuser, or have CREATEROLE, CREATE on the database, membership in the owners of the schemas and tables and, from PostgreSQL 16 on, the ADMIN option on roles that it did not make", err, tx.Conn().Config().User)
}
