package hcl

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// ref is the value of a reference to a block.
type ref struct{ kind, name string }

func (r ref) String() string { return r.kind + "." + r.name }

// refType is the type of references. One type for all kinds: which kind an
// attribute takes is checked, and told, by cordon and not by the library.
//
//nolint:gochecknoglobals // types are compared by identity, so there is one
var refType = cty.Capsule("reference", reflect.TypeFor[ref]())

// hidden marks values that must not be shown. It names where they come from.
type hidden string

// scope is what an expression may name besides what is the same everywhere.
type scope struct {
	key, value cty.Value            // of for_each; NilVal outside
	project    map[string]cty.Value // what is known of the project so far; nil outside of one
}

// evaluator evaluates expressions. For each it makes a context with only
// what that expression names: a directory of thousands of blocks costs an
// expression nothing.
type evaluator struct {
	*reporter
	names     *namespace
	variables map[string]cty.Value
	locals    map[string]cty.Value
	path      []string // locals that are being evaluated, for cycles
	said      map[reportKey]bool
	root      *hcllib.EvalContext
	work      *work
	tired     bool // told that the work is used up
}

func newEvaluator(n *namespace, r *reporter) *evaluator {
	return &evaluator{
		reporter:  r,
		names:     n,
		variables: map[string]cty.Value{},
		locals:    map[string]cty.Value{},
		said:      map[reportKey]bool{},
		root:      &hcllib.EvalContext{Functions: bounded(functions())},
		work:      &work{left: maxWork},
	}
}

// value evaluates expr. ok is false if there is no value because of an error
// that was reported, here or where the value comes from.
func (e *evaluator) value(expr hclsyntax.Expression, sc *scope) (v cty.Value, ok bool) {
	ctx, ok := e.context(expr.Variables(), sc)
	if !ok {
		return cty.DynamicVal, false
	}
	if e.work.left <= 0 {
		return cty.DynamicVal, false
	}
	v, diags := expr.Value(ctx)
	if e.exhausted(expr, v) {
		return cty.DynamicVal, false
	}
	if diags.HasErrors() {
		e.library(e.explain(diags, ctx))
		return cty.DynamicVal, false
	}
	return v, v.IsWhollyKnown()
}

// context makes the context for an expression that uses these variables. It
// reports all that don't exist.
func (e *evaluator) context(used []hcllib.Traversal, sc *scope) (*hcllib.EvalContext, bool) {
	if len(used) == 0 {
		return e.root, true
	}
	ok := true
	objects := map[string]map[string]cty.Value{}
	for _, t := range used {
		root, name, v, found := e.resolve(t, sc)
		if !found {
			ok = false
			continue
		}
		if objects[root] == nil {
			objects[root] = map[string]cty.Value{}
		}
		objects[root][name] = v
	}
	if !ok {
		return nil, false
	}
	ctx := e.root.NewChild()
	ctx.Functions = e.root.Functions // the library looks for near names here only
	ctx.Variables = make(map[string]cty.Value, len(objects))
	for root, attrs := range objects {
		ctx.Variables[root] = cty.ObjectVal(attrs)
	}
	return ctx, true
}

// resolve finds what a traversal begins with: root.name.
func (e *evaluator) resolve(t hcllib.Traversal, sc *scope) (root, name string, v cty.Value, ok bool) {
	root = t.RootName()
	fail := func(summary, detail string) (string, string, cty.Value, bool) {
		e.error(t.SourceRange(), summary, detail)
		return root, "", cty.NilVal, false
	}
	if !slices.Contains(rootNames(), root) {
		return fail(fmt.Sprintf("unknown reference %q", root), rootHint(t))
	}
	if root == "session" {
		return fail(written(t)+" is not known here", sessionHint)
	}
	step, isAttr := cty.NilVal, false
	if len(t) > 1 {
		switch s := t[1].(type) {
		case hcllib.TraverseAttr:
			step, isAttr = cty.StringVal(s.Name), true
		case hcllib.TraverseIndex:
			step, isAttr = s.Key, s.Key.Type() == cty.String
		}
	}
	if !isAttr {
		return fail(fmt.Sprintf("%s without a name", root), fmt.Sprintf("Write %s.NAME.", root))
	}
	name = step.AsString()
	if isReferable(root) && len(t) > 2 {
		return fail(written(t)+" can't be looked into", fmt.Sprintf("A reference stands for the block as a whole: write %s.%s.", root, name))
	}
	v, known, failed := e.lookup(root, name, sc)
	switch {
	case failed:
		return root, name, cty.NilVal, false
	case v == cty.NilVal:
		return fail(fmt.Sprintf("unknown reference %s.%s", root, name), notFoundHint(root, name, known))
	}
	return root, name, v, true
}

