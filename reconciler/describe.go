package reconciler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxDescribed bounds a description, in bytes.
const maxDescribed = 1000

// Describe tells in one line what differs between c's Before and After: which
// attributes, and how. It is "" when one of them is nil.
func (c Change) Describe() string {
	if c.Before == nil || c.After == nil {
		return ""
	}
	x, err := attributes(c.Before)
	if err != nil {
		return ""
	}
	y, err := attributes(c.After)
	if err != nil {
		return ""
	}
	before, after := flatten(x), flatten(y)
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		(Style{}).attribute(&b, k, before[k], after[k])
	}
	return shorten(strings.Join(strings.Fields(b.String()), " "))
}

// shorten cuts s between two runes, and says so.
func shorten(s string) string {
	if len(s) <= maxDescribed {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(s[:maxDescribed], ""), len(s)-maxDescribed)
}
