package imports

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestModuleKeepsTheRules(t *testing.T) {
	root := os.DirFS("../..")
	sources := map[string][]byte{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".") || name == "bin"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		sources[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 20 {
		t.Errorf("only %d files looked at", len(sources))
	}
	problems, err := check(sources)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// What a session's start is linked with it also initialises, each time.
func TestFrontIsLight(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../cmd/cordon/front").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/enforcers/session") {
		t.Fatal("it does not start sessions")
	}
	for _, heavy := range []string{
		"github.com/prometheus", "github.com/go-git", "github.com/ProtonMail", "github.com/jackc", "google.golang.org/protobuf",
		"github.com/google/go-cmp", "github.com/hashicorp/hcl/v2/hclwrite", "github.com/spf13/viper", "go.yaml.in", "github.com/aws",
		"github.com/seccomp", "golang.org/x/crypto", "golang.org/x/net", "golang.org/x/oauth2", "html/template", "net/http", "crypto/tls",
		module + "/enforcers/postgres", module + "/enforcers/git", module + "/internal/source",
	} {
		for _, d := range deps {
			if within(d, heavy) {
				t.Errorf("the front imports %s", d)
			}
		}
	}
}

func TestRules(t *testing.T) {
	const m = "import _ \"" + module + "/"
	tests := []struct {
		name, file, source, want string // want is part of the one problem, "" for none
	}{
		{"down", "enforcers/root/a.go", m + "specs\"", ""},
		{"up", "specs/a.go", m + "reconciler\"", "specs must not import reconciler"},
		{"reconciler to enforcer", "reconciler/a.go", m + "enforcers/root\"", "imports go downward"},
		{"internal to reconciler", "internal/run/a.go", m + "reconciler\"", "imports go downward"},
		{"hcl to reconciler", "hcl/a.go", m + "reconciler\"", "imports go downward"},
		{"enforcer to hcl", "enforcers/root/a.go", m + "hcl\"", "imports go downward"},
		{"enforcer to enforcer", "enforcers/root/a.go", m + "enforcers/slot\"", "links are addresses"},
		{"enforcer to a package within", "enforcers/root/a.go", m + "enforcers/root/elf\"", ""},
		{"from a package within", "enforcers/root/elf/a.go", m + "enforcers/root\"", ""},
		{"from a package within to another", "enforcers/root/elf/a.go", m + "enforcers/slot\"", "links are addresses"},
		{"in a test", "enforcers/root/a_test.go", m + "enforcers/slot\"", ""},
		{"a test to hcl", "enforcers/root/a_test.go", m + "hcl\"", "imports go downward"},
		{"in a test outside of the package", "enforcers/root/a_test.go", "_test " + m + "hcl\"", ""},
		{"cmd to all", "cmd/cordon/a.go", m + "enforcers/slot\"", ""},
		{"a prefix is no folder", "cmd/cordon/a.go", m + "hclx\"", "imports go downward"},
		{"unknown folder", "new/a.go", m + "specs\"", "imports go downward"},
		{"help for tests", "enforcers/root/a.go", m + "internal/kerneltest\"", "for tests only"},
		{"help for tests in a test", "enforcers/root/a_test.go", m + "internal/kerneltest\"", ""},
		{"specs and libraries", "specs/a.go", "import _ \"golang.org/x/sys/unix\"", "standard library only"},
		{"specs and the standard library", "specs/a.go", "import _ \"net/netip\"", ""},
		{"the language's library", "cmd/cordon/a.go", "import _ \"github.com/hashicorp/hcl/v2\"", "only hcl"},
		{"its values", "reconciler/a_test.go", "import _ \"github.com/zclconf/go-cty/cty\"", "only hcl"},
		{"in hcl", "hcl/a.go", "import _ \"github.com/zclconf/go-cty/cty\"", ""},
		{"testing", "hcl/a.go", "import _ \"testing\"", "outside of tests"},
		{"init", "hcl/a.go", "func init() {}", "nothing starts by itself"},
		{"a method called init", "hcl/a.go", "type t int\nfunc (t) init() {}", ""},
		{"table", "hcl/a.go", "var table = map[string]int{}\nfunc f() int { return table[``] }", ""},
		{"table that is written to", "hcl/a.go", "var table = map[string]int{}\nfunc f() { table[``] = 1 }", "package-level variable table"},
		{"counter", "hcl/a.go", "var n = 0\nfunc f() { n++ }", "package-level variable n"},
		{"address taken", "hcl/a.go", "var n = 0\nfunc f() *int { return &n }", "package-level variable n"},
		{"another of the same name", "hcl/a.go", "var n = 1\nfunc f() { n := 0; n++ }", ""},
		{"without a value", "hcl/a.go", "var mu sync.Mutex", "package-level variable mu"},
		{"error", "hcl/a.go", "var ErrGone = error(nil)", ""},
		{"pattern", "hcl/a.go", "var name = regexp.MustCompile(`a`)", ""},
		{"embedded", "hcl/a.go", "//go:embed x\nvar text string", ""},
		{"assertion", "hcl/a.go", "var _ error = nil", ""},
		{"version", "cmd/cordon/a.go", "var version = \"devel\"", ""},
		{"length", "hcl/a.go", strings.Repeat("\n", maxLines), "split it"},
		{"a test's length", "hcl/a_test.go", strings.Repeat("\n", maxLines), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := "package p\n" + tt.source
			if rest, ok := strings.CutPrefix(tt.source, "_test "); ok {
				source = "package p_test\n" + rest
			}
			problems, err := check(map[string][]byte{tt.file: []byte(source)})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.want == "" && len(problems) > 0:
				t.Errorf("refused: %q", problems)
			case tt.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], tt.want)):
				t.Errorf("got %q, want one with %q", problems, tt.want)
			}
		})
	}
}
