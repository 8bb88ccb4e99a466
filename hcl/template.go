package hcl

import (
	"fmt"
	"slices"
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/aicodesit/cordon/specs"
)

// template returns the value of an expression that may name the session.
func (b body) template(expr hclsyntax.Expression, name string) (specs.Template, bool) {
	if !usesSession(expr) {
		v, ok := b.e.value(expr, b.scope)
		if !ok || !b.shown(v, expr.Range()) {
			return "", false
		}
		return b.literal(v, expr.Range(), name)
	}
	switch x := expr.(type) {
	case *metered:
		return b.template(x.Expression, name)
	case *hclsyntax.ParenthesesExpr:
		return b.template(x.Expression, name)
	case *hclsyntax.TemplateWrapExpr:
		return b.template(x.Wrapped, name)
	case *hclsyntax.ScopeTraversalExpr:
		return b.sessionValue(x.Traversal)
	case *hclsyntax.TemplateExpr:
		var out specs.Template
		whole := true
		for _, part := range x.Parts {
			t, ok := b.template(part, name)
			if strings.HasSuffix(string(out), "$") && strings.HasPrefix(string(t), "${") {
				b.bad(part.Range(), name, "A $ can't stand right before a session value: together they would be read as the text ${.")
				ok = false
			}
			out += t
			whole = whole && ok
		}
		return out, whole
	}
	b.e.value(expr, b.scope) // reports where the session is named
	return "", false
}

// literal is v as text: strings, numbers and booleans are.
func (b body) literal(v cty.Value, at hcllib.Range, name string) (specs.Template, bool) {
	text, ok := asText(v)
	if !ok {
		b.bad(at, name, fmt.Sprintf("Text is required; this is %s.", typeName(v)))
		return "", false
	}
	if !b.clean(text, at, name) {
		return "", false
	}
	return specs.Literal(text), true
}

func (b body) sessionValue(t hcllib.Traversal) (specs.Template, bool) {
	name := written(t)
	if slices.Contains(specs.SessionNames(), name) {
		return specs.Template("${" + name + "}"), true
	}
	b.e.error(t.SourceRange(), fmt.Sprintf("unknown reference %s", name), didYouMean(name, specs.SessionNames()))
	return "", false
}

func usesSession(expr hclsyntax.Expression) bool {
	return slices.ContainsFunc(expr.Variables(), func(t hcllib.Traversal) bool { return t.RootName() == "session" })
}

// templates returns a list of texts in which each may name the session. It
// is one value: own ones replace the base's. It is nil if one has an error.
func (b body) templates(name, example string) []specs.Template {
	a := b.attribute(name)
	if a == nil {
		return nil
	}
	if tuple, ok := a.Expr.(*hclsyntax.TupleConsExpr); ok {
		return allOrNil(tuple.Exprs, func(expr hclsyntax.Expression) (specs.Template, bool) { return b.template(expr, name) })
	}
	v, ok := b.evaluate(a)
	if !ok {
		return nil
	}
	elements := b.elementsOf(a.Expr, v, name, example)
	if elements == nil {
		return nil
	}
	return allOrNil(elements, func(el element) (specs.Template, bool) {
		if !b.shown(el.value, el.at) {
			return "", false
		}
		return b.literal(el.value, el.at, name)
	})
}

// texts returns a list of texts that name no session, as they are listed. It
// is nil if one has an error.
func (b body) texts(name, example string) []string {
	elements, given := b.elements(name, example)
	if !given {
		return nil
	}
	return allOrNil(elements, func(el element) (string, bool) {
		if !b.shown(el.value, el.at) {
			return "", false
		}
		text, ok := asText(el.value)
		if !ok {
			b.bad(el.at, name, fmt.Sprintf("Text is required; this is %s.", typeName(el.value)))
		}
		return text, ok && b.clean(text, el.at, name)
	})
}

// allOrNil maps from, and is nil if there was no value for one. An empty list
// is not nil.
func allOrNil[F, T any](from []F, one func(F) (T, bool)) []T {
	list, all := []T{}, true
	for _, f := range from {
		t, ok := one(f)
		list = append(list, t)
		all = all && ok
	}
	if !all {
		return nil
	}
	return list
}

// templateMap returns a map from names to texts that may name the session.
func (b body) templateMap(name string) map[string]specs.Template {
	a := b.attribute(name)
	if a == nil {
		return nil
	}
	m := map[string]specs.Template{}
	if object, ok := a.Expr.(*hclsyntax.ObjectConsExpr); ok && usesSession(a.Expr) {
		for _, item := range object.Items {
			b.templateItem(m, item, name)
		}
		return m
	}
	v, ok := b.evaluate(a)
	if !ok || !b.isMap(v, a, name) {
		return nil
	}
	for it := v.ElementIterator(); it.Next(); {
		key, item := it.Element()
		at := valueRange(a.Expr, key.AsString())
		if !b.shown(item, at) {
			continue
		}
		if t, ok := b.literal(item, at, name); ok {
			m[key.AsString()] = t
		}
	}
	return m
}

func (b body) templateItem(m map[string]specs.Template, item hclsyntax.ObjectConsItem, name string) {
	key, ok := b.e.value(item.KeyExpr, b.scope)
	if !ok || !b.shown(key, item.KeyExpr.Range()) {
		return
	}
	if key.IsNull() || key.Type() != cty.String {
		b.bad(item.KeyExpr.Range(), name, "A name is required here.")
		return
	}
	if t, ok := b.template(item.ValueExpr, name); ok {
		m[key.AsString()] = t
	}
}
