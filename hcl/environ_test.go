package hcl_test

import (
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

// What never reaches a session can't be allowed by its name.
func TestOwnVariablesCantBeAllowed(t *testing.T) {
	for name, wrong := range map[string]bool{
		"CORDON_POSTGRES_URL": true, "LLM_KEY": true, "CORDON_VAR_x": true, "CORDON_DIR": true, "CORDON_*": true, "CORDON_V*": true,
		"*": false, "CORDON*": false, "LLM_*": false, "LLM_KEY_NAME": false, "PATH": false,
	} {
		_, diags := hcl.LoadFiles(filesOf("a.hcl", `secret "pg" { env = "CORDON_POSTGRES_URL" }
secret "llm" { env = "LLM_KEY" }
environment "e" {
  allow = [
    "TERM",
    "`+name+`",
  ]
}
`), hcl.Options{})
		got := text(t, diags)
		if wrong != strings.HasPrefix(got, "a.hcl:6:5: error: ") || wrong != (len(diags) == 1) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
