package hcl

import (
	"maps"
	"slices"
)

// Word is an attribute or a block of the language, and the block at the top
// that it belongs to.
type Word struct{ Block, Name string }

// SchemaWords are all words of the language.
func SchemaWords() []Word {
	var all []Word
	for _, kind := range blockKinds() {
		all = append(all, wordsOf(kind, schemaOf(kind))...)
	}
	return all
}

func wordsOf(block string, s *schema) []Word {
	var all []Word
	for _, a := range s.attributes() {
		all = append(all, Word{block, a})
	}
	for _, in := range s.blocks {
		all = append(all, Word{block, in.kind})
		all = append(all, wordsOf(block, &in.schema)...)
	}
	return all
}

// FunctionNames are the functions that expressions may call.
func FunctionNames() []string { return slices.Sorted(maps.Keys(functions())) }

// The parsers of values, for fuzzing.
var (
	ParseSize     = parseSize
	ParsePercent  = parsePercent
	ParseDuration = parseDuration
	ParsePrefix   = parsePrefix
)
