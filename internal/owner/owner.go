// Package owner is cordon's mark: how a thing on the host or in a database
// shows that cordon made it and may change or remove it. Names that begin
// with a prefix are marks only in namespaces that cordon has for itself
// (specs.ChainPrefix, specs.SetPrefix); everywhere else the mark is on the thing.
package owner

import "strings"

// mark begins ifaliases of links, comments of rules and of database objects.
const mark = "cordon:"

// Mark returns the text that stands on a thing of the given address.
func Mark(addr string) string { return mark + addr }

// Addr returns the address in a mark, and whether text is a mark at all.
func Addr(text string) (string, bool) { return strings.CutPrefix(text, mark) }
