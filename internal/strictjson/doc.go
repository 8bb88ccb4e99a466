// Package strictjson walks a JSON text (RFC 8259) in which every reader must
// find the same values. What readers disagree on is an error: names that
// occur twice in an object, text that is not UTF-8, lone surrogates, a byte
// order mark, more than one value.
//
// It is for policy: to look at a text that is then handed on byte for byte to
// a parser of someone else's.
package strictjson
