package hcl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/aicodesit/cordon/specs"
)

// EnvPrefix begins the names of environment variables that give a variable
// its value.
const EnvPrefix = "CORDON_VAR_"

// Options say where the values of variables come from. Of several that name
// one variable the last wins, in the order of the fields.
type Options struct {
	Environ  []string // "name=value"; only names that begin with [EnvPrefix] are looked at
	VarFiles []string // paths of files of HCL attributes
	Vars     []string // "name=value", as from --var
}

// variable is what a variable block says.
type variable struct {
	name      string
	typ       cty.Type // DynamicPseudoType if not declared
	text      bool     // a value from outside is text, not an expression
	value     cty.Value
	given     bool
	sensitive bool
	at        hcllib.Range
}

// loadVariables gives all variables their values.
func (e *evaluator) loadVariables(o Options) {
	declared := map[string]*variable{}
	for _, name := range slices.Sorted(maps.Keys(e.names.variables)) {
		declared[name] = e.declare(name, e.names.variables[name])
	}
	for _, pair := range o.Environ {
		name, raw, ok := strings.Cut(strings.TrimPrefix(pair, EnvPrefix), "=")
		if v := declared[name]; ok && v != nil && strings.HasPrefix(pair, EnvPrefix) {
			e.giveText(v, raw, EnvPrefix+name)
		}
	}
	for _, file := range o.VarFiles {
		e.giveFile(declared, file)
	}
	for _, pair := range o.Vars {
		e.givePair(declared, pair)
	}
	for name, v := range declared {
		if !v.given {
			e.error(v.at, fmt.Sprintf("variable %q has no value", name),
				fmt.Sprintf("Give it a default, or a value with --var %s=…, --var-file or the environment variable %s%s.", name, EnvPrefix, name))
		}
		if v.sensitive {
			v.value = v.value.Mark(hidden("var." + name))
		}
		e.variables[name] = v.value
	}
}

// declare reads a variable block.
func (e *evaluator) declare(name string, b *block) *variable {
	v := &variable{name: name, typ: cty.DynamicPseudoType, text: true, value: cty.DynamicVal, at: b.syntax.DefRange()}
	if !hclsyntax.ValidIdentifier(name) {
		e.error(b.syntax.LabelRanges[0], fmt.Sprintf("variable %q is not a usable name", name), "Names are made of letters, digits, _ and -, and begin with a letter.")
		v.given = true
		return v
	}
	block := e.body(b, nil)
	v.sensitive = block.bool("sensitive")
	block.string("description")
	if a := b.body.Attributes["type"]; a != nil {
		typ, diags := typeexpr.TypeConstraint(a.Expr)
		e.library(diags)
		if diags.HasErrors() {
			v.given = true // whether or not: its type is what has to be put right
			return v
		}
		v.typ = typ
		v.text = typ == cty.String || typ == cty.DynamicPseudoType
	}
	a := b.body.Attributes["default"]
	if a == nil {
		return v
	}
	v.given = true
	e.giveExpression(v, a, v.sensitive)
	return v
}

// giveExpression sets v to a constant that is written in a file. Nothing of a
// private one comes into a message.
func (e *evaluator) giveExpression(v *variable, a *hclsyntax.Attribute, private bool) {
	v.given = true
	v.value = cty.DynamicVal
	say := e.error
	if private {
		say = e.privately
	}
	for _, t := range a.Expr.Variables() {
		say(t.SourceRange(), fmt.Sprintf("the value of variable %q refers to something", v.name), "Values of variables are constants. A local can combine variables: locals { name = … }.")
		return
	}
	got, diags := a.Expr.Value(e.root)
	if e.exhausted(a.Expr, got) {
		return
	}
	switch {
	case diags.HasErrors() && private:
		say(a.Expr.Range(), fmt.Sprintf("bad value for variable %q", v.name), "It can't be evaluated; more is not said, for that could show the value.")
		return
	case diags.HasErrors():
		e.library(e.explain(diags, e.root))
		return
	case !got.IsWhollyKnown():
		return
	}
	got, err := valueOf(got, v.typ)
	if err != nil {
		say(a.Expr.Range(), fmt.Sprintf("bad value for variable %q", v.name), sentence(err.Error()))
		return
	}
	v.value = got
}

