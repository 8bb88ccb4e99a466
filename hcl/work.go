package hcl

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

const (
	// maxWork bounds how often the parts of expressions are evaluated in one
	// load; two thousand projects take a tenth of it, and all of it takes a second.
	maxWork = 500_000
	// maxStep bounds the letters and elements of what a part of an expression
	// comes to.
	maxStep = 10 * maxValue
	// maxExponent bounds numbers, in bits: written out they would be as long.
	maxExponent = 4_096
)

// work is what evaluations may still do.
type work struct{ left int }

// metered is an expression whose evaluation counts. It stands where one is
// evaluated many times or becomes part of something larger.
type metered struct {
	*hclsyntax.ParenthesesExpr // which walkers see through
	work                       *work
}

func (w *work) meter(e hclsyntax.Expression) hclsyntax.Expression {
	if e == nil {
		return nil
	}
	if _, done := e.(*metered); done {
		return e
	}
	return &metered{&hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}, w}
}

// Value implements [hclsyntax.Expression].
func (m *metered) Value(ctx *hcllib.EvalContext) (cty.Value, hcllib.Diagnostics) {
	if m.work.left <= 0 {
		return cty.DynamicVal, m.refuse(tooMuchWork)
	}
	v, diags := m.Expression.Value(ctx)
	room := maxStep
	weigh(v, &room)
	m.work.left -= 1 + (maxStep-room)/16
	if room < 0 {
		return cty.DynamicVal, m.refuse(tooLarge)
	}
	return v, diags
}

const (
	tooMuchWork = "too much work to evaluate"
	tooLarge    = "too large a value"
)

func (m *metered) refuse(summary string) hcllib.Diagnostics {
	at := m.Range()
	return hcllib.Diagnostics{{Severity: hcllib.DiagError, Summary: summary, Detail: tooLargeHint, Subject: &at}}
}

const tooLargeHint = "Loops in loops, and texts and lists made of one another, are bounded so that no file holds up a host."

// meterBody meters a file's body, but for the types of variables: those are
// read, not evaluated.
func (w *work) meterBody(body *hclsyntax.Body) {
	for _, b := range body.Blocks {
		if b.Type != "variable" {
			w.meterAll(b.Body)
			continue
		}
		for name, a := range b.Body.Attributes {
			if name != "type" {
				w.meterAll(a.Expr)
			}
		}
	}
}

// meterAll meters the expressions of a file.
func (w *work) meterAll(root hclsyntax.Node) {
	_ = hclsyntax.VisitAll(root, func(node hclsyntax.Node) hcllib.Diagnostics {
		switch x := node.(type) {
		case *hclsyntax.ForExpr:
			x.KeyExpr, x.ValExpr, x.CondExpr, x.CollExpr = w.meter(x.KeyExpr), w.meter(x.ValExpr), w.meter(x.CondExpr), w.meter(x.CollExpr)
		case *hclsyntax.BinaryOpExpr:
			x.LHS, x.RHS = w.meter(x.LHS), w.meter(x.RHS)
		case *hclsyntax.FunctionCallExpr:
			for i := range x.Args {
				x.Args[i] = w.meter(x.Args[i])
			}
		case *hclsyntax.TemplateExpr:
			for i, part := range x.Parts {
				if l, ok := part.(*hclsyntax.LiteralValueExpr); !ok || l.Val.Type() != cty.String {
					x.Parts[i] = w.meter(part)
				}
			}
		}
		return nil
	})
}

