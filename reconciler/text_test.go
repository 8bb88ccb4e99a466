package reconciler

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// attrs is a resource with any attributes.
type attrs struct {
	A Addr
	M map[string]any
}

func (a attrs) Addr() Addr                   { return a.A }
func (a attrs) Needs() []Addr                { return nil }
func (a attrs) MarshalJSON() ([]byte, error) { return json.Marshal(a.M) }

func samplePlan() *Plan {
	return &Plan{
		Set: specs.Set{Gateways: []specs.Gateway{{Name: "data"}}},
		Changes: []Change{
			{Before: attrs{"cgroup.0badcafe", map[string]any{"memory": 536870912}}},
			{After: attrs{"root.claude-code", map[string]any{"programs": []string{"/bin/bash", "/usr/bin/git"}, "drift": nil}}},
			{
				Before: attrs{"network.chain.ipv4.filter.CORDON-INPUT", map[string]any{"rules": []string{"-j A", "-j B"}, "type": "x"}},
				After:  attrs{"network.chain.ipv4.filter.CORDON-INPUT", map[string]any{"rules": []string{"-j A", "-j C"}, "type": "y"}},
			},
			{
				Before: attrs{"x.order", map[string]any{"rules": []string{"a", "b"}}},
				After:  attrs{"x.order", map[string]any{"rules": []string{"b", "a"}}},
			},
			{
				Before: attrs{"x.nested", map[string]any{"limits": map[string]any{"cpu": 80, "memory": 1}}},
				After:  attrs{"x.nested", map[string]any{"limits": map[string]any{"cpu": 90, "memory": 1, "pids": 64}}},
			},
			{After: attrs{"x.wide", map[string]any{"rules": []string{strings.Repeat("a", 60), strings.Repeat("b", 60)}}}},
			{After: attrs{"x.nasty", map[string]any{"name": "\x1b[31mred\u202e & <b>"}}},
		},
		Notes:    []Note{{Addr: "postgres.table.main.shop.orders", Text: "pending: the table does not exist yet"}},
		Failures: []Failure{{Enforcer: "slot", Err: errors.New("link dump: interrupted\nagain")}},
	}
}

func TestPlanText(t *testing.T) {
	for name, style := range map[string]Style{"plain": {}, "color": {Color: true}} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := samplePlan().WriteText(&out, style); err != nil {
				t.Fatal(err)
			}
			golden(t, "plan-"+name+".txt", out.Bytes())
		})
	}
}

func TestPlanJSON(t *testing.T) {
	f, err := samplePlan().File()
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.json", append(out, '\n'))
	read, err := ReadPlan(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Current(samplePlan()); err != nil {
		t.Errorf("a plan differs from itself: %v", err)
	}
}

func TestEmptyPlanText(t *testing.T) {
	var out strings.Builder
	if err := new(Plan).WriteText(&out, Style{}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "No changes. Live state is what the files declare.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCurrentSeesWhatMoved(t *testing.T) {
	f, err := samplePlan().File()
	if err != nil {
		t.Fatal(err)
	}
	for name, move := range map[string]func(*Plan){
		"the files":     func(p *Plan) { p.Set.Gateways = nil },
		"x.order":       func(p *Plan) { p.Changes[3].Before = attrs{"x.order", map[string]any{"rules": []string{"c"}}} },
		"x.nasty":       func(p *Plan) { p.Changes = p.Changes[:6] },
		"x.new":         func(p *Plan) { p.Changes = append(p.Changes, Change{After: attrs{"x.new", nil}}) },
		"cgroup.0badca": func(p *Plan) { p.Changes[0].Before, p.Changes[0].After = nil, p.Changes[0].Before },
	} {
		t.Run(name, func(t *testing.T) {
			p := samplePlan()
			move(p)
			if err := f.Current(p); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want an error about %q", err, name)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for name, doc := range map[string]string{
		"another version": `{"format_version":"2.0"}`,
		"unknown field":   `{"format_version":"1.0","extra":1}`,
		"trailing":        `{"format_version":"1.0"} {}`,
		"no JSON":         `plan`,
		"empty":           ``,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadPlan(strings.NewReader(doc)); err == nil {
				t.Error("plan was read")
			}
			if _, err := ReadSnapshot(strings.NewReader(doc)); err == nil {
				t.Error("snapshot was read")
			}
		})
	}
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add([]byte(`{"format_version":"1.0","resources":[{"address":"x.a","attributes":{"v":1}}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		snap, err := ReadSnapshot(bytes.NewReader(doc))
		if err != nil {
			return
		}
		r := &Reconciler{Enforcers: []Named{{Name: "x", Enforcer: &memory{}}}}
		if p, err := r.PlanRecorded(specs.Set{}, snap); err == nil {
			_ = p.WriteText(new(bytes.Buffer), Style{})
		}
	})
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-update rewrites it):\n%s", path, got)
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\n\t b\u00a0c": "a b c",
		"\x1b[31mred":    "\ufffd[31mred",
		"a\u202eb":       "a\ufffdb",
		"pay\u200bpal":   "pay\ufffdpal", // nothing is seen of it
		"Ünïcode 🙂 „“":   "Ünïcode 🙂 „“",
	} {
		if got := Line(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