// lookup returns the value of root.name, or NilVal and the names there are.
// failed tells that it exists and has no value because of an error.
func (e *evaluator) lookup(root, name string, sc *scope) (v cty.Value, known []string, failed bool) {
	switch root {
	case "var":
		if v, ok := e.variables[name]; ok {
			return v, nil, v == cty.DynamicVal
		}
		known = slices.Collect(maps.Keys(e.names.variables))
	case "local":
		if e.names.locals[name] != nil {
			v, ok := e.local(name)
			return v, nil, !ok
		}
		known = slices.Collect(maps.Keys(e.names.locals))
	case "each":
		return lookupEach(name, sc)
	case "project":
		if v, ok := sc.of(name); ok {
			return v, nil, !v.IsKnown()
		}
		known = slices.Collect(maps.Keys(sc.projectNames()))
	default:
		if e.names.blocks[root][name] != nil {
			v := cty.CapsuleVal(refType, &ref{root, name})
			if root == "secret" {
				v = v.Mark(hidden("secret." + name))
			}
			return v, nil, false
		}
		known = e.names.labels(root)
	}
	return cty.NilVal, known, e.names.mayExist(root, name)
}

func lookupEach(name string, sc *scope) (cty.Value, []string, bool) {
	switch {
	case sc == nil || sc.key == cty.NilVal:
		return cty.NilVal, nil, false
	case name == "key":
		return sc.key, nil, false
	case name == "value":
		return sc.value, nil, false
	}
	return cty.NilVal, []string{"key", "value"}, false
}

func (sc *scope) projectNames() map[string]cty.Value {
	if sc == nil {
		return nil
	}
	return sc.project
}

func (sc *scope) of(name string) (cty.Value, bool) {
	v, ok := sc.projectNames()[name]
	return v, ok
}

// maxLocals bounds how many locals may be evaluated for the sake of one
// another: evaluation recurses.
const maxLocals = 5_000

// local evaluates a local once.
func (e *evaluator) local(name string) (cty.Value, bool) {
	if v, ok := e.locals[name]; ok {
		return v, v.IsWhollyKnown()
	}
	a := e.names.locals[name]
	if i := slices.Index(e.path, name); i >= 0 {
		e.error(a.NameRange, "locals that need each other", "local."+strings.Join(append(e.path[i:len(e.path):len(e.path)], name), " → local."))
		for _, member := range e.path[i:] {
			e.locals[member] = cty.DynamicVal
		}
		return cty.DynamicVal, false
	}
	if len(e.path) >= maxLocals {
		e.error(a.NameRange, "too long a chain of locals", fmt.Sprintf("Each needs the next, for more than %d of them.", maxLocals))
		return cty.DynamicVal, false
	}
	e.path = append(e.path, name)
	v, ok := e.value(a.Expr, nil)
	room := maxValue
	if weigh(v, &room); ok && room < 0 {
		e.error(a.Expr.Range(), fmt.Sprintf("the value of local.%s is too large", name), fmt.Sprintf("It has more than %d letters and elements.", maxValue))
		v = cty.DynamicVal
	}
	e.path = e.path[:len(e.path)-1]
	if _, cyclic := e.locals[name]; cyclic {
		v = cty.DynamicVal
	}
	e.locals[name] = v
	return v, v.IsWhollyKnown()
}

// maxValue bounds a local's letters and elements together. Locals that double
// one another would else need all memory after forty lines.
const maxValue = 100_000

// weigh takes the letters and elements of v off room, until that is used up.
func weigh(v cty.Value, room *int) {
	v, _ = v.Unmark()
	*room--
	switch {
	case *room < 0 || v.IsNull() || !v.IsKnown():
	case v.Type() == cty.String:
		*room -= len(v.AsString())
	case v.Type() == cty.Number:
		if exponent := v.AsBigFloat().MantExp(nil); exponent > maxExponent || exponent < -maxExponent {
			*room = -1
		}
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next() && *room >= 0; {
			_, element := it.Element()
			weigh(element, room)
		}
	}
}
