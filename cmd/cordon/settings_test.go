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
		"neither true nor false":   {"daemon", "allow-deletes: sure\n", "", `allow-deletes: "sure" is neither`},
		"what install would write": {"install", "interval: 30\n", "", `interval: "30" is no duration`},
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