// giveText sets v to what stands on a command line or in the environment.
// Nothing of raw comes into a message: it may be sensitive.
func (e *evaluator) giveText(v *variable, raw, from string) {
	v.given = true
	v.value = cty.DynamicVal
	got := cty.StringVal(raw)
	if !v.text {
		var ok bool
		if got, ok = e.constant(raw); !ok {
			e.badText(v, from, fmt.Sprintf("%s is required, written as in a file: --var '%s=…'", v.typ.FriendlyNameForConstraint(), v.name))
			return
		}
	}
	got, err := valueOf(got, v.typ)
	if err != nil {
		e.badText(v, from, err.Error())
		return
	}
	v.value = got
}

func (e *evaluator) badText(v *variable, from, detail string) {
	e.report(Diagnostic{
		Severity: Error, Summary: fmt.Sprintf("bad value for variable %q from %s", v.name, from),
		Detail: sentence(detail), Range: rangeOf(v.at),
	})
}

// constant evaluates an expression that refers to nothing.
func (e *evaluator) constant(raw string) (cty.Value, bool) {
	start := hcllib.Pos{Line: 1, Column: 1}
	tokens, _ := hclsyntax.LexExpression([]byte(raw), "", start)
	if tooDeep(tokens) != nil {
		return cty.DynamicVal, false
	}
	expr, diags := hclsyntax.ParseExpression([]byte(raw), "", start)
	if diags.HasErrors() {
		return cty.DynamicVal, false
	}
	e.work.meterAll(expr)
	v, diags := expr.Value(nil)
	return v, !diags.HasErrors() && !e.exhausted(expr, v)
}

func (e *evaluator) givePair(declared map[string]*variable, pair string) {
	name, raw, ok := strings.Cut(pair, "=")
	name = strings.TrimSpace(name)
	if !ok {
		if declared[name] == nil { // it may as well be a value
			name = "…"
		}
		e.report(Diagnostic{Severity: Error, Summary: fmt.Sprintf("--var %s has no value", name), Detail: "Write --var name=value."})
		return
	}
	v := declared[name]
	if v == nil {
		e.unknownVariable(declared, name, "--var", specs.Range{})
		return
	}
	e.giveText(v, raw, "--var")
}

func (e *evaluator) unknownVariable(declared map[string]*variable, name, from string, at specs.Range) {
	if e.names.mayExist("var", name) {
		return
	}
	detail := didYouMean(name, slices.Collect(maps.Keys(declared)))
	if len(declared) == 0 {
		detail = "The files declare no variables."
	}
	e.report(Diagnostic{Severity: Error, Summary: fmt.Sprintf("%s names an unknown variable %q", from, name), Detail: detail, Range: at})
}

// giveFile reads a file of values.
func (e *evaluator) giveFile(declared map[string]*variable, name string) {
	raw, problem := readFile(name)
	if problem != nil {
		e.report(*problem)
		return
	}
	var said reporter
	content, _ := parseBytes(&source{name: name, bytes: raw}, &said)
	for _, d := range said.list {
		d.Detail, d.private = "", true // details of the library quote
		e.report(d)
	}
	if content == nil {
		return
	}
	e.work.meterAll(content)
	for _, b := range content.Blocks {
		e.error(b.TypeRange, "block in a file of values", "A --var-file has lines like name = value only.")
	}
	for _, a := range sortedAttributes(content) {
		if v := declared[a.Name]; v != nil {
			e.giveExpression(v, a, true)
			continue
		}
		e.unknownVariable(declared, a.Name, "the file", rangeOf(a.NameRange))
	}
}
