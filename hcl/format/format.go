// Package format puts files into the canonical layout. It stands apart from
// what reads them: the library that it takes initialises more than a session's
// start does all in all.
package format

import (
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/aicodesit/cordon/hcl"
)

// Source returns src in the canonical style: indentation, alignment and
// spacing; nothing else is changed. What does not parse is not formatted:
// then the result is nil and the diagnostics, whose ranges name the file
// name, tell why.
func Source(name string, src []byte) ([]byte, hcl.Diagnostics) {
	if diags := hcl.CheckSyntax(name, src); len(diags) > 0 {
		return nil, diags
	}
	return hclwrite.Format(src), nil
}
