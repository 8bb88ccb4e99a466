package specs_test

import (
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

func TestSuggest(t *testing.T) {
	known := []string{"pool", "publish", "allow", "egress", "CAP_KILL"}
	for given, want := range map[string]string{
		"pol": "pool", "alow": "allow", "allwo": "allow", "egres": "egress", "POOL": "pool", "cap_kill": "CAP_KILL",
		"zzzz": "", "x": "", "": "", strings.Repeat("a", 1000): "", "publsih": "publish",
	} {
		if got := specs.Suggest(given, known); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	list := func(names ...string) (out []specs.Sandbox) {
		for _, n := range names {
			out = append(out, specs.Sandbox{Name: n})
		}
		return out
	}
	for want, err := range map[string]error{
		`sandbox "shel" is not declared; did you mean "shell"?`:                           specs.Undeclared("sandbox", "shel", list("agent", "shell")),
		`sandbox "nope" is not declared; there is agent, shell`:                           specs.Undeclared("sandbox", "nope", list("agent", "shell")),
		`sandbox "nope" is not declared; there is none`:                                   specs.Undeclared("sandbox", "nope", list()),
		`sandbox "x" is not declared; there is a1, a2, a3, a4, a5, a6, a7, a8 and 2 more`: specs.Undeclared("sandbox", "x", list("a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b")),
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}