// bounded are the functions whose results can be far larger than their
// arguments, each held to what result says it can be at most, in letters and
// elements.
func bounded(all map[string]function.Function) map[string]function.Function {
	for name, size := range map[string]func([]cty.Value) int{
		"indent": func(args []cty.Value) int {
			n, _ := args[0].AsBigFloat().Int64()
			return product(int(min(n, maxStep+1)), 1+strings.Count(args[1].AsString(), "\n"))
		},
		"join": func(args []cty.Value) int {
			elements := 0
			for _, list := range args[1:] {
				if list.CanIterateElements() {
					elements += list.LengthInt()
				}
			}
			return product(len(args[0].AsString()), elements)
		},
		"replace": func(args []cty.Value) int {
			return product(strings.Count(args[0].AsString(), args[1].AsString()), len(args[2].AsString()))
		},
		"regexreplace": func(args []cty.Value) int {
			text, with := args[0].AsString(), args[2].AsString()
			pattern, err := regexp.Compile(args[1].AsString())
			if err != nil {
				return 0 // the function says so
			}
			matches := len(pattern.FindAllStringIndex(text, -1))
			return product(matches, len(with)) + product(strings.Count(with, "$"), len(text))
		},
		"format":     func(args []cty.Value) int { return widths(args[0]) },
		"formatlist": func(args []cty.Value) int { return product(widths(args[0]), longest(args[1:])) },
		"setproduct": func(args []cty.Value) int {
			n := 1
			for _, set := range args {
				if set.CanIterateElements() {
					n = product(n, set.LengthInt())
				}
			}
			return product(n, len(args))
		},
	} {
		all[name] = bound(all[name], size)
	}
	return all
}

// distinct is distinct(list): each element once. cty's own compares each with
// all others.
func distinct() function.Function {
	f := stdlib.DistinctFunc
	return function.New(&function.Spec{
		Params: f.Params(), Type: f.ReturnTypeForValues,
		Impl: func(args []cty.Value, want cty.Type) (cty.Value, error) {
			if !args[0].IsWhollyKnown() || args[0].LengthInt() == 0 {
				return args[0], nil
			}
			var list []cty.Value
			seen := map[int][]cty.Value{}
			for it := args[0].ElementIterator(); it.Next(); {
				_, v := it.Element()
				hash := v.Hash()
				if slices.ContainsFunc(seen[hash], v.RawEquals) {
					continue
				}
				seen[hash] = append(seen[hash], v)
				list = append(list, v)
			}
			return cty.ListVal(list), nil
		},
	})
}

func bound(f function.Function, size func([]cty.Value) int) function.Function {
	return function.New(&function.Spec{
		Description: f.Description(), Params: f.Params(), VarParam: f.VarParam(), Type: f.ReturnTypeForValues,
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			plain := make([]cty.Value, len(args))
			for i, a := range args {
				plain[i], _ = a.UnmarkDeep()
				if !plain[i].IsWhollyKnown() || plain[i].IsNull() {
					return f.Call(args)
				}
			}
			if size(plain) > maxStep {
				return cty.NilVal, errors.New("the result would be too large")
			}
			return f.Call(args)
		},
	})
}

// product is a*b, or more than maxStep.
func product(a, b int) int {
	if a > 0 && b > maxStep/a {
		return maxStep + 1
	}
	return a * b
}

// widths is the sum of the numbers in a format.
func widths(format cty.Value) int {
	sum, n := 1, 0
	for _, c := range format.AsString() + " " {
		if c >= '0' && c <= '9' {
			n = min(10*n+int(c-'0'), maxStep+1)
			continue
		}
		sum, n = min(sum+n, maxStep+1), 0
	}
	return sum
}

// longest is the length of the longest list.
func longest(args []cty.Value) int {
	n := 1
	for _, a := range args {
		if t := a.Type(); t.IsTupleType() || t.IsListType() || t.IsSetType() {
			n = max(n, a.LengthInt())
		}
	}
	return n
}

// exhausted reports an expression that took too much, even if a try in it did
// not mind.
func (e *evaluator) exhausted(expr hclsyntax.Expression, v cty.Value) bool {
	room := maxStep
	if e.work.left > 0 {
		weigh(v, &room)
	}
	switch {
	case e.work.left <= 0 && !e.tired:
		e.tired = true
		e.error(expr.Range(), tooMuchWork, fmt.Sprintf("%s One load may do %d steps.", tooLargeHint, maxWork))
	case room < 0:
		e.error(expr.Range(), tooLarge, tooLargeHint)
	}
	return e.work.left <= 0 || room < 0
}
