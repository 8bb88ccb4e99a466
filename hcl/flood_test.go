package hcl_test

import (
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

// A file with more errors than anybody reads says how many there are.
func TestFlood(t *testing.T) {
	for name, src := range map[string]string{
		"syntax": strings.Repeat("a = 1\n", 5_001),
		"blocks": strings.Repeat("nothing {}\n", 5_000),
		"locals": "locals {\n" + strings.Repeat("b {}\n", 5_000) + "}\n",
	} {
		_, diags := hcl.LoadFiles(filesOf("a.hcl", src, "b.hcl", "sandbox \"s\" {}\n"), hcl.Options{})
		last := diags[len(diags)-1]
		if len(diags) != 1_001 || last.Summary != "4000 more errors" {
			t.Errorf("%s: %d, the last %+v", name, len(diags), last)
		}
	}
}
