// Package hcl reads a directory of HCL files into a [specs.Set].
//
// [Load] takes all *.hcl files that lie directly in a directory (not those in
// directories below it, nor those whose name begins with a dot) as one
// namespace: in which file a block stands, and in which order, makes no
// difference. What is wrong comes back as [Diagnostics], all of it at once,
// in the order of the files. The language is described in LANGUAGE.md.
//
// A Set comes out only if there was no error. The steps, each in a file of
// its own:
//
//	source.go     bytes: size, kind of file
//	parse.go      UTF-8, nesting, syntax
//	namespace.go  names of all blocks, duplicates
//	schema.go     which attributes and blocks there are
//	variable.go   values of variables, from where the caller says
//	eval.go       one expression: its references, its value
//	body.go, list.go, reference.go, template.go, values.go
//	              one attribute: from a value to a Go type
//	blocks.go, proxy.go, sandbox.go, project.go
//	              one block: from attributes to specs
//	load.go       the order of it all, and the rules of package specs
//	text.go, json.go   the diagnostics, for people and for programs
//
// # References
//
// A reference to a block (network.llm-only) is a value that knows the kind
// and the name, not the block's content. So blocks can be read in any order,
// and a block with an error in it makes no errors elsewhere. A value that
// could not be had because of an error is an unknown one, and what depends on
// it is silently skipped: each mistake is told once.
//
// # extends
//
// A sandbox that extends another is read from the bodies of both, and of all
// that the other extends: a list is the base's elements followed by its own,
// each kept once; any other attribute is its own if it has one, else the
// base's; blocks within are merged by their label in the same way. There is
// no way to take an element out of a list.
//
// # Session values
//
// session.… is known only when a session starts. Where it is allowed the
// result is a [specs.Template].
//
// This is the only package that imports the HCL library.
package hcl
