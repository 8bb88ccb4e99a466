package hcl

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// body reads the attributes of one block. layers are its own body and, for
// what extends another, those of its bases, the nearest first.
//
// The methods that return a value return the zero value, or the default they
// were given, when the attribute is left out, is null or has an error; errors
// are reported.
type body struct {
	e      *evaluator
	scope  *scope
	what   string // in messages: network "llm-only"
	header hcllib.Range
	layers []*hclsyntax.Body
	schema *schema // nil where nothing is required
}

// attribute returns the own attribute or else the nearest base's.
func (b body) attribute(name string) *hclsyntax.Attribute {
	if all := b.attributes(name); len(all) > 0 {
		return all[0]
	}
	return nil
}

// attributes returns all there are of that name, the nearest first. One that
// is null is left out; it is reported here if it must be given, for whether it
// is null shows only now.
func (b body) attributes(name string) []*hclsyntax.Attribute {
	var all []*hclsyntax.Attribute
	var null *hclsyntax.Attribute
	for _, l := range b.layers {
		switch a := l.Attributes[name]; {
		case a == nil:
		case b.isNull(a.Expr):
			null = a
		default:
			all = append(all, a)
		}
	}
	if len(all) == 0 && null != nil && b.schema != nil && slices.Contains(b.schema.needs, name) {
		b.e.error(null.Expr.Range(), fmt.Sprintf("%s lacks %s", b.what, name), "It is null, which is the same as left out; and it must be given.")
	}
	return all
}

// isNull tells whether an expression has the value null. What has no value
// because of an error has not.
func (b body) isNull(expr hclsyntax.Expression) bool {
	switch x := expr.(type) {
	case *hclsyntax.LiteralValueExpr:
		return x.Val.IsNull()
	case *hclsyntax.TemplateExpr, *hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr:
		return false
	}
	if usesSession(expr) {
		return false
	}
	v, ok := b.e.value(expr, b.scope)
	return ok && v.IsNull()
}

// bad reports a value. What was said about an attribute when it was read for
// another block that has it too is not said again.
func (b body) bad(at hcllib.Range, name, detail string) {
	b.wrong(at, fmt.Sprintf("bad %s in %s", name, b.what), sentence(detail))
}

// badValue reports the error of a parser of values.
func (b body) badValue(at hcllib.Range, name string, err error) {
	var u unknownWord
	if errors.As(err, &u) {
		b.wrong(at, fmt.Sprintf("%s in %s", u, b.what), u.hint)
		return
	}
	b.bad(at, name, err.Error())
}

func (b body) wrong(at hcllib.Range, summary, detail string) {
	said := reportKey{file: at.Filename, byte: at.Start.Byte, detail: detail}
	if b.e.said[said] {
		return
	}
	b.e.said[said] = true
	b.e.error(at, summary, detail)
}

// evaluate returns the value of an attribute that may be shown and is not null.
func (b body) evaluate(a *hclsyntax.Attribute) (cty.Value, bool) {
	v, ok := b.e.value(a.Expr, b.scope)
	if !ok || v.IsNull() {
		return v, false
	}
	return v, true
}

// shown tells whether v may be shown, and reports it if not.
func (b body) shown(v cty.Value, at hcllib.Range) bool {
	from := hiddenOf(v)
	if from == "" {
		return true
	}
	b.e.error(at, fmt.Sprintf("%s would be shown", from), hiddenHint(from))
	return false
}

// scalar returns the value of an attribute of a primitive type.
func (b body) scalar(name string, want cty.Type) (cty.Value, *hclsyntax.Attribute, bool) {
	a := b.attribute(name)
	if a == nil {
		return cty.NilVal, nil, false
	}
	v, ok := b.evaluate(a)
	if !ok || !b.shown(v, a.Expr.Range()) {
		return v, a, false
	}
	if v.Type() != want {
		b.bad(a.Expr.Range(), name, fmt.Sprintf("A %s is required; this is %s.", want.FriendlyName(), typeName(v)))
		return v, a, false
	}
	if want == cty.String && !b.clean(v.AsString(), a.Expr.Range(), name) {
		return v, a, false
	}
	return v, a, true
}

// clean tells whether s can be handed to a system, and be shown: none takes a
// NUL.
func (b body) clean(s string, at hcllib.Range, name string) bool {
	if !strings.ContainsRune(s, 0) {
		return seen(s, at, b.e.reporter)
	}
	b.bad(at, name, "A NUL can't be part of it.")
	return false
}

func (b body) string(name string) string {
	v, _, ok := b.scalar(name, cty.String)
	if !ok {
		return ""
	}
	return v.AsString()
}

// parsed returns what parse makes of a string, or def.
func parsed[T any](b body, name string, def T, parse func(string) (T, error)) T {
	v, a, ok := b.scalar(name, cty.String)
	if !ok {
		return def
	}
	got, err := parse(v.AsString())
	if err != nil {
		b.badValue(a.Expr.Range(), name, err)
		return def
	}
	return got
}

