package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/aicodesit/cordon/specs"
)

// wanted is a condition to be put in the server's words.
type wanted struct {
	Index  int    `json:"i"` // in the list of tables
	Schema string `json:"schema"`
	Name   string `json:"name"`
	Check  string `json:"check"`
}

// normaliseSQL makes, for each condition, an empty copy of the table under the
// same name and a policy on it, and reads back what the server made of it. It
// is one statement whatever their number, in a transaction that is rolled
// back; the table itself is only read. Names of the project's own schema may
// be written without it. What the server wrote is given to it again until it
// writes the same: (a AND b) AND c is read back as a AND b AND c.
const normaliseSQL = `
CREATE FUNCTION pg_temp.cordon_normalise(list jsonb) RETURNS TABLE (i int, form text, problem text) LANGUAGE plpgsql AS $$
DECLARE
  w record;
  next text;
BEGIN
  FOR w IN SELECT * FROM jsonb_to_recordset(list) AS x(i int, schema text, name text, "check" text) LOOP
    i := w.i; form := ''; problem := '';
    BEGIN
      PERFORM set_config('search_path', 'pg_catalog, ' || quote_ident(w.schema) || ', pg_temp', true);
      EXECUTE format('CREATE TEMP TABLE %I (LIKE %I.%I)', w.name, w.schema, w.name);
      EXECUTE format('CREATE POLICY cordon ON pg_temp.%I FOR INSERT WITH CHECK (%s' || chr(10) || ')', w.name, w."check");
      PERFORM set_config('search_path', 'pg_catalog', true);
      FOR round IN 1..5 LOOP
        SELECT pg_get_expr(p.polwithcheck, p.polrelid) INTO STRICT next FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
        WHERE p.polname = 'cordon' AND c.relname = w.name AND c.relnamespace = pg_my_temp_schema();
        EXIT WHEN next = form;
        form := next;
        EXECUTE format('ALTER POLICY cordon ON pg_temp.%I WITH CHECK (%s)', w.name, form);
      END LOOP;
      EXECUTE format('DROP TABLE pg_temp.%I', w.name);
    EXCEPTION WHEN OTHERS THEN
      form := ''; problem := SQLERRM;
    END;
    RETURN NEXT;
  END LOOP;
END $$`

// errRollback ends a transaction of which nothing is to stay.
var errRollback = errors.New("nothing of this stays")

// normalise fills in Check or CheckError of the tables for which a condition
// is declared.
func (e *Enforcer) normalise(ctx context.Context, set specs.Set, found []specs.Table, database string) error {
	var list []wanted
	schemas := map[string]*specs.Schema{}
	for _, p := range set.Projects {
		if p.Schema != nil && p.Schema.Database == database {
			schemas[p.SchemaName()] = p.Schema
		}
	}
	for i, t := range found {
		if t.Kind != kindTable && t.Kind != kindPartitioned {
			continue
		}
		if d, _ := declared(*schemas[t.Schema], t); d.Check != "" {
			list = append(list, wanted{i, t.Schema, t.Name, d.Check})
		}
	}
	if len(list) == 0 {
		return nil
	}
	c, err := e.conn(ctx, database)
	if err != nil {
		return err
	}
	if list, err = expressions(ctx, c, list, found); err != nil || len(list) == 0 {
		return err
	}
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if err := ask(ctx, tx, list, found); err != nil {
			return err
		}
		return errRollback
	})
	if errors.Is(err, errRollback) {
		return nil
	}
	return err
}

// expressions are those of list that are one expression and nothing else. The
// server's own parser decides, by the protocol that takes a single statement
// (Parse of the extended query protocol): what a condition could add to the
// statement that it stands in would be run with the rights of cordon. The
// others get their CheckError.
func expressions(ctx context.Context, c *pgx.Conn, list []wanted, found []specs.Table) ([]wanted, error) {
	problems := map[string]string{} // "" is none
	var out []wanted
	for _, w := range list {
		problem, asked := problems[w.Check]
		if !asked {
			// A policy ends with this clause: nothing can stand in it but an
			// expression, and nothing behind it. The line's end ends a comment.
			_, err := c.PgConn().Prepare(ctx, "", "CREATE POLICY cordon ON cordon FOR INSERT WITH CHECK ("+w.Check+"\n)", nil)
			var refused *pgconn.PgError
			switch {
			case errors.As(err, &refused):
				problem = refused.Message
			case err != nil:
				return nil, err
			}
			problems[w.Check] = problem
		}
		if problem != "" {
			found[w.Index].CheckError = problem
			continue
		}
		out = append(out, w)
	}
	return out, nil
}

func ask(ctx context.Context, tx pgx.Tx, list []wanted, found []specs.Table) error {
	if _, err := tx.Exec(ctx, normaliseSQL); err != nil {
		return err
	}
	arg, err := json.Marshal(list)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, "SELECT i, form, problem FROM pg_temp.cordon_normalise($1::text::jsonb)", string(arg))
	if err != nil {
		return err
	}
	var i int
	var form, problem string
	_, err = pgx.ForEachRow(rows, []any{&i, &form, &problem}, func() error {
		found[i].Check, found[i].CheckError = form, problem
		return nil
	})
	return err
}
