package postgres

import (
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/specs"
)

// What is told agrees with what the server answers, for every way to have
// access.
func TestEffectiveAccess(t *testing.T) {
	w := newWorld(t, "effect", `CREATE SCHEMA effect AUTHORIZATION app; SET ROLE app; CREATE TABLE effect.t (user_id text, x int, y int); CREATE TABLE effect.loose (x int); RESET ROLE;
CREATE ROLE effect_in; CREATE ROLE effect_super SUPERUSER; GRANT USAGE ON SCHEMA effect TO PUBLIC`)
	t.Cleanup(func() { w.exec(`DROP OWNED BY effect_in; DROP ROLE effect_in; DROP ROLE effect_super`) })
	w.apply(project("effect", "user_id", specs.TableAccess{Name: "t", Anonymous: []string{"select"}, Check: "x > 0", Columns: map[string][]string{"update": {"x"}}}))
	w.exec(`GRANT USAGE ON SCHEMA effect TO PUBLIC; GRANT effect_in TO bob; GRANT SELECT, DELETE ON effect.t TO effect_in; GRANT UPDATE (y) ON effect.t TO PUBLIC; GRANT INSERT ON effect.t TO carol`)
	w.exec(`CREATE POLICY few ON effect.t FOR SELECT TO effect_in USING (x > 3)`)
	conn := pgtest.Connect(t, w.url)
	roles := []string{"effect_anon", "effect_user", "effect_admin", "bob", "carol", "app", "effect_super", "nobody"}
	list, err := w.enforcer(t).Access(t.Context(), "effect", "effect", "t", roles)
	if err != nil || len(list) != 4*7 {
		t.Fatalf("%d, %v", len(list), err)
	}
	rows := map[string]string{}
	for _, e := range list {
		var whole, any bool
		if err := conn.QueryRow(t.Context(), "SELECT has_table_privilege($1, 'effect.t', $2), $2 = 'delete' AND has_table_privilege($1, 'effect.t', $2) OR $2 <> 'delete' AND has_any_column_privilege($1, 'effect.t', CASE $2 WHEN 'delete' THEN 'select' ELSE $2 END)", e.Role, e.Command).Scan(&whole, &any); err != nil {
			t.Fatal(err)
		}
		if got := e.Why[0] != "it has no privilege"; got != any || whole && len(e.Columns) > 0 || any && !whole && len(e.Columns) == 0 {
			t.Errorf("%+v; the server says %v, in part %v", e, whole, any)
		}
		rows[e.Role+" "+e.Command] = e.Rows + ": " + strings.Join(e.Why, "; ")
	}
	for key, want := range map[string]string{
		"effect_anon select":  "all: granted to it by app; policy cordon_public_select",
		"effect_user select":  "all: granted to it by app; policy cordon_own; policy cordon_public_select",
		"effect_user delete":  "own(user_id): granted to it by app; policy cordon_own",
		"effect_user insert":  "own(user_id) that meet sql: (x > 0): granted to it by app; policy cordon_check_insert; policy cordon_own",
		"bob select":          "sql: (x > 3): granted to it by app, as a member of effect_in; policy few",
		"bob update":          "none: granted to PUBLIC by app; no policy lets it",
		"carol insert":        "none: granted to it by app; no policy lets it",
		"app select":          "none: owner; no policy lets it",
		"effect_super update": "all: it is a superuser; policies don't bind it",
		"effect_admin update": "all: granted to it by app; policy cordon_all",
	} {
		if rows[key] != want {
			t.Errorf("%s: %s, want %s", key, rows[key], want)
		}
	}
	w.exec(`GRANT USAGE ON SCHEMA public TO PUBLIC; CREATE VIEW public.effect_v AS SELECT * FROM effect.t; GRANT SELECT ON public.effect_v TO PUBLIC; GRANT DELETE ON public.effect_v TO bob;
CREATE FUNCTION public.effect_f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'; REVOKE EXECUTE ON FUNCTION public.effect_f FROM PUBLIC; GRANT EXECUTE ON FUNCTION public.effect_f TO effect_user`)
	if list, err = w.enforcer(t).Access(t.Context(), "effect", "effect", "t", []string{"effect_anon", "effect_user", "bob", "effect_super"}); err != nil {
		t.Fatal(err)
	}
	view, function := "by the view public.effect_v, with the rights of postgres", "perhaps by the function public.effect_f(), with the rights of postgres"
	paths := map[string]string{"effect_anon select": view, "effect_user select": view + "; " + function, "effect_user insert": function, "effect_user update": function, "effect_user delete": function, "bob select": view, "bob delete": view}
	for _, e := range list {
		if got, want := strings.Join(e.Paths, "; "), paths[e.Role+" "+e.Command]; got != want {
			t.Errorf("%s %s: paths %q, want %q", e.Role, e.Command, got, want)
		}
	}
	if _, err := w.enforcer(t).Access(t.Context(), "effect", "effect", "gone", roles); err == nil {
		t.Error("no error for a table that is not there")
	}
}

// A plan says in words who gains and who loses. Whoever gets at all rows has not
// lost its own.
func TestPlanTellsWhoGains(t *testing.T) {
	w := newWorld(t, "gains", `CREATE SCHEMA gains; CREATE TABLE gains.t (user_id text)`)
	w.apply(project("gains", "user_id"))
	w.exec(`GRANT DELETE ON gains.t TO gains_anon`)
	_, p := w.plan(w.declared(project("gains", "user_id", specs.TableAccess{Name: "t", Anonymous: []string{"select"}, Authenticated: []string{"select"}})))
	var said []string
	for _, n := range p.Notes {
		said = append(said, n.Text)
	}
	got := strings.Join(said, "\n")
	want := `the anonymous (gains_anon) gains SELECT of all rows on gains.t
the anonymous (gains_anon) loses DELETE of no rows on gains.t
the logged-in (gains_user) gains SELECT of all rows on gains.t
the logged-in (gains_user) loses DELETE of rows own(user_id), INSERT of rows own(user_id), UPDATE of rows own(user_id) on gains.t`
	if got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
}
