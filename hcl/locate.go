package hcl

import (
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// locate returns where an attribute, or the element of it that is written as
// value, stands: in the block itself or in what it extends. Blocks within
// stand before a dot: "filesystem.files".
func (b body) locate(path, value string) (hcllib.Range, bool) {
	name := path
	if kind, rest, nested := strings.Cut(path, "."); nested {
		in, ok := b.inner(kind)
		if !ok {
			return hcllib.Range{}, false
		}
		b, name = in, rest
	}
	if value != "" {
		for _, l := range b.layers {
			if a := l.Attributes[name]; a != nil {
				if at, ok := elementAt(a.Expr, value); ok {
					return at, true
				}
			}
		}
	}
	a := b.attribute(name)
	if a == nil {
		return b.header, true
	}
	return a.Expr.Range(), true
}

// elementAt finds the element of a list that is written as value: a plain
// string, or a reference by its last name. Of several it is the last, since
// the later one is the one too many.
func elementAt(expr hclsyntax.Expression, value string) (at hcllib.Range, ok bool) {
	tuple, isTuple := expr.(*hclsyntax.TupleConsExpr)
	if !isTuple {
		return at, false
	}
	for _, el := range tuple.Exprs {
		if writtenAs(el) == value {
			at, ok = el.Range(), true
		}
	}
	return at, ok
}

func writtenAs(expr hclsyntax.Expression) string {
	switch x := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		if last, ok := x.Traversal[len(x.Traversal)-1].(hcllib.TraverseAttr); ok {
			return last.Name
		}
	case *hclsyntax.TemplateExpr:
		if x.IsStringLiteral() {
			if v, _ := x.Value(nil); v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
				return v.AsString()
			}
		}
	}
	return ""
}