// enum returns one of choices, the first of which is the default.
func (b body) enum(name string, choices ...string) string {
	return parsed(b, name, choices[0], oneOf(name, choices))
}

func oneOf(name string, choices []string) func(string) (string, error) {
	return func(s string) (string, error) {
		if slices.Contains(choices, s) {
			return s, nil
		}
		return "", notIn(name, s, s, choices)
	}
}

func (b body) bool(name string) bool {
	v, _, ok := b.scalar(name, cty.Bool)
	return ok && v.True()
}

// int returns a whole number from low to high, or def.
func (b body) int(name string, low, high, def int) int {
	v, a, ok := b.scalar(name, cty.Number)
	if !ok {
		return def
	}
	n, exact := v.AsBigFloat().Int64()
	if exact != big.Exact || n < int64(low) || n > int64(high) {
		b.bad(a.Expr.Range(), name, fmt.Sprintf("A whole number from %d to %d is required.", low, high))
		return def
	}
	return int(n)
}

func (b body) port(name string) int { return b.int(name, 1, 65535, 0) }

// size returns bytes: a number is taken as bytes too.
func (b body) size(name string, def int64) int64 {
	a := b.attribute(name)
	if a == nil {
		return def
	}
	v, ok := b.evaluate(a)
	if ok && v.Type() == cty.Number {
		return int64(b.int(name, 1, 1<<62, int(def)))
	}
	return parsed(b, name, def, parseSize)
}

func (b body) percent(name string) int { return parsed(b, name, 0, parsePercent) }

func (b body) duration(name string, def time.Duration) time.Duration {
	return parsed(b, name, def, parseDuration)
}

// inner returns the block of that kind within, merged with those of the
// bases; ok is false if there is none.
func (b body) inner(kind string) (in body, ok bool) {
	in = body{e: b.e, scope: b.scope, what: kind + " in " + b.what, schema: b.schemaOf(kind)}
	for _, l := range b.layers {
		for _, block := range l.Blocks {
			if block.Type != kind {
				continue
			}
			if len(in.layers) == 0 {
				in.header = block.DefRange()
			}
			in.layers = append(in.layers, block.Body)
			break
		}
	}
	return in, len(in.layers) > 0
}

// schemaOf is the schema of the blocks of that kind within.
func (b body) schemaOf(kind string) *schema {
	if b.schema == nil || b.schema.inner(kind) == nil {
		return nil
	}
	return &b.schema.inner(kind).schema
}

// many returns the blocks of that kind within that have no label, in the
// order of the files.
func (b body) many(kind string) []body {
	var list []body
	for _, l := range slices.Backward(b.layers) {
		for _, block := range l.Blocks {
			if block.Type == kind {
				list = append(list, body{e: b.e, scope: b.scope, what: kind + " in " + b.what, header: block.DefRange(), layers: []*hclsyntax.Body{block.Body}, schema: b.schemaOf(kind)})
			}
		}
	}
	return list
}

// labelled returns the blocks of that kind within by label, in the order of
// the bases and the files, each merged with those of the bases that have the
// same label.
func (b body) labelled(kind string) (labels []string, blocks map[string]body) {
	blocks = map[string]body{}
	for i := range b.layers {
		base := b.layers[len(b.layers)-1-i]
		for _, block := range base.Blocks {
			if block.Type != kind || len(block.Labels) != 1 {
				continue
			}
			label := block.Labels[0]
			in, seen := blocks[label]
			if !seen {
				labels = append(labels, label)
				in = body{e: b.e, scope: b.scope, what: fmt.Sprintf("%s %q in %s", kind, label, b.what), schema: b.schemaOf(kind)}
			}
			in.header = block.DefRange()
			in.layers = append([]*hclsyntax.Body{block.Body}, in.layers...)
			blocks[label] = in
		}
	}
	return labels, blocks
}

// typeName says what a value is, in words of the files.
func typeName(v cty.Value) string {
	t := v.Type()
	switch {
	case v.IsNull():
		return "null"
	case t == refType:
		u, _ := v.Unmark()
		return "a reference to " + u.EncapsulatedValue().(*ref).String() //nolint:forcetypeassert // by its type
	case t.IsTupleType(), t.IsListType(), t.IsSetType():
		return "a list"
	case t.IsObjectType(), t.IsMapType():
		return "a map"
	}
	return "a " + t.FriendlyName()
}

// sentence gives a detail its capital and full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	word, _, _ := strings.Cut(s, " ")
	if c := s[0]; c >= 'a' && c <= 'z' && !strings.ContainsAny(word, "./-_0123456789") {
		s = string(c-'a'+'A') + s[1:]
	}
	if last := s[len(s)-1]; last != '.' && last != '?' {
		s += "."
	}
	return s
}
