package postgres

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/specs"
)

// Access finer than a table and a command: by column, by an owner column for
// each command, by a condition.
func TestFinerAccess(t *testing.T) {
	w := newWorld(t, "finer", `CREATE SCHEMA finer AUTHORIZATION app; SET ROLE app;
CREATE TYPE finer.mood AS ENUM ('good', 'bad');
CREATE TABLE finer.t (id serial, author text, editor text, total int DEFAULT 1, secret text DEFAULT 's', m finer.mood DEFAULT 'good');
INSERT INTO finer.t (author, editor) VALUES ('alice', 'bob'), ('bob', 'alice');
CREATE TABLE finer.bad (user_id text, x int); INSERT INTO finer.bad VALUES ('alice', 1);
CREATE TABLE finer.public (user_id text); INSERT INTO finer.public VALUES ('bob')`)
	set := []specs.TableAccess{
		{Name: "bad", OwnerColumn: "user_id", Check: "x > no_such_column"},
		{Name: "public", Anonymous: []string{"select"}, Authenticated: []string{"select"}, OwnerColumn: "user_id"},
		{
			Name: "t", OwnerColumn: "author", OwnerColumns: map[string]string{"update": "editor"},
			Columns: map[string][]string{"select": {"author", "editor", "id", "total"}, "insert": {"author", "total"}, "update": {"total"}},
			Check:   "total between 0 and 9 and m = 'good'::mood",
		},
	}
	w.apply(project("finer", "", set...))
	notes := New(Options{}).Notes(w.set(project("finer", "", set...)))
	if len(notes) != 1 || !strings.Contains(notes[0].Text, "no_such_column") {
		t.Errorf("notes %v; want one on the condition that the server does not take", notes)
	}
	alice := actor{role: "finer_user", claims: `{"sub":"alice"}`}
	for _, tt := range []struct {
		sql  string
		as   actor
		want string // "refused"
	}{
		{"SELECT count(author) FROM finer.t", alice, "1"},
		{"SELECT secret FROM finer.t", alice, "refused"},
		{"SELECT * FROM finer.t", alice, "refused"},
		{"SELECT count(secret) FROM finer.t", actor{role: "finer_service"}, "2"},
		{"INSERT INTO finer.t (author, total) VALUES ('alice', 9) RETURNING total", alice, "9"},
		{"INSERT INTO finer.t (author, total) VALUES ('alice', 10)", alice, "refused"},
		{"INSERT INTO finer.t (author, total) VALUES ('bob', 9)", alice, "refused"},
		{"INSERT INTO finer.t (author, secret) VALUES ('alice', 'x')", alice, "refused"},
		{"WITH u AS (UPDATE finer.t SET total = 7 RETURNING author) SELECT count(*) FROM u", alice, "0"}, // RETURNING reads, and she reads other rows than she edits
		{"UPDATE finer.t SET author = 'alice'", alice, "refused"},
		{"INSERT INTO finer.t (total) VALUES (10) RETURNING total", actor{role: "finer_admin"}, "10"},
		{"WITH u AS (DELETE FROM finer.t RETURNING author) SELECT string_agg(author, ',') FROM u", alice, "alice"},
		{"INSERT INTO finer.bad VALUES ('alice', 5)", alice, "refused"},
		{"UPDATE finer.bad SET x = 5", alice, "refused"},
		{"SELECT count(*) FROM finer.bad", alice, "1"},
		{"SELECT count(*) FROM finer.public", alice, "1"},
		{"SELECT count(*) FROM finer.public", actor{role: "finer_anon"}, "1"},
		{"INSERT INTO finer.public VALUES ('alice')", alice, "refused"},
		{"DELETE FROM finer.public", alice, "refused"},
	} {
		t.Run(tt.as.role+" "+tt.sql, func(t *testing.T) {
			tx, err := pgtest.Connect(t, w.url).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			become(t, tx, tt.as, "")
			results, err := tx.Conn().PgConn().Exec(t.Context(), tt.sql).ReadAll()
			got := "done"
			switch {
			case refused(err):
				got = "refused"
			case err != nil:
				t.Fatal(err)
			case len(results[0].Rows) == 1:
				got = string(results[0].Rows[0][0])
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// A condition is one expression and nothing else: what else stands in it is
// neither run, not even while a plan is made, nor taken over as a condition
// that was not meant.
func TestConditionIsOnlyACondition(t *testing.T) {
	file := filepath.Join(t.TempDir(), "made")
	outside := "copy (select 1) to program 'touch " + file + "'"
	w := newWorld(t, "only", `CREATE SCHEMA sole; CREATE TABLE sole.t (user_id text)`)
	for check, ok := range map[string]bool{
		"":                                   true,
		"user_id = 'x'":                      true,
		"user_id = 'x' -- a word":            true,
		"(user_id = 'a') OR (user_id < 'b')": true,
		"user_id <> ')'":                     true,
		"1":                                  false,
		"no_such = 1":                        false,
		"true); " + outside + "; --":         false,
		"true);" + outside + ";select (1":    false,
		"true); DROP TABLE sole.t; --":       false,
		"true) ; CREATE TABLE sole.u (x int); SELECT (1": false,
		"true); COMMIT; CREATE TABLE sole.u (x int); --": false,
		"true\n); DROP TABLE sole.t; --":                 false,
		"true) WITH CHECK (true":                         false,
		"true /* ":                                       false,
		"'":                                              false,
		"$x$":                                            false,
		"user_id = E'\\'); DROP TABLE sole.t; --'":                             true, // one string, as the server reads it
		"true) AS PERMISSIVE FOR ALL TO PUBLIC USING (true":                    false,
		"user_id = 'x'); ALTER ROLE CURRENT_USER SET search_path = 'sole'; --": false,
	} {
		t.Run(check, func(t *testing.T) {
			set := w.set(project("sole", "user_id", specs.TableAccess{Name: "t", Check: check}))
			if len(set.Tables) != 1 {
				t.Fatalf("%+v", set.Tables)
			}
			got := set.Tables[0]
			if ok != (got.CheckError == "") || ok != (check == "" || got.Check != "") {
				t.Errorf("%q: form %q, problem %q", check, got.Check, got.CheckError)
			}
			if _, err := os.Stat(file); err == nil {
				t.Fatal("it was run")
			}
		})
	}
}
