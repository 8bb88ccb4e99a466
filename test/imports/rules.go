// Package imports holds what the compiler can't: that imports go one way,
// downward, and that nothing starts by itself or grows too long to read.
//
//	cmd → hcl, enforcers → reconciler → specs, and internal below them all
package imports

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	module   = "github.com/aicodesit/cordon"
	maxLines = 400 // of a file that is not a test
)

// layer is what a folder may import of the module; of the rest anything.
type layer struct {
	folder string // prefix of the folders it holds for; the first that fits counts
	may    []string
}

func layers() []layer {
	return []layer{
		{"specs", nil},
		{"internal", []string{"specs", "internal"}},
		{"reconciler", []string{"reconciler", "specs"}},
		{"enforcers", []string{"reconciler", "specs", "internal"}}, // and no other enforcer
		{"hcl", []string{"specs", "hcl"}},
		{"cmd", []string{"cmd", "hcl", "enforcers", "reconciler", "specs", "internal"}},
		{"test", []string{"hcl", "enforcers", "reconciler", "specs", "internal", "test"}},
		{"examples", []string{"hcl", "enforcers", "reconciler", "specs", "internal"}},
	}
}

// check returns what is wrong with the module's files: from paths, as seen
// from the module's root, to contents.
func check(sources map[string][]byte) ([]string, error) {
	fset := token.NewFileSet()
	files := map[string]*ast.File{}
	written := map[string]map[string]bool{} // folder → names
	for name, source := range sources {
		file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files[name] = file
		if written[path.Dir(name)] == nil {
			written[path.Dir(name)] = map[string]bool{}
		}
		if !isTest(name) {
			writes(file, written[path.Dir(name)])
		}
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		c := checker{fset: fset, file: files[name], folder: path.Dir(name), isTest: isTest(name), written: written[path.Dir(name)]}
		c.check()
		problems = append(problems, c.problems...)
	}
	return problems, nil
}

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

type checker struct {
	fset     *token.FileSet
	file     *ast.File
	folder   string
	isTest   bool
	written  map[string]bool // names that functions of the package write to and don't declare
	problems []string
}

func (c *checker) check() {
	for _, spec := range c.file.Imports {
		c.imported(spec)
	}
	if c.isTest {
		return
	}
	c.declarations()
	if lines := c.fset.File(c.file.Pos()).LineCount(); lines > maxLines {
		c.say(c.file.Pos(), "%d lines, more than %d: split it", lines, maxLines)
	}
}

func (c *checker) say(at token.Pos, format string, args ...any) {
	p := c.fset.Position(at)
	c.problems = append(c.problems, fmt.Sprintf("%s:%d: ", p.Filename, p.Line)+fmt.Sprintf(format, args...))
}

// external tells whether the file is a test seen from outside its package:
// those, and enforcers' tests, join what production code keeps apart.
func (c *checker) external() bool { return c.isTest && strings.HasSuffix(c.file.Name.Name, "_test") }

// forTests tells whether a folder holds nothing but help for tests.
func forTests(folder string) bool {
	return within(folder, "test") || within(folder, "internal") && strings.HasSuffix(folder, "test") || folder == "reconciler/enforcertest"
}

func (c *checker) imported(spec *ast.ImportSpec) {
	what, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		c.say(spec.Pos(), "import %s: %v", spec.Path.Value, err)
		return
	}
	rest, own := strings.CutPrefix(what, module+"/")
	switch {
	case !own:
		c.library(spec, what)
	case rest == c.folder: // an external test's own package
	case forTests(rest) && !c.isTest && !forTests(c.folder):
		c.say(spec.Pos(), "%s is for tests only", rest)
	case forTests(rest) && c.isTest:
	case c.external(), c.isTest && within(c.folder, "enforcers") && within(rest, "enforcers"):
	case within(c.folder, "enforcers") && within(rest, enforcer(c.folder)): // a package within the same one
	case within(c.folder, "enforcers") && within(rest, "enforcers"):
		c.say(spec.Pos(), "enforcers don't import each other: links are addresses")
	case !c.may(rest):
		c.say(spec.Pos(), "%s must not import %s: imports go downward", c.folder, rest)
	}
}

// enforcer is the folder of the enforcer that a folder belongs to.
func enforcer(folder string) string {
	parts := strings.SplitN(folder, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func (c *checker) may(rest string) bool {
	for _, l := range layers() {
		if !within(c.folder, l.folder) {
			continue
		}
		for _, m := range l.may {
			if within(rest, m) {
				return true
			}
		}
		return false
	}
	return false
}

func (c *checker) library(spec *ast.ImportSpec, what string) {
	first, _, _ := strings.Cut(what, "/")
	standard := !strings.Contains(first, ".")
	if within(c.folder, "specs") && !c.isTest && !standard {
		c.say(spec.Pos(), "specs imports the standard library only")
	}
	for _, language := range []string{"github.com/hashicorp/hcl", "github.com/zclconf/go-cty"} {
		if within(what, language) && !within(c.folder, "hcl") {
			c.say(spec.Pos(), "only hcl knows the language's library")
		}
	}
	if what == "testing" && !c.isTest && !forTests(c.folder) {
		c.say(spec.Pos(), "testing outside of tests")
	}
}

func (c *checker) declarations() {
	for _, d := range c.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			c.say(f.Pos(), "init: nothing starts by itself")
		}
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			c.variable(g, s.(*ast.ValueSpec))
		}
	}
}

// variable allows package-level variables that are as good as constants:
// they have a value from the start and nothing in the package writes to them.
// The linker sets the version.
func (c *checker) variable(g *ast.GenDecl, s *ast.ValueSpec) {
	for _, name := range s.Names {
		switch {
		case name.Name == "_", within(c.folder, "cmd") && name.Name == "version", forTests(c.folder):
		case embeds(g.Doc), embeds(s.Doc):
		case len(s.Values) == 0 || c.written[name.Name]:
			c.say(name.Pos(), "package-level variable %s is written to: make it a field", name.Name)
		}
	}
}

func embeds(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for _, c := range doc.List {
		if strings.HasPrefix(c.Text, "//go:embed ") {
			return true
		}
	}
	return false
}

// within tells whether p is root or below it, path element by path element.
func within(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }
