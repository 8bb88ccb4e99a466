package hcl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

const withVariables = `
variable "text" { default = "default" }
variable "number" {
  type    = number
  default = 1
}
variable "list" {
  type    = list(string)
  default = []
}
variable "secret" {
  default   = ""
  sensitive = true
}
environment "e" {
  allow = var.list
  set   = { TEXT = var.text, NUMBER = var.number }
}
secret "s" { file = "/etc/${var.secret}x" }
`

func varFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "values")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestVariables(t *testing.T) {
	tests := map[string]struct {
		options hcl.Options
		want    string // TEXT NUMBER allow
	}{
		"defaults":    {hcl.Options{}, "default 1 "},
		"environment": {hcl.Options{Environ: []string{"CORDON_VAR_text=env", "text=no", "CORDON_VAR_number=2", "CORDON_VAR_other=x", "CORDON_VAR_"}}, "env 2 "},
		"file":        {hcl.Options{VarFiles: []string{varFile(t, "text = \"file\"\nlist = [\"B\", \"A\"]\n")}}, "file 1 A B"},
		"later file":  {hcl.Options{VarFiles: []string{varFile(t, "text = \"one\"\nnumber = 5\n"), varFile(t, "text = \"two\"\n")}}, "two 5 "},
		"flag":        {hcl.Options{Vars: []string{"text=a=b", `list=["X"]`, "number=3"}}, "a=b 3 X"},
		"later flag":  {hcl.Options{Vars: []string{"text=a", "text=b"}}, "b 1 "},
		"order": {hcl.Options{
			Environ: []string{"CORDON_VAR_text=env", "CORDON_VAR_number=7"}, VarFiles: []string{varFile(t, "text = \"file\"\nnumber = 8\n")}, Vars: []string{"text=flag"},
		}, "flag 8 "},
		"text is not an expression": {hcl.Options{Vars: []string{`text=["${x}"]`}}, `["$${x}"] 1 `},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			set := mustLoad(t, test.options, "a.hcl", withVariables)
			e := set.Environments[0]
			got := string(e.Set["TEXT"]) + " " + string(e.Set["NUMBER"]) + " " + strings.Join(e.Allow, " ")
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestVariableErrors(t *testing.T) {
	tests := map[string]struct {
		options hcl.Options
		want    string
	}{
		"unknown flag":       {hcl.Options{Vars: []string{"txet=1"}}, `error: --var names an unknown variable "txet"` + "\n" + `  Did you mean "text"?`},
		"no value":           {hcl.Options{Vars: []string{"text"}}, "--var text has no value"},
		"wrong type":         {hcl.Options{Vars: []string{"number=x"}}, `a.hcl:3:1: error: bad value for variable "number" from --var`},
		"not an expression":  {hcl.Options{Environ: []string{"CORDON_VAR_list=[["}}, `bad value for variable "list" from CORDON_VAR_list`},
		"refers":             {hcl.Options{Vars: []string{"list=[var.text]"}}, `bad value for variable "list" from --var`},
		"missing file":       {hcl.Options{VarFiles: []string{"/nowhere/values"}}, "/nowhere/values: error: the file can't be read"},
		"directory":          {hcl.Options{VarFiles: []string{"/"}}, "/: error: not a regular file"},
		"unknown in file":    {hcl.Options{VarFiles: []string{varFile(t, "nubmer = 1\n")}}, `:1:1: error: the file names an unknown variable "nubmer"` + "\n" + `  Did you mean "number"?`},
		"block in file":      {hcl.Options{VarFiles: []string{varFile(t, "network \"n\" {}\n")}}, "block in a file of values"},
		"wrong type in file": {hcl.Options{VarFiles: []string{varFile(t, "list = 5\n")}}, `:1:8: error: bad value for variable "list"`},
		"syntax of file":     {hcl.Options{VarFiles: []string{varFile(t, "list = = 5\n")}}, ":1:8: error: invalid expression"},
		"reference in file":  {hcl.Options{VarFiles: []string{varFile(t, "list = [local.x]\n")}}, "refers to something"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, diags := hcl.LoadFiles(filesOf("a.hcl", withVariables), test.options)
			if len(diags) != 1 || !strings.Contains(text(t, diags), test.want) {
				t.Errorf("want one error with %s, got:\n%s", test.want, text(t, diags))
			}
		})
	}
}

// What is sensitive, or stands in a file of values, is in no message.
func TestSensitiveIsNotShown(t *testing.T) {
	const hunter = "hunter2"
	for _, test := range []struct {
		src     string
		options hcl.Options
	}{
		{`variable "v" {
  type      = number
  sensitive = true
}`, hcl.Options{Vars: []string{"v=\"" + hunter}}},
		{`variable "v" {
  type      = number
  sensitive = true
}`, hcl.Options{VarFiles: []string{varFile(t, "v = \""+hunter+"\"\n")}}},
		{`variable "v" { sensitive = true }`, hcl.Options{VarFiles: []string{varFile(t, "v = "+hunter+" x\n")}}},
		{`variable "v" { sensitive = true }
network "n" { pool = var.v }
sandbox "s" { command = [regex("x", var.v), tonumber(var.v), "a${var.v}"] }
project "p" { directory = "/srv/${var.v}" }
`, hcl.Options{Vars: []string{"v=" + hunter}}},
	} {
		_, diags := hcl.LoadFiles(filesOf("a.hcl", test.src), test.options)
		b, err := diags.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if !diags.HasErrors() || strings.Contains(text(t, diags), hunter) || strings.Contains(string(b), hunter) {
			t.Error(text(t, diags))
		}
	}
}

func TestSensitiveWhereASecretIs(t *testing.T) {
	set := mustLoad(t, hcl.Options{Vars: []string{"secret=dir/"}}, "a.hcl", withVariables)
	if set.Secrets[0].File != "/etc/dir/x" {
		t.Error(set.Secrets[0].File)
	}
}
