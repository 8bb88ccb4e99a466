package hcl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// namespace is all that the files declare, by name.
type namespace struct {
	blocks    map[string]map[string]*block // kind → label → block
	order     []*block                     // as in the files
	variables map[string]*block
	locals    map[string]*hclsyntax.Attribute

	// phantom has "kind.label" of what stands in files that did not parse,
	// and in blocks with an unusable name.
	phantom map[string]bool
	// incomplete is set when a file could not be read at all: then a name
	// that is not found may well be declared.
	incomplete bool
}

func newNamespace() *namespace {
	return &namespace{
		blocks:    map[string]map[string]*block{},
		variables: map[string]*block{},
		locals:    map[string]*hclsyntax.Attribute{},
		phantom:   map[string]bool{},
	}
}

// add takes a block up, or reports why it can't.
func (n *namespace) add(syntax *hclsyntax.Block, r *reporter) *block {
	s := schemaOf(syntax.Type)
	if s == nil {
		r.error(syntax.TypeRange, fmt.Sprintf("unknown block %q", syntax.Type), didYouMean(syntax.Type, blockKinds()))
		return nil
	}
	label, ok := labelOf(syntax, s, r)
	if !ok {
		return nil
	}
	b := &block{syntax: syntax, body: syntax.Body, kind: syntax.Type, label: label}
	switch b.kind {
	case "locals":
		n.addLocals(b, r)
		return b
	case "variable":
		if first := n.variables[label]; first != nil {
			r.error(syntax.DefRange(), fmt.Sprintf("duplicate variable %q", label), "It is declared at "+at(first.syntax.DefRange())+".")
			return b
		}
		n.variables[label] = b
		return b
	}
	if !checkName(b, r) {
		n.phantom[b.address()] = true
		return b
	}
	if first := n.blocks[b.kind][label]; first != nil {
		r.error(syntax.DefRange(), fmt.Sprintf("duplicate %s %q", b.kind, label),
			"It is declared at "+at(first.syntax.DefRange())+". All files of the directory are one namespace; give one of the two another name.")
		return b
	}
	if n.blocks[b.kind] == nil {
		n.blocks[b.kind] = map[string]*block{}
	}
	n.blocks[b.kind][label] = b
	n.order = append(n.order, b)
	return b
}

func (n *namespace) addLocals(b *block, r *reporter) {
	for _, a := range sortedAttributes(b.body) {
		if first := n.locals[a.Name]; first != nil {
			r.error(a.NameRange, fmt.Sprintf("duplicate local %q", a.Name), "It is defined at "+at(first.NameRange)+".")
			continue
		}
		n.locals[a.Name] = a
	}
	for _, inner := range b.body.Blocks {
		r.error(inner.TypeRange, "block inside locals", fmt.Sprintf("Locals are values: write %s = { … }.", inner.Type))
	}
}

// labelOf returns the one label that a block of schema s has, or "".
func labelOf(b *hclsyntax.Block, s *schema, r *reporter) (string, bool) {
	switch {
	case s.label == "" && len(b.Labels) > 0:
		r.error(b.LabelRanges[0], fmt.Sprintf("%s has no name", b.Type), fmt.Sprintf("Write %s { … }.", b.Type))
		return "", false
	case s.label != "" && len(b.Labels) == 0:
		r.error(b.TypeRange, fmt.Sprintf("%s without its %s", b.Type, s.label), fmt.Sprintf("Write %s %q { … }.", b.Type, strings.ToUpper(s.label)))
		return "", false
	case len(b.Labels) > 1:
		r.error(b.LabelRanges[1], fmt.Sprintf("%s with more than one label", b.Type), fmt.Sprintf("It has a %s only.", s.label))
		return "", false
	case s.label == "":
		return "", true
	}
	return b.Labels[0], seen(b.Labels[0], b.LabelRanges[0], r)
}

// checkName holds names to the letters that every system they end up in
// takes, and that can be written in a reference.
func checkName(b *block, r *reporter) bool {
	if validName(b.label) {
		return true
	}
	detail := "Names are made of a-z, 0-9, _ and -, and begin with a letter."
	if s := nearName(b.label); s != "" {
		detail += fmt.Sprintf(" Did you mean %q?", s)
	}
	r.error(b.syntax.LabelRanges[0], fmt.Sprintf("%s %q is not a usable name", b.kind, b.label), detail)
	return false
}

func validName(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '_' || c == '-')) {
			return false
		}
	}
	return s != ""
}

// nearName is the valid name that looks most like s, or "".
func nearName(s string) string {
	var out strings.Builder
	for _, c := range strings.ToLower(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-':
			out.WriteRune(c)
		case c == ' ' || c == '.' || c == '/' || c == ':':
			out.WriteByte('-')
		default:
			return ""
		}
	}
	near := strings.TrimLeft(out.String(), "-_0123456789")
	if !validName(near) {
		return ""
	}
	return near
}

// scanNames takes up what the tokens of a file that did not parse seem to
// declare: type "label" { and name =.
func (n *namespace) scanNames(tokens hclsyntax.Tokens) {
	for i := range tokens {
		if tokens[i].Type != hclsyntax.TokenIdent {
			continue
		}
		name := string(tokens[i].Bytes)
		if i+1 < len(tokens) && tokens[i+1].Type == hclsyntax.TokenEqual {
			n.phantom["local."+name] = true
		}
		if i+2 < len(tokens) && tokens[i+1].Type == hclsyntax.TokenOQuote && tokens[i+2].Type == hclsyntax.TokenQuotedLit {
			if name == "variable" {
				name = "var"
			}
			n.phantom[name+"."+string(tokens[i+2].Bytes)] = true
		}
	}
}

// mayExist tells whether a name that was not found may be declared where
// cordon could not read it.
func (n *namespace) mayExist(kind, name string) bool {
	return n.incomplete || n.phantom[kind+"."+name]
}

func (n *namespace) labels(kind string) []string {
	return slices.Sorted(maps.Keys(n.blocks[kind]))
}

// at is a place as it is named within a sentence.
func at(r hcllib.Range) string {
	return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line)
}

// sortedAttributes are the attributes of a body as in the file.
func sortedAttributes(b *hclsyntax.Body) []*hclsyntax.Attribute {
	list := slices.Collect(maps.Values(b.Attributes))
	slices.SortFunc(list, func(a, b *hclsyntax.Attribute) int {
		return a.NameRange.Start.Byte - b.NameRange.Start.Byte
	})
	return list
}
