package postgres

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aicodesit/cordon/internal/pgtest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

func TestParseACL(t *testing.T) {
	for _, tt := range []struct {
		item string
		want []privilege
	}{
		{"=r/app", []privilege{{name: "SELECT", grantor: "app"}}},
		{"bob=a*w/app", []privilege{{grantee: "bob", grantor: "app", name: "INSERT", grantable: true}, {grantee: "bob", grantor: "app", name: "UPDATE"}}},
		{`"a=b/""c"=U/"d/e"`, []privilege{{grantee: `a=b/"c`, grantor: "d/e", name: "USAGE"}}},
		{"bob=/app", nil},
	} {
		got, err := parseACL([]string{tt.item}, "")
		if err != nil {
			t.Errorf("%s: %v", tt.item, err)
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(privilege{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.item, diff)
		}
	}
	for _, bad := range []string{"", "bob", "bob=r", "bob=?/app", `"bob=r/app`, `bob=r/"app`} {
		if got, err := parseACL([]string{bad}, ""); err == nil {
			t.Errorf("%q: no error, %v", bad, got)
		}
	}
}

// Whatever a condition by hand looks like, it must not pass for cordon's.
func TestConditionsThatOnlyLookAlike(t *testing.T) {
	sub := subject
	for _, expr := range []string{
		"((user_id = " + sub + ") OR true)",
		"(NOT (user_id = " + sub + "))",
		"((SELECT 'x'::text) = " + sub + ")",
		"(lower(user_id) = " + sub + ")",
		"(('alice'::text)::text = " + sub + ")",
		"(CURRENT_USER = " + sub + ")",
		"(((user_id IS NULL) OR true) IS NULL)",
		"(user_id IS NOT NULL)",
		`("a" = "b" = ` + sub + ")",
		"(user_id = " + strings.Replace(sub, "'sub'", "'aud'", 1) + ")",
		"(user_id = " + strings.Replace(sub, "NULLIF", "app.nullif", 1) + ")",
		"false",
		"own(user_id)",
	} {
		if got := shorten(expr); got != sqlPrefix+expr {
			t.Errorf("%s passes for %s", expr, got)
		}
		if back := expand(shorten(expr)); back != expr {
			t.Errorf("%s comes back as %s", expr, back)
		}
	}
	for expr, want := range map[string]string{
		"(user_id = " + sub + ")":               "own(user_id)",
		"((user_id)::text = " + sub + ")":       "own(user_id)",
		`(("Own""er (x)")::text = ` + sub + ")": `own(Own"er (x))`,
		`("Own er" IS NULL)`:                    "nobody's(Own er)",
		"true":                                  "true",
	} {
		if got := shorten(expr); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	for _, name := range []string{"", "public", "none", "information_schema", "pg_x", "a\x00b", strings.Repeat("ü", 28)} {
		p := project(name, "")
		p.Schema.Database = "main"
		if got, err := New(Options{}).Desired(specs.Set{Projects: []specs.Project{p}}); err == nil {
			t.Errorf("%q: no error, %v", name, got)
		}
	}
	longest := project(strings.Repeat("n", 55), "user_id")
	w := newWorld(t, "long", `CREATE SCHEMA "`+longest.Name+`"; CREATE TABLE "`+longest.Name+`"."`+strings.Repeat("ü", 31)+`" (user_id text)`)
	w.apply(longest)
}

func TestNotes(t *testing.T) {
	const db = "main"
	p := project("shop", "user_id",
		specs.TableAccess{Name: "columnless", Authenticated: []string{"select"}},
		specs.TableAccess{Name: "copied", Authenticated: []string{"select"}},
		specs.TableAccess{Name: "fine", Authenticated: []string{"select"}},
		specs.TableAccess{Name: "free", Check: "x"},
		specs.TableAccess{Name: "missing"},
		specs.TableAccess{Name: "public", Anonymous: []string{"select"}, Authenticated: []string{"select"}},
		specs.TableAccess{Name: "view", Anonymous: []string{"select"}})
	p.Schema.Database = db
	fact := func(name, kind string, columns ...string) specs.Table {
		return specs.Table{Database: db, Schema: "shop", Name: name, Kind: kind, Columns: columns}
	}
	set := specs.Set{Projects: []specs.Project{p}, Tables: []specs.Table{
		fact("columnless", kindTable, "id"), fact("copied", kindMatView, "user_id"), fact("fine", kindTable, "user_id"),
		fact("other", kindTable), fact("public", kindTable, "id"), fact("view", kindView), fact("view2", kindView),
	}}
	free := fact("free", kindTable, "user_id")
	free.Check = `(current_setting('request.jwt.claims'::text, true) <> current_setting('app.tenant'::text)) AND (current_setting( 'role') = 'x')`
	set.Tables = append(set.Tables, free)
	for _, name := range []string{"pinned", "unpinned"} {
		set.Functions = append(set.Functions, specs.Function{Database: db, Schema: "shop", Name: name, Past: "postgres", Unpinned: name == "unpinned"})
		set.Projects[0].Schema.Functions = append(set.Projects[0].Schema.Functions, specs.FunctionAccess{Name: name})
	}
	got := map[reconciler.Addr]string{}
	for _, n := range New(Options{}).Notes(set) {
		got[n.Addr] = n.Text
	}
	unpinned := Function{Database: db, Schema: "shop", Signature: "unpinned()"}.Addr()
	if !strings.Contains(got[unpinned], "SET search_path") {
		t.Errorf("%s: %q", unpinned, got[unpinned])
	}
	delete(got, unpinned)
	want := map[string]string{"free": "may set (app.tenant, role)", "columnless": `no column "user_id"`, "copied": "no row level security", "missing": "pending", "view": "security_invoker"}
	for name, part := range want {
		addr := Table{Database: db, Schema: "shop", Name: name}.Addr()
		if !strings.Contains(got[addr], part) {
			t.Errorf("%s: %q lacks %q", addr, got[addr], part)
		}
		delete(got, addr)
	}
	if len(got) > 0 {
		t.Errorf("more notes: %v", got)
	}
}

// What the application gave away before cordon came, on relations that get no
// access of cordon's as well.
func TestAdoptionCloses(t *testing.T) {
	w := newWorld(t, "adopt", `CREATE SCHEMA adopt AUTHORIZATION app; GRANT USAGE ON SCHEMA adopt TO PUBLIC, bob; SET ROLE app;
CREATE TABLE adopt.t (user_id text, x int); CREATE VIEW adopt.v AS SELECT * FROM adopt.t; CREATE SEQUENCE adopt.s;
CREATE POLICY everyone ON adopt.t USING (true);
GRANT ALL ON adopt.t, adopt.v, adopt.s TO PUBLIC; GRANT SELECT (x) ON adopt.v TO PUBLIC;
GRANT SELECT ON adopt.v TO bob WITH GRANT OPTION; SET ROLE bob; GRANT SELECT ON adopt.v TO PUBLIC; RESET ROLE;`)
	w.apply(project("adopt", "user_id"))
	var public, bob int
	err := pgtest.Connect(t, w.url).QueryRow(t.Context(), `
SELECT count(*) FILTER (WHERE grantee = 0), count(*) FILTER (WHERE grantee = 'bob'::regrole)
FROM (SELECT relacl FROM pg_class WHERE relnamespace = 'adopt'::regnamespace UNION ALL SELECT attacl FROM pg_attribute WHERE attrelid = 'adopt.v'::regclass
      UNION ALL SELECT nspacl FROM pg_namespace WHERE nspname = 'adopt') a(acl), aclexplode(acl)`).Scan(&public, &bob)
	if err != nil || public != 0 || bob != 2 {
		t.Errorf("PUBLIC has %d privileges, want 0; bob %d, want 2; %v", public, bob, err)
	}
}

func TestConnectionLost(t *testing.T) {
	w := newWorld(t, "lost", "")
	w.apply(project("lost", ""))
	e := w.enforcer(t)
	kill := func() {
		w.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cordon' AND datname = current_database()`)
	}
	for range 2 {
		live, err := e.Read(t.Context())
		if err != nil || len(live) != 7 {
			t.Fatalf("%d live, %v", len(live), err)
		}
		kill()
	}
}
