package hcl

import (
	"fmt"
	"slices"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// element is an element of a list, with where it is written if that is known.
type element struct {
	value cty.Value
	at    hcllib.Range
}

// elements returns those of a list attribute, those of the bases too. given is false if
// no list is given.
func (b body) elements(name, example string) (all []element, given bool) {
	for _, a := range b.attributes(name) {
		v, ok := b.evaluate(a)
		if !ok {
			continue
		}
		list := b.elementsOf(a.Expr, v, name, example)
		given = given || list != nil
		all = append(all, list...)
	}
	return all, given
}

func (b body) elementsOf(expr hclsyntax.Expression, v cty.Value, name, example string) []element {
	if v.IsMarked() {
		b.shown(v, expr.Range())
		return nil
	}
	if t := v.Type(); !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
		b.bad(expr.Range(), name, fmt.Sprintf("A list is required, such as %s; this is %s.", example, typeName(v)))
		return nil
	}
	tuple, _ := expr.(*hclsyntax.TupleConsExpr)
	list := []element{}
	for it := v.ElementIterator(); it.Next(); {
		_, item := it.Element()
		at := expr.Range()
		if tuple != nil && len(tuple.Exprs) > len(list) {
			at = tuple.Exprs[len(list)].Range()
		}
		list = append(list, element{item, at})
	}
	return list
}

// parsedList returns what parse makes of the elements, each once, in the
// order given. It is nil if the attribute is left out and not nil if it is
// given.
func parsedList[T comparable](b body, name, example string, parse func(string) (T, error)) []T {
	elements, given := b.elements(name, example)
	if !given {
		return nil
	}
	list := []T{}
	for _, el := range elements {
		if !b.shown(el.value, el.at) {
			continue
		}
		if el.value.IsNull() || el.value.Type() != cty.String {
			b.bad(el.at, name, fmt.Sprintf("Each element must be a string, as in %s; this is %s.", example, typeName(el.value)))
			continue
		}
		if !b.clean(el.value.AsString(), el.at, name) {
			continue
		}
		got, err := parse(el.value.AsString())
		if err != nil {
			b.badValue(el.at, name, err)
			continue
		}
		if !slices.Contains(list, got) {
			list = append(list, got)
		}
	}
	return list
}

func asIs(s string) (string, error) { return s, nil }

// strings returns a list of strings, each once.
func (b body) strings(name, example string) []string {
	return parsedList(b, name, example, asIs)
}
