package hcl_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

const hunter = "hunter2"

// notShown loads files and fails if the value of a sensitive variable is in
// what is said about them. It tells whether there were errors.
func notShown(t *testing.T, o hcl.Options, files ...string) bool {
	t.Helper()
	_, diags := hcl.LoadFiles(filesOf(files...), o)
	b, err := diags.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{text(t, diags), string(b), fmt.Sprint(diags.Err())} {
		if strings.Contains(got, hunter) {
			t.Errorf("%q: %s", files, got)
		}
	}
	return diags.HasErrors()
}

// sensitive are the ways in which the variable s gets a value: a file, and
// options.
func sensitive(t *testing.T, value string) map[string]func() (string, hcl.Options) {
	const declared = "variable \"s\" { sensitive = true }\n"
	return map[string]func() (string, hcl.Options){
		"--var":       func() (string, hcl.Options) { return declared, hcl.Options{Vars: []string{"s=" + value}} },
		"environment": func() (string, hcl.Options) { return declared, hcl.Options{Environ: []string{"CORDON_VAR_s=" + value}} },
		"file": func() (string, hcl.Options) {
			return declared, hcl.Options{VarFiles: []string{varFile(t, fmt.Sprintf("s = %q\n", value))}}
		},
		"default": func() (string, hcl.Options) {
			return fmt.Sprintf("variable \"s\" {\n  sensitive = true\n  default = %q\n}\n", value), hcl.Options{}
		},
	}
}

// Wherever a sensitive value stands, whether it may or not, whether it is good
// there or not: no message shows it.
func TestNoAttributeShowsWhatIsSensitive(t *testing.T) {
	src, err := os.ReadFile("testdata/full.hcl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(src), "\n")
	attribute := regexp.MustCompile(`^( *[a-z_]+ *= )[^#]*`)
	errors := 0
	for value, how := range map[string]string{hunter: "default", "/" + hunter + "/../x": "--var", hunter + "=1": "file"} {
		declared, options := sensitive(t, value)[how]()
		for i, line := range lines {
			m := attribute.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			for _, form := range []string{`var.s`, `"a/../${var.s}"`, `[var.s]`, `{ x = var.s }`, `{ (var.s) = "x" }`, `{ select = [var.s] }`} {
				with := append([]string{}, lines...)
				with[i] = m[1] + form
				if notShown(t, options, "a.hcl", declared, "full.hcl", strings.Join(with, "\n")) {
					errors++
				}
			}
		}
	}
	if errors < 1_000 {
		t.Errorf("only %d errors", errors)
	}
}

// Nor does what a function says of its arguments.
func TestNoFunctionShowsWhatIsSensitive(t *testing.T) {
	calls := func(arg string) []string {
		var out []string
		for _, f := range hcl.FunctionNames() {
			for _, args := range []string{"A", "A, A", "A, A, A", "[A]", "[A], A", "{ x = A }", "{ x = A }, A", "A, [A]", "1, A", "A, 1"} {
				out = append(out, f+"("+strings.ReplaceAll(args, "A", arg)+")")
			}
		}
		return append(out, arg+" + 1", "-"+arg, arg+" ? 1 : 2", "["+arg+"][7]", "{ a = "+arg+" }.b", "[for x in "+arg+" : x]", `{ a = 1 }[`+arg+`]`,
			"{ for x in ["+arg+", "+arg+"] : x => x }", `"%{ if `+arg+` }%{ endif }"`)
	}
	errors := 0
	for _, give := range sensitive(t, hunter) {
		declared, options := give()
		for _, call := range calls("var.s") {
			if notShown(t, options, "a.hcl", declared+"locals {\n  a = "+call+"\n}\n") {
				errors++
			}
		}
	}
	quoted := fmt.Sprintf("%q", hunter)
	for _, call := range append(calls(quoted), hunter+"()", "["+hunter+"]", hunter+".x", `var["`+hunter+`"]`) {
		for _, typ := range []string{"string", "number", "list(number)", "object({ a = bool })"} {
			declared := "variable \"s\" {\n  type = " + typ + "\n  sensitive = true\n"
			notShown(t, hcl.Options{}, "a.hcl", declared+"  default = "+call+"\n}\n")
			notShown(t, hcl.Options{VarFiles: []string{varFile(t, "s = "+call+"\n")}}, "a.hcl", declared+"}\n")
			notShown(t, hcl.Options{Vars: []string{"s=" + call}}, "a.hcl", declared+"}\n")
		}
	}
	if errors < 500 {
		t.Errorf("only %d errors", errors)
	}
}

// Nor what is said of a file of values that is no HCL.
func TestNoSyntaxErrorShowsWhatIsSensitive(t *testing.T) {
	for _, content := range []string{
		"s = \"hunter2", "s = \"hunter2\\h\"", "s = hunter2 hunter2", "s = 'hunter2'", "s = \"hunter2\" \"x\"", "s = \"${hunter2\"", "s = \"%{ hunter2 }\"",
		"s = <<hunter2\nx", "s = [hunter2", "s = {hunter2}", "s = hunter2?", "s = hunter2::x()", "s = \"hunter2\xff\"", "s = @hunter2", "s = \"\\uhunter2\"",
		"s \"hunter2\" {}", "s = a.0hunter2", "s = \"%{ for hunter2 }\"", "s = [for hunter2 x]", "s = hunter2.*.*[", "s: hunter2", "s { x = \"hunter2\" }",
		strings.Repeat("(", 1_000) + "hunter2",
	} {
		if !notShown(t, hcl.Options{VarFiles: []string{varFile(t, content+"\n")}}, "a.hcl", "variable \"s\" { sensitive = true }\n") {
			t.Errorf("no error: %s", content)
		}
	}
	for _, o := range []hcl.Options{{Vars: []string{hunter}}, {Environ: []string{"CORDON_VAR_" + hunter}}} {
		notShown(t, o, "a.hcl", "variable \"s\" { sensitive = true }\n")
	}
}
