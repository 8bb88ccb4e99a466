package postgres

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

func supposed(change func(*specs.Project)) specs.Set {
	p := specs.Project{Name: "shop", Range: specs.Range{File: "p"}, Schema: &specs.Schema{
		Range: specs.Range{File: "schema"}, Database: "main", OwnerColumn: "user_id",
		Tables: []specs.TableAccess{
			{Name: "orders", Range: specs.Range{File: "orders"}},
			{Name: "products", Anonymous: []string{"select"}, Columns: map[string][]string{"select": {"name"}}},
		},
	}}
	change(&p)
	db := specs.Database{Name: "main", Range: specs.Range{File: "main"}}
	if p.User == "open" {
		db.Public = []string{"connect", "temporary", "usage"}
	}
	return specs.Set{Databases: []specs.Database{db}, Projects: []specs.Project{p}}
}

// What a change of the files gives to whom, without any database.
func TestAccessBetweenRevisions(t *testing.T) {
	nothing := func(*specs.Project) {}
	for _, tt := range []struct {
		name       string
		base, head func(*specs.Project)
		want       []string // in order of address
	}{
		{"nothing", nothing, nothing, nil},
		{"a table opened", nothing, func(p *specs.Project) {
			p.Schema.Tables[0].Anonymous = []string{"select"}
			p.Schema.Tables[0].Authenticated = []string{}
		}, []string{
			"the anonymous (shop_anon) gains SELECT of all rows on shop.orders", "the logged-in (shop_user) loses DELETE",
		}},
		{"a table declared anew", func(p *specs.Project) { p.Schema.Tables = p.Schema.Tables[:1] }, nothing, []string{"the anonymous (shop_anon) gains SELECT (name) of all rows on shop.products", "the logged-in (shop_user) gains SELECT (name)", "loses"}},
		{"a table no longer declared", nothing, func(p *specs.Project) { p.Schema.Tables = p.Schema.Tables[:1] }, []string{"the anonymous (shop_anon) loses SELECT (name) of all rows on shop.products", "gains", "loses"}},
		{"a condition", nothing, func(p *specs.Project) { p.Schema.Tables[0].Check = "total > 0" }, nil},
		{"a function", nothing, func(p *specs.Project) {
			p.Schema.Functions = []specs.FunctionAccess{{Name: "total", Anonymous: true}}
		}, []string{"the anonymous (shop_anon) gains EXECUTE on shop.total(…)", "the logged-in (shop_user) gains EXECUTE on shop.total(…)"}},
		{"a database", func(p *specs.Project) { p.User = "keep" }, func(p *specs.Project) { p.User = "open" }, []string{"PUBLIC gains temporary on the database main"}},
		{"the project gone", nothing, func(p *specs.Project) { p.Schema = nil }, []string{"shop_admin loses", "shop_service loses", "the logged-in (shop_user) loses", "shop_admin", "the anonymous (shop_anon) loses", "shop_service", "the logged-in"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: New(Options{})}}}
			p, err := r.PlanBetween(supposed(tt.base), supposed(tt.head), nil)
			if err != nil || len(p.Failures) > 0 {
				t.Fatal(err, p.Failures)
			}
			var got []string
			for _, n := range p.Notes {
				got = append(got, n.Text)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want %q", got[i], want)
				}
			}
			if tt.name == "nothing" != (len(p.Changes) == 0) {
				t.Errorf("changes: %v", p.Changes)
			}
		})
	}
}

// The live state of a snapshot has no types, and is told of all the same.
func TestAccessAgainstSnapshot(t *testing.T) {
	e := New(Options{})
	base := e.Suppose(supposed(func(*specs.Project) {}), specs.Set{})
	head := e.Suppose(supposed(func(p *specs.Project) { p.Schema.Tables[0].Anonymous = []string{"select"} }), specs.Set{})
	old, err := e.Desired(base)
	if err != nil {
		t.Fatal(err)
	}
	want, err := e.Desired(head)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := reconciler.Diff(want, old)
	if err != nil {
		t.Fatal(err)
	}
	var recorded []reconciler.Change
	for _, c := range changes {
		rec, err := reconciler.Record(c.Before)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(rec)
		if err != nil || json.Unmarshal(b, &rec) != nil {
			t.Fatal(err)
		}
		recorded = append(recorded, reconciler.Change{Before: rec, After: c.After})
	}
	if diff := cmp.Diff(e.ChangeNotes(changes), e.ChangeNotes(recorded)); diff != "" || len(recorded) == 0 {
		t.Errorf("typed and recorded differ: %s", diff)
	}
}

func TestLocate(t *testing.T) {
	set := supposed(func(p *specs.Project) {
		p.Schema.Functions = []specs.FunctionAccess{{Name: "total", Range: specs.Range{File: "total"}}}
	})
	e := New(Options{})
	for addr, want := range map[reconciler.Addr]string{
		"postgres.table.main.shop.orders": "orders", "postgres.table.main.shop.other": "schema", `postgres.function.main.shop."total(…)"`: "total",
		"postgres.role.main.shop_user": "schema", "postgres.role.main.other_user": "main", "postgres.schema.main.shop": "schema",
		"postgres.guard.main": "main", "postgres.guard.other": "", "postgres": "",
	} {
		if got := e.Locate(set, addr).File; got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}

func TestSupposeIsSorted(t *testing.T) {
	got := New(Options{}).Suppose(supposed(func(*specs.Project) {}), supposed(func(p *specs.Project) {
		p.Schema.Tables = []specs.TableAccess{{Name: "a", OwnerColumns: map[string]string{"select": "seller"}}}
	}))
	var names []string
	for _, t := range got.Tables {
		names = append(names, t.Name)
	}
	if !slices.Equal(names, []string{"a", "orders", "products"}) || !slices.Contains(got.Tables[0].Columns, "seller") || !slices.Contains(got.Tables[0].Columns, "user_id") {
		t.Errorf("got %+v", got.Tables)
	}
}

// Who has PUBLIC's privileges on tables that become a project's loses them: a
// plan says so, and nothing of the kind where there is no table yet.
func TestAdoptionIsTold(t *testing.T) {
	e := New(Options{})
	schema := Schema{Database: "main", Name: "shop"}
	table := Table{Database: "main", Schema: "shop", Name: "orders"}
	for name, c := range map[string]struct {
		changes []reconciler.Change
		told    bool
	}{
		"with tables":    {[]reconciler.Change{{After: schema}, {After: table}}, true},
		"empty":          {[]reconciler.Change{{After: schema}}, false},
		"a new table":    {[]reconciler.Change{{Before: schema, After: schema}, {After: table}}, false},
		"of another one": {[]reconciler.Change{{After: Schema{Database: "main", Name: "blog"}}, {After: table}}, false},
	} {
		told := slices.ContainsFunc(e.ChangeNotes(c.changes), func(n reconciler.Note) bool {
			return n.Addr == schema.Addr() && strings.Contains(n.Text, "everybody (PUBLIC) loses")
		})
		if told != c.told {
			t.Errorf("%s: %v", name, e.ChangeNotes(c.changes))
		}
	}
}
