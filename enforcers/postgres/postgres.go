package postgres

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/specs"
)

// Options is what an [Enforcer] needs.
type Options struct {
	// Databases are those to read; what is declared in others is not seen.
	Databases []specs.Database
	// URL returns the connection URL of a database block, password included,
	// at the moment of use.
	URL func(ctx context.Context, database string) (string, error)
	Log *slog.Logger

	tracer      pgx.QueryTracer // of tests
	lockTimeout time.Duration
}

// Enforcer makes schemas, roles and access in PostgreSQL match the specs. It
// keeps one connection per database; Close ends them.
type Enforcer struct {
	options  Options
	conns    map[string]*pgx.Conn
	declared map[string][]string // schemas by database, as Survey had them last
}

// New returns an Enforcer. It does not connect yet.
func New(o Options) *Enforcer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.lockTimeout == 0 {
		o.lockTimeout = lockTimeout
	}
	return &Enforcer{options: o, conns: map[string]*pgx.Conn{}}
}

// Close ends the connections. The Enforcer may be used again.
func (e *Enforcer) Close(ctx context.Context) error {
	var errs []error
	for name, c := range e.conns {
		errs = append(errs, c.Close(ctx))
		delete(e.conns, name)
	}
	return errors.Join(errs...)
}
