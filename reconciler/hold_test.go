package reconciler

import (
	"strings"
	"testing"
)

func TestHold(t *testing.T) {
	for _, tt := range []struct{ desired, live, hold, made, held string }{
		{"a b>a c>b d", "", "x.a", "+d", "+a +b +c"},
		{"a b>a c>b d", "", "x.c", "+a +b +d", "+c"},
		{"", "old>older older other", "x.old", "-other", "-old -older"},
		{"", "old>older older", "x.older", "-old", "-older"},
		{"a", "b", "", "-b +a", ""},
	} {
		changes, err := Diff(parse(tt.desired), parse(tt.live))
		if err != nil {
			t.Fatal(err)
		}
		p := &Plan{Changes: changes}
		held := p.Hold(func(c Change) bool { return c.Addr() == Addr(tt.hold) })
		if got, kept := show(p.Changes), show(held); got != tt.made || kept != tt.held {
			t.Errorf("%+v: made %q, held %q", tt, got, kept)
		}
	}
}

func TestDescribe(t *testing.T) {
	rec := func(attrs string) Resource { return Recorded{Address: "x.a", Attributes: []byte(attrs)} }
	for _, tt := range []struct {
		before, after Resource
		want          string
	}{
		{rec(`{"rls":false,"same":1,"grants":["a","b"]}`), rec(`{"rls":true,"same":1,"grants":["b","c"]}`), `grants: - "a" + "c" rls = false -> true`},
		{rec("{\"drift\":[\"\x7f\u202e\"]}"), rec(`{}`), "drift: - \"\ufffd\ufffd\""},
		{nil, rec(`{}`), ""},
		{rec(`{}`), nil, ""},
	} {
		if got := (Change{Before: tt.before, After: tt.after}).Describe(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	long := Change{Before: rec(`{"a":"` + strings.Repeat("é", 2000) + `"}`), After: rec(`{"a":"x"}`)}.Describe()
	if len(long) > maxDescribed+40 || !strings.HasSuffix(long, "bytes more)") {
		t.Errorf("%d bytes: …%s", len(long), long[len(long)-40:])
	}
}
