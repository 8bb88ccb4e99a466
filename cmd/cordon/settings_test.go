package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
)

// What would be passed over is told.
func TestSettingsFile(t *testing.T) {
	for name, tt := range map[string]struct {
		command, file, variable string
		want                    string // in the error; "" is none
	}{
		"all kinds":                {"daemon", "dir: /x\nallow-deletes: true\ninterval: 1m\nnotify: [generic=file:/x]\nverify: head\n", "", ""},
		"the daemon's, elsewhere":  {"plan", "verify: head\ninterval: 1m\n", "", ""},
		"nothing":                  {"daemon", "", "", ""},
		"misspelled":               {"daemon", "verifiy: head\n", "", `there is no setting "verifiy"; did you mean "verify"?`},
		"misspelled, elsewhere":    {"plan", "verifiy: head\n", "", `did you mean "verify"?`},
		"misspelled map":           {"plan", "verifiy: {a: {b: c}, d: e}\n", "", `there is no setting "verifiy"`},
		"two":                      {"plan", "verifiy: head\nintervall: 1m\n", "", `did you mean "interval"?`},
		"a flag of one command":    {"apply", "auto-approve: true\n", "", `there is no setting "auto-approve"`},
		"variables of the files":   {"plan", "var: [a=b]\n", "", `there is no setting "var"`},
		"no duration":              {"daemon", "poll: soon\n", "", `poll: "soon" is no duration: say 30s`},
		"a number is no duration":  {"daemon", "interval: 30\n", "", `interval: "30" is no duration`},
		"less than nothing":        {"daemon", "poll: -1s\n", "", `poll: -1s is too short: say 30s`},
		"nothing at all":           {"daemon", "interval: 0s\n", "", `interval: 0s is too short`},
		"none, as without it":      {"daemon", "poll: 0s\n", "", ""},
		"neither true nor false":   {"daemon", "allow-deletes: sure\n", "", `allow-deletes: "sure" is neither`},
		"what install would write": {"install", "interval: 30\n", "", `interval: "30" is no duration`},
		"misspelled, no value":     {"plan", "verifiy:\n", "", `there is no setting "verifiy"; did you mean "verify"?`},
		"misspelled, a point":      {"plan", "verify.head: true\n", "", `there is no setting "verify.head"`},
		"no value":                 {"daemon", "verify:\nnotify:\n", "", ""},
		"a list of one":            {"daemon", "verify: [head]\n", "", `verify: there is one value, and neither a list`},
		"a map":                    {"daemon", "verify: {head: true}\n", "", `verify: there is one value, and neither a list`},
		"a number":                 {"daemon", "ref: 1.10\n", "", `ref: 1.1 is no text: write it in quotation marks`},
		"a date":                   {"daemon", "ref: 2026-01-02\n", "", `is no text: write it in quotation marks`},
		"in quotation marks":       {"daemon", "ref: '1.10'\npath: \"2\"\nlisten: ''\n", "", ""},
		"one of several":           {"daemon", "notify: generic=file:/x\nlisten-name: a,b\n", "", ""},
		"a list of maps":           {"daemon", "notify:\n- generic: file:/x\n", "", `notify: there is one value, and neither a list nor a map`},
		"a map for a list":         {"daemon", "notify: {generic: file:/x}\n", "", `notify: these are texts, and no map`},
		"a list with numbers":      {"daemon", "listen-name: [a, 1]\n", "", `listen-name: 1 is no text`},
		"in a variable":            {"daemon", "", "soon", `interval: "soon" is no duration`},
		"of another command":       {"plan", "", "soon", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "settings.yaml")
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("CORDON_SETTINGS", file)
			t.Setenv("CORDON_INTERVAL", tt.variable)
			a := &app{App: cli.New("")}
			cmd, _, err := a.root().Find([]string{tt.command})
			if err != nil {
				t.Fatal(err)
			}
			_, err = readSettings(cmd)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
