package gitlogin

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for value, want := range map[string]Login{
		"glpat-abc": {"x-access-token", "glpat-abc"},
		"shop:a:b":  {"shop", "a:b"},
		":abc":      {"", "abc"},
	} {
		if got, err := Parse(value); err != nil || got != want {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
	for _, value := range []string{"", "user:", "a\nb", "a\rb", "a\x00b", strings.Repeat("a", maxPassword+1)} {
		if got, err := Parse(value); err == nil || len(value) > 5 && strings.Contains(err.Error(), value) {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
}

func TestForms(t *testing.T) {
	l := Login{"u", "a/b c"}
	if got := strings.Join(l.Forms(), " "); got != "a/b c a%2Fb+c a%2Fb%20c dTphL2IgYw==" {
		t.Error(got)
	}
	if got := l.Basic(); got != "Basic dTphL2IgYw==" {
		t.Error(got)
	}
}
