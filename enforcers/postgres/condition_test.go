package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// alikes are tables whose policies are alike or look like it.
const alikes = `
CREATE SCHEMA alike; CREATE TYPE alike.mood AS ENUM ('a', 'b');
CREATE TABLE alike.a1 (id int, user_id text); CREATE TABLE alike.a2 (id int, user_id text); CREATE TABLE alike.a3 (id int, user_id text);
CREATE TABLE alike.other_name (id int, "owner of ""it""" text); CREATE TABLE alike.other_place (id int, gone int, user_id text);
CREATE TABLE alike.other_type (id int, user_id uuid); CREATE TABLE alike.swapped (user_id text, id text);
CREATE TABLE alike.pair (a text, b text); CREATE TABLE alike.riap (b text, a text);
CREATE TABLE alike.whole1 (a text); CREATE TABLE alike.whole2 (a text); CREATE TABLE alike.moody1 (id int, m alike.mood); CREATE TABLE alike.moody2 (id int, n alike.mood);
ALTER TABLE alike.other_place DROP COLUMN gone;
DO $$ DECLARE t text; own text; BEGIN
  FOREACH t IN ARRAY '{a1,a2,a3,other_place,other_type,swapped}'::text[] LOOP
    own := 'user_id::text = ' || $own$` + subject + `$own$;
    EXECUTE format('CREATE POLICY own ON alike.%I USING (%s) WITH CHECK (%s)', t, own, own);
    EXECUTE format('CREATE POLICY %I ON alike.%I FOR SELECT USING (true)', 'longer name, for other places', t);
    EXECUTE format('CREATE POLICY mixed ON alike.%I USING (true) WITH CHECK (%s)', t, own);
    EXECUTE format('CREATE POLICY crossed ON alike.%I USING (user_id IS NULL) WITH CHECK (id::text = %L)', t, ' :location 5 {QUERY ');
    EXECUTE format('CREATE POLICY added ON alike.%I FOR INSERT WITH CHECK (user_id IS NULL)', t);
    EXECUTE format('CREATE POLICY nobody ON alike.%I USING (false)', t);
    EXECUTE format('CREATE POLICY system ON alike.%I USING (tableoid > 0)', t);
    EXECUTE format('CREATE POLICY below ON alike.%I USING (EXISTS (SELECT FROM alike.pair p WHERE p.a = user_id::text))', t);
    EXECUTE format('CREATE POLICY within ON alike.%I USING (EXISTS (SELECT WHERE user_id IS NULL))', t);
    EXECUTE format('CREATE POLICY text1 ON alike.%I USING (id::text = %L)', t, 'x :location 5');
    EXECUTE format('CREATE POLICY text2 ON alike.%I USING (id::text = %L)', t, 'x :location 6');
  END LOOP;
  FOREACH t IN ARRAY '{pair,riap}'::text[] LOOP
    EXECUTE format('CREATE POLICY two ON alike.%I USING (a = b OR b IS NULL)', t);
    EXECUTE format('CREATE POLICY one ON alike.%I USING (a IS NULL) WITH CHECK (b IS NULL)', t);
  END LOOP;
  FOREACH t IN ARRAY '{whole1,whole2}'::text[] LOOP
    EXECUTE format('CREATE POLICY whole ON alike.%I USING (%I IS NULL)', t, t);
    EXECUTE format('CREATE POLICY printed ON alike.%I USING (%I.*::text = %L)', t, t, '');
  END LOOP;
END $$;
CREATE POLICY own ON alike.other_name USING ("owner of ""it""" = ` + subject + `);
CREATE POLICY m ON alike.moody1 USING (m = 'a'); CREATE POLICY m ON alike.moody2 USING (n = 'a'); CREATE POLICY b ON alike.moody2 USING (n = 'b');`

// TestConditions compares what is read of policies that are alike with what
// the server says of each by itself.
func TestConditions(t *testing.T) {
	w := newWorld(t, "alike", alikes)
	err := w.enforcer(t).reading(context.Background(), w.block, func(tx pgx.Tx) error {
		s, err := readState(context.Background(), tx, w.block, scope{schemas: []string{"alike"}})
		if err != nil {
			return err
		}
		rows, err := tx.Query(context.Background(), `
			SELECT oid, coalesce(pg_get_expr(polqual, polrelid), ''), coalesce(pg_get_expr(polwithcheck, polrelid), '') FROM pg_policy`)
		if err != nil {
			return err
		}
		said := map[uint32][2]string{}
		var oid uint32
		var using, check string
		if _, err = pgx.ForEachRow(rows, []any{&oid, &using, &check}, func() error { said[oid] = [2]string{using, check}; return nil }); err != nil {
			return err
		}
		read := 0
		for _, r := range s.relations {
			for _, p := range r.policies {
				read++
				if got := [2]string{p.using, p.check}; got != said[p.oid] {
					t.Errorf("%s on %s: %q, the server says %q", p.name, r.name, got, said[p.oid])
				}
			}
		}
		if read != len(said) || read < 70 {
			t.Errorf("%d policies were read, there are %d", read, len(said))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// meddler is a transaction in which something happens before one batch.
type meddler struct {
	pgx.Tx
	batches int
	before  func(batch int)
}

func (m *meddler) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	m.batches++
	m.before(m.batches)
	return m.Tx.SendBatch(ctx, b)
}

// TestConditionsRenamed: what others rename while cordon reads changes nothing
// of what is said of their neighbours: a policy on another column never passes
// for the declared one.
func TestConditionsRenamed(t *testing.T) {
	const n = 4
	for renamed := range n {
		t.Run(fmt.Sprint(renamed), func(t *testing.T) {
			w := newWorld(t, fmt.Sprint("renamed", renamed), `CREATE SCHEMA s; DO $$ BEGIN FOR i IN 0..3 LOOP
EXECUTE format('CREATE TABLE s.t%s (id text, user_id text)', i);
EXECUTE format('CREATE POLICY own ON s.t%s USING (id = `+strings.ReplaceAll(subject, "'", "''")+`)', i);
END LOOP; END $$`)
			err := w.enforcer(t).reading(context.Background(), w.block, func(tx pgx.Tx) error {
				rename := fmt.Sprintf("ALTER TABLE s.t%d RENAME user_id TO u; ALTER TABLE s.t%d RENAME id TO user_id", renamed, renamed)
				m := &meddler{Tx: tx, before: func(batch int) {
					if batch == 2 {
						w.exec(rename)
					}
				}}
				s, err := readState(context.Background(), m, w.block, scope{schemas: []string{"s"}})
				if err != nil {
					return err
				}
				for i := range n {
					r := s.byName[[2]string{"s", fmt.Sprint("t", i)}]
					if got := shorten(r.policies[0].using); i != renamed && got != "own(id)" {
						t.Errorf("of t%d: %s", i, got)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
