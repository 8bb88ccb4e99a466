package hcl

import (
	"fmt"
	"sync"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// maxNesting bounds how deep expressions and blocks may be nested. The
// parser and the evaluation recurse, and a stack that overflows ends the
// process.
const maxNesting = 250

// maxShort is how long a file may be, in bytes, that is parsed while it is looked
// at: to parse a long chain of operators or splats for nothing takes seconds.
const maxShort = 16 << 10

// shallow tells that a file is short, and that nothing in it can make the parser
// descend deeper than maxNesting: such a one is parsed while it is looked at. The
// parser takes 10 KB of stack for each level, and all files are parsed at once.
func shallow(text []byte) bool {
	if len(text) > maxShort {
		return false
	}
	opens := 0
	for _, b := range text {
		switch b {
		case '(', '[', '{', '!', '-', '?':
			opens++
		}
	}
	return opens <= maxNesting
}

// block is a block at the top of a file.
type block struct {
	syntax *hclsyntax.Block
	body   *hclsyntax.Body
	kind   string
	label  string // "" if the kind has none
}

func (b *block) address() string {
	if b.label == "" {
		return b.kind
	}
	return b.kind + "." + b.label
}

// parsedFile is one file as it came out of the parser.
type parsedFile struct {
	*source
	body     *hclsyntax.Body  // nil if there was an error
	tokens   hclsyntax.Tokens // nil if it is not UTF-8
	reporter reporter
}

// parseAll parses the files side by side: that takes most of the time of a load.
func parseAll(files []File) []parsedFile {
	parsed := make([]parsedFile, len(files))
	var all sync.WaitGroup
	for i, f := range files {
		p := &parsed[i]
		p.source = &source{name: f.Name, bytes: f.Bytes}
		all.Go(func() { p.body, p.tokens = parseBytes(p.source, &p.reporter) })
	}
	all.Wait()
	return parsed
}

// declare takes up what a file declares. Of a file with a syntax error that
// is only the names, so that they can still be referred to.
func (p *parsedFile) declare(n *namespace, r *reporter) {
	for _, d := range p.reporter.list {
		r.report(d)
	}
	r.dropped += p.reporter.dropped
	if p.tokens == nil {
		n.incomplete = true
	}
	if p.body == nil {
		n.scanNames(p.tokens)
		return
	}
	for _, a := range sortedAttributes(p.body) {
		r.error(a.NameRange, fmt.Sprintf("attribute %q outside of any block", a.Name),
			"At the top of a file there are blocks only. "+valuesHint(a.Name))
	}
	for _, b := range p.body.Blocks {
		if added := n.add(b, r); added != nil {
			p.blocks = append(p.blocks, added)
		}
	}
}

func valuesHint(name string) string {
	return fmt.Sprintf("A value of your own goes into locals { %s = … }; values of variables go into a file that is named with --var-file.", name)
}

// parseBytes parses s unless it is not UTF-8 (then there are no tokens
// either) or nested too deep. The body is nil if there was an error.
func parseBytes(s *source, r *reporter) (*hclsyntax.Body, hclsyntax.Tokens) {
	if at := invalidUTF8(s.bytes); at >= 0 {
		r.report(Diagnostic{
			Severity: Error, Summary: "not UTF-8", Range: s.rangeAt(at),
			Detail: fmt.Sprintf("Byte 0x%02x at offset %d is not part of a UTF-8 character. Save the file in UTF-8.", s.bytes[at], at),
		})
		return nil, nil
	}
	reportInvisible(s, r)
	start := hcllib.Pos{Line: 1, Column: 1}
	var tokens hclsyntax.Tokens
	var deep *hclsyntax.Token
	look := func() {
		tokens, _ = hclsyntax.LexConfig(s.bytes, s.name, start)
		deep = tooDeep(tokens)
	}
	var file *hcllib.File
	var diags hcllib.Diagnostics
	parse := func() { file, diags = hclsyntax.ParseConfig(s.bytes, s.name, start) }
	if shallow(s.bytes) {
		var both sync.WaitGroup
		both.Go(look)
		parse()
		both.Wait()
	} else if look(); deep == nil {
		parse()
	}
	if deep != nil {
		r.error(deep.Range, "nested too deep", fmt.Sprintf("Blocks, brackets and operators may be nested %d deep.", maxNesting))
		return nil, tokens
	}
	r.library(diags)
	if diags.HasErrors() {
		return nil, tokens
	}
	return file.Body.(*hclsyntax.Body), tokens //nolint:forcetypeassert // documented for ParseConfig
}

// tooDeep returns the token at which the depth of the syntax tree could
// exceed maxNesting, or nil. An operator, an index and a template's control
// count as a level until their expression ends, because chains of them make
// deep trees as brackets do.
func tooDeep(tokens hclsyntax.Tokens) *hclsyntax.Token {
	type level struct {
		closer hclsyntax.TokenType
		chain  int
	}
	stack := []level{{closer: hclsyntax.TokenEOF}}
	depth := 0
	for i := range tokens {
		t := tokens[i].Type
		top := &stack[len(stack)-1]
		switch {
		case t == top.closer && len(stack) > 1:
			depth -= 1 + top.chain
			stack = stack[:len(stack)-1]
			continue
		case t == hclsyntax.TokenComma, t == hclsyntax.TokenNewline && (top.closer == hclsyntax.TokenCBrace || len(stack) == 1):
			depth -= top.chain
			top.chain = 0
			continue
		}
		if chains(t) {
			top.chain++
			depth++
		}
		if closer, opens := closerOf(t); opens {
			stack = append(stack, level{closer: closer})
			depth++
		}
		if depth > maxNesting {
			return &tokens[i]
		}
	}
	return nil
}

func closerOf(t hclsyntax.TokenType) (hclsyntax.TokenType, bool) {
	switch t {
	case hclsyntax.TokenOBrace:
		return hclsyntax.TokenCBrace, true
	case hclsyntax.TokenOBrack:
		return hclsyntax.TokenCBrack, true
	case hclsyntax.TokenOParen:
		return hclsyntax.TokenCParen, true
	case hclsyntax.TokenOQuote:
		return hclsyntax.TokenCQuote, true
	case hclsyntax.TokenOHeredoc:
		return hclsyntax.TokenCHeredoc, true
	case hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		return hclsyntax.TokenTemplateSeqEnd, true
	}
	return hclsyntax.TokenNil, false
}

func chains(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenPercent,
		hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenBang,
		hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq,
		hclsyntax.TokenQuestion, hclsyntax.TokenOBrack, hclsyntax.TokenTemplateControl:
		return true
	}
	return false
}

// CheckSyntax returns what keeps src from being parsed, with ranges that name
// the file name; nothing when nothing does.
func CheckSyntax(name string, src []byte) Diagnostics {
	r := &reporter{}
	s := &source{name: name, bytes: src}
	if body, _ := parseBytes(s, r); body == nil {
		return r.finish([]*source{s})
	}
	return nil
}
