package hcl

import (
	"fmt"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/aicodesit/cordon/specs"
)

// ref returns the name of the block of that kind that an attribute refers to.
func (b body) ref(name, kind string) string {
	a := b.attribute(name)
	if a == nil {
		return ""
	}
	v, ok := b.evaluate(a)
	if !ok {
		return ""
	}
	return b.refOf(v, a.Expr.Range(), name, kind)
}

// refs returns the names that a list refers to, as they are listed. A name
// that is listed twice in one list is kept twice: package specs tells.
func (b body) refs(name, kind string) []string {
	elements, _ := b.elements(name, fmt.Sprintf("[%s.NAME]", kind))
	var list []string
	for _, el := range elements {
		if n := b.refOf(el.value, el.at, name, kind); n != "" {
			list = append(list, n)
		}
	}
	return list
}

func (b body) refOf(v cty.Value, at hcllib.Range, name, kind string) string {
	shown, _ := v.Unmark()
	if shown.Type() != refType || shown.IsNull() {
		b.notARef(v, at, name, kind)
		return ""
	}
	r := shown.EncapsulatedValue().(*ref) //nolint:forcetypeassert // by its type
	if r.kind != kind {
		b.bad(at, name, fmt.Sprintf("A %s is required; this is %s.", kind, r))
		return ""
	}
	if kind == "sandbox" && name != "extends" && b.e.isAbstract(r.name) {
		b.bad(at, name, fmt.Sprintf("%s is abstract: it is there to be extended. Name a sandbox that extends it.", r))
		return ""
	}
	return r.name
}

func (b body) notARef(v cty.Value, at hcllib.Range, name, kind string) {
	detail := fmt.Sprintf("A reference is required, written %s.NAME; this is %s.", kind, typeName(v))
	if v.Type() == cty.String && !v.IsMarked() && !v.IsNull() {
		if s := specs.Suggest(v.AsString(), b.e.names.labels(kind)); s != "" {
			detail = fmt.Sprintf("A reference is required: write %s.%s, without quotes.", kind, s)
		}
	}
	b.bad(at, name, detail)
}

// isAbstract reads a sandbox's own abstract attribute.
func (e *evaluator) isAbstract(sandbox string) bool {
	b := e.names.blocks["sandbox"][sandbox]
	if b == nil {
		return false
	}
	return e.body(b, nil).bool("abstract")
}

// refMap returns a map from text to the names of blocks.
func (b body) refMap(name, kind string) map[string]string {
	a := b.attribute(name)
	if a == nil {
		return nil
	}
	v, ok := b.evaluate(a)
	if !ok || !b.isMap(v, a, name) {
		return nil
	}
	var m map[string]string
	for it := v.ElementIterator(); it.Next(); {
		key, item := it.Element()
		if !seen(key.AsString(), valueRange(a.Expr, key.AsString()), b.e.reporter) {
			continue
		}
		n := b.refOf(item, valueRange(a.Expr, key.AsString()), name, kind)
		if n == "" {
			continue
		}
		if m == nil {
			m = map[string]string{}
		}
		m[key.AsString()] = n
	}
	return m
}

func (b body) isMap(v cty.Value, a *hclsyntax.Attribute, name string) bool {
	if v.IsMarked() {
		return b.shown(v, a.Expr.Range())
	}
	if t := v.Type(); t.IsObjectType() || t.IsMapType() {
		return true
	}
	b.bad(a.Expr.Range(), name, fmt.Sprintf("A map is required, such as { NAME = … }; this is %s.", typeName(v)))
	return false
}

// valueRange is where the value of key is written, if expr is a plain map.
func valueRange(expr hclsyntax.Expression, key string) hcllib.Range {
	if object, ok := expr.(*hclsyntax.ObjectConsExpr); ok {
		for _, item := range object.Items {
			if literalKey(item.KeyExpr) == key {
				return item.ValueExpr.Range()
			}
		}
	}
	return expr.Range()
}

// literalKey is a map's key if it is written as a word or a plain string.
func literalKey(expr hclsyntax.Expression) string {
	if word := hcllib.ExprAsKeyword(expr); word != "" {
		return word
	}
	v, diags := expr.Value(nil)
	if diags.HasErrors() || !v.IsKnown() || v.IsNull() || v.Type() != cty.String || v.IsMarked() {
		return ""
	}
	return v.AsString()
}
