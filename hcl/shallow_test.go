package hcl

import (
	"strings"
	"testing"
)

// What would take the parser deep is looked at first.
func TestShallow(t *testing.T) {
	for _, level := range []string{"(", "[", "{a=", "a {\n", "\"${", "\"%{if ", "!", "-", "a?", "a?b:", "a(", "[for a in "} {
		if n := maxNesting; !shallow([]byte(strings.Repeat(level, n))) || shallow([]byte(strings.Repeat(level, n+1))) {
			t.Errorf("%q", level)
		}
	}
	if !shallow(make([]byte, maxShort)) || shallow(make([]byte, maxShort+1)) {
		t.Error("a long file is one too, or the longest short one is none")
	}
}
