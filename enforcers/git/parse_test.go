package git

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// real is what git itself reads; ok is false when it refuses the file.
func real(t testing.TB, text string) (out []setting, ok bool) {
	t.Helper()
	cmd := exec.Command("git", "config", "--file", "-", "--no-includes", "--list", "-z")
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null"}
	b, err := cmd.Output()
	if err != nil {
		return nil, false
	}
	for _, e := range bytes.Split(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
		if len(e) == 0 {
			continue
		}
		key, value, has := strings.Cut(string(e), "\n")
		if !has {
			value = "true"
		}
		s := setting{value: value}
		first, last := strings.Index(key, "."), strings.LastIndex(key, ".")
		s.section, s.name = key[:first], key[last+1:]
		if last > first {
			s.hasSub, s.subsection = true, key[first+1:last]
		}
		out = append(out, s)
	}
	return out, true
}

func configs() []string {
	return []string{
		"", "\n# c\n; d\n", "[a]\nb=c", "[a]b=c\n", "[A \"B.c\\\"d\\\\e\\f\"]\nX-1 = \"a b\" c\\\n d # e\n", "[a.B.c]\nd\n", "[a]\n\tb = \" x \" ; y\n",
		"[a]\r\nb = c\r\n", "[a]\nb = c \\\r\n d\n", "[a]\nb = \\t\\n\\b\\\\\\\"\n", "[a]\nb = \"#;\"#;\n", "\ufeff[a]\nb=c\n", "[a] [b] c = d\n", "[a]\nb =\n", "[a]\nb = \"\"\n",
		"[a \"\"]\nb=c\n", "[a]\n b   =   c   d   \n", "[a]\nb=c\x00d\n", "[a]\nb=c\rd\n", "[a]\nb = \"x\ny\"\n", "[a]\nb = \\q\n", "[a\nb]\nc=d", "[]\na=b", "a=b", "[a]\n1=2", "[a \"x\ny\"]\nb=c", "[a \"b\" ]\nc=d", "[a.b \"c\"]\nd=e", "[.a]\nb=c", "[a]\nb c\n", "[a]\nb\x0b= c\n",
		"[a]\nb=c\\", "[a]\nb=\"c\\\nd\"\n", "[a]\n b=c\n\td=e\n", "[a ]\nb=c", "[a]\nb=\tc\td\t\n", "[a \"b\"]c=d[e]f=g\n",
	}
}

// What parse returns is what git reads; it may refuse more, not less.
func differ(t *testing.T, text string) {
	t.Helper()
	got, err := parse(text)
	if err != nil {
		return
	}
	want, ok := real(t, text)
	if !ok {
		t.Fatalf("%q: git refuses what is read as %+v", text, got)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q:\n got %+v\nwant %+v", text, got, want)
	}
	again, err := parse(format(got))
	if err != nil || !slices.Equal(again, got) {
		t.Fatalf("%q: written as %q it is read as %+v, %v", text, format(got), again, err)
	}
	if back, ok := real(t, format(got)); !ok || !slices.Equal(back, want) {
		t.Fatalf("%q: written as %q git reads %+v", text, format(got), back)
	}
}

func TestParseIsGits(t *testing.T) {
	for _, c := range configs() {
		differ(t, c)
	}
	for _, ordinary := range []string{configs()[4], configs()[5], "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://h/x\n"} {
		if got, err := parse(ordinary); err != nil || len(got) == 0 {
			t.Errorf("%q: %+v, %v", ordinary, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range configs() {
		f.Add([]byte(c))
	}
	f.Fuzz(func(t *testing.T, b []byte) { differ(t, string(b)) })
}
