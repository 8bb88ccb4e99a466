package hcl_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

//nolint:gochecknoglobals // flags are
var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it):\n%s", name, got)
	}
}

// awkward has what is hard to show: tabs, wide letters, a long line, control
// characters, several lines.
func awkward() []hcl.File {
	return filesOf(
		"a.hcl", "network \"lan\" {\n\tpol\t= \"10.0.0.0/8\"\n}\n\nproject \"shöp\" {\n  directory = \"/srv/é\" + \"x\"\n}\n",
		"b.hcl", "sandbox \"s\" {\n  command = ["+strings.Repeat("\"word\", ", 40)+"secert.x, "+strings.Repeat("\"word\", ", 40)+"]\n  namespaces = [\n    \"pid\",\n    \"\u202enet\",\n  ]\n  on_change = [\n    1,\n  ]\n}\n# \x1b[31m\nnetwork \"e\x1b[31mvil\" {}\n",
		"c.hcl", "",
	)
}

func TestText(t *testing.T) {
	_, diags := hcl.LoadFiles(awkward(), hcl.Options{Vars: []string{"nothing=1"}})
	golden(t, "testdata/text.golden", []byte(text(t, diags)))

	var colour strings.Builder
	if err := diags[:1].WriteText(&colour, true); err != nil || !strings.Contains(colour.String(), "\x1b[31m") {
		t.Error("no colour", err)
	}
	if strings.Contains(text(t, diags), "\x1b") {
		t.Error("a control character of the files reached the terminal")
	}
}

func TestJSON(t *testing.T) {
	_, diags := hcl.LoadFiles(awkward(), hcl.Options{})
	b, err := json.MarshalIndent(diags, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/report.json", append(b, '\n'))

	var report struct {
		Valid        bool `json:"valid"`
		ErrorCount   int  `json:"error_count"`
		WarningCount int  `json:"warning_count"`
		Diagnostics  []struct {
			Range struct {
				Filename   string
				Start, End struct{ Line, Column, Byte int }
			}
			Snippet *struct {
				Code string
				From int `json:"highlight_start_offset"`
				To   int `json:"highlight_end_offset"`
			}
		}
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	if report.Valid || report.ErrorCount != len(diags) || report.WarningCount != 0 {
		t.Errorf("%+v", report)
	}
	for _, d := range report.Diagnostics {
		if s := d.Snippet; s == nil || s.From > s.To || s.To > len(s.Code) {
			t.Errorf("%+v", d)
		}
	}

	var none hcl.Diagnostics
	b, err = json.Marshal(none)
	if err != nil || string(b) != `{"format_version":"1.0","valid":true,"error_count":0,"warning_count":0,"diagnostics":[]}` {
		t.Error(string(b), err)
	}
}
