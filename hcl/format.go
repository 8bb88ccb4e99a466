package hcl

import (
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format returns src in the canonical style: indentation, alignment and
// spacing; nothing else is changed. What does not parse is not formatted:
// then the result is nil and the diagnostics, whose ranges name the file
// name, tell why.
func Format(name string, src []byte) ([]byte, Diagnostics) {
	r := &reporter{}
	s := &source{name: name, bytes: src}
	if body, _ := parseBytes(s, r); body == nil {
		return nil, r.finish([]*source{s})
	}
	return hclwrite.Format(src), nil
}
