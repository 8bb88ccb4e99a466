package hcl_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/hcl"
)

// Whatever stands in a file: its evaluation ends soon, with an error, and needs
// little memory.
func TestNothingHoldsUpALoad(t *testing.T) {
	loop := func(n int, inner string) string {
		for range n {
			inner = "[for x in local.l : " + inner + "]"
		}
		return inner
	}
	nest := func(n int, outer string) string {
		inner := "local.t"
		for range n {
			inner = strings.ReplaceAll(outer, "IN", inner)
		}
		return inner
	}
	for name, expr := range map[string]string{
		"indent":       `indent(2000000000, "x")`,
		"indent lines": `indent(90000, join("\n", local.l))`,
		"width":        `format("%2000000000d", 1)`,
		"precision":    `format("%.2000000000f", 1)`,
		"formatlist":   `formatlist("%900000d", local.l)`,
		"join":         `join(local.t, local.l)`,
		"replace":      `replace(local.t, "", local.t)`,
		"regexreplace": `regexreplace(local.t, "x", local.t)`,
		"groups":       `regexreplace(local.t, "(?s)(.*)", "` + strings.Repeat("$${1}", 2_000) + `")`,
		"setproduct":   `setproduct(local.l, local.l, local.l, local.l)`,
		"distinct":     `[for x in local.l : distinct(local.l)]`,
		"loops":        loop(4, "1"),
		"loops, range": strings.ReplaceAll(loop(4, "1"), "local.l", "range(1024)"),
		"conditions":   `[for a in local.l : 1 if length([for b in local.l : 1 if length([for c in local.l : c if c == a]) == 7]) == 7]`,
		"keys":         `{ for a in local.l : "${a}${length([for b in local.l : length([for c in local.l : c])])}" => a }`,
		"texts":        `"` + strings.Repeat("${local.t}", 2_000) + `"`,
		"text loops":   `[for a in local.l : [for b in local.l : "${local.t}${b}"]]`,
		"try":          `try(` + loop(4, "1") + `, 1)`,
		"can":          `can(` + loop(4, "1") + `)`,
		"tries":        nest(60, `try(IN, 1)`),
		"escapes":      nest(60, `jsonencode(IN)`),
		"number":       `"${1e600000000}"`,
		"numbers":      nest(40, `(IN)`) + ` == "" ? "" : "${1e1000 * 1e1000 * 1e1000}"`,
		"plain number": `1e600000000`,
	} {
		t.Run(name, func(t *testing.T) {
			src := "sandbox \"s\" {}\nlocals {\n  l = range(1024)\n  t = join(\"\", [for x in range(1000) : \"\\\"xxxxxxxxx\"])\n  bad = " + expr + "\n}\n"
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			begun := processorTime(t)
			_, diags := hcl.LoadFiles(filesOf("a.hcl", src), hcl.Options{})
			took := processorTime(t) - begun
			runtime.ReadMemStats(&after)
			if !diags.HasErrors() {
				t.Error("no error")
			}
			if allocated := after.Sys - before.Sys; took > 20*time.Second || allocated > 300<<20 {
				t.Errorf("%s, %d MiB: %v", took, allocated>>20, diags.Err())
			}
		})
	}
}
