package hcl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/aicodesit/cordon/specs"
)

// explain puts cordon's words in the place of the library's where those
// don't help: the library knows neither secrets nor the table of functions.
func (e *evaluator) explain(diags hcllib.Diagnostics, ctx *hcllib.EvalContext) hcllib.Diagnostics {
	secret := hiddenIn(ctx)
	for i, d := range diags {
		if unknown, ok := hcllib.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](d); ok {
			name := unknown.CalledFunctionName()
			diags[i] = withText(d, fmt.Sprintf("unknown function %q", name), functionHint(name, e.root.Functions))
			continue
		}
		if secret != "" {
			diags[i] = withText(d, fmt.Sprintf("%s would be shown", secret), hiddenHint(secret))
		}
	}
	return diags
}

func withText(d *hcllib.Diagnostic, summary, detail string) *hcllib.Diagnostic {
	return &hcllib.Diagnostic{Severity: d.Severity, Subject: d.Subject, Summary: summary, Detail: detail}
}

// hiddenIn names a hidden value among those of ctx, or "".
func hiddenIn(ctx *hcllib.EvalContext) string {
	var found []string
	for _, v := range ctx.Variables {
		if h := hiddenOf(v); h != "" {
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// hiddenOf names where a value that must not be shown comes from, or "".
func hiddenOf(v cty.Value) string {
	if !v.ContainsMarked() {
		return ""
	}
	_, marks := v.UnmarkDeep()
	var found []string
	for m := range marks {
		if h, ok := m.(hidden); ok {
			found = append(found, string(h))
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

func hiddenHint(from string) string {
	if strings.HasPrefix(from, "secret.") {
		return "A secret is read at the moment of use and goes only where an attribute takes a secret, such as connection, credential, keys and inject. It can't become text."
	}
	return "The variable is sensitive, and what stands here is shown in plans. Only a secret's file and env may come from it."
}

// functionHint tells what to use instead of a function that does not exist.
func functionHint(name string, known map[string]function.Function) string {
	switch name {
	case "file", "templatefile", "fileexists", "fileset", "filebase64", "abspath", "pathexpand", "timestamp", "uuid", "bcrypt", "plantimestamp", "env":
		return "Functions here depend on their arguments only: none reads files, the clock or the environment. Use a variable."
	}
	if s := specs.Suggest(name, slices.Collect(maps.Keys(known))); s != "" {
		return fmt.Sprintf("Did you mean %q?", s)
	}
	return "LANGUAGE.md lists the functions there are."
}
