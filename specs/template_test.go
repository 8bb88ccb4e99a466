package specs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

func sessionValues() map[string]string {
	values := map[string]string{}
	for _, n := range specs.SessionNames() {
		values[n] = "<" + n + ">"
	}
	return values
}

func TestExpand(t *testing.T) {
	for template, want := range map[specs.Template]string{
		"":                       "",
		"plain":                  "plain",
		"${session.id}":          "<session.id>",
		"a${session.id}b$${c}":   "a<session.id>b${c}",
		"$${session.id}":         "${session.id}",
		"$":                      "$",
		"$$":                     "$$",
		"${session.nothing}":     "error: template \"${session.nothing}\": session.nothing is not known for this session",
		"${session.id":           "error: template \"${session.id\": ${ is not closed",
		"${session.id}${session": "error: template \"${session.id}${session\": ${ is not closed",
	} {
		got, err := template.Expand(sessionValues())
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%q expands to %q, want %q", template, got, want)
		}
	}
}

// What a value has in it is not looked into again.
func TestExpandOnce(t *testing.T) {
	got, err := specs.Template("${session.project.name}").Expand(map[string]string{"session.project.name": "${session.id}"})
	if err != nil || got != "${session.id}" {
		t.Error(got, err)
	}
}

func TestTemplateNames(t *testing.T) {
	for template, want := range map[specs.Template]string{
		"x":                                      "[]",
		"${session.sandbox}-${session.id}":       "[session.id session.sandbox]",
		"${session.id}${session.id}":             "[session.id]",
		"$${session.id}":                         "[]",
		"$${${session.id}":                       "[session.id]",
		"${session.project.directory}/$${x}/src": "[session.project.directory]",
	} {
		if got := fmt.Sprint(template.Names()); got != want {
			t.Errorf("%q names %s, want %s", template, got, want)
		}
	}
}

// A literal expands to itself, whatever it has in it; and nothing makes
// Expand panic.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"", "$", "${", "$${", "$$${x}", "${session.id}", "a$b${c}d", "$$$$${", "}${"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := specs.Literal(s).Expand(nil)
		if err != nil || got != s {
			t.Errorf("%q expands to %q, %v", s, got, err)
		}
		if names := specs.Literal(s).Names(); len(names) > 0 {
			t.Errorf("%q names %v", s, names)
		}
		both := specs.Literal(s) + "${session.id}"
		got, err = both.Expand(sessionValues())
		if !strings.HasSuffix(s, "$") && (err != nil || got != s+"<session.id>") {
			t.Errorf("%q expands to %q, %v", both, got, err)
		}
		_, _ = specs.Template(s).Expand(sessionValues())
	})
}
