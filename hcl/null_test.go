package hcl_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

// What is null is left out: whichever attribute of the language it is, the
// Set is the one without it, or there is an error in the same block.
func TestNullIsLeftOut(t *testing.T) {
	src, err := os.ReadFile("testdata/full.hcl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(src), "\n")
	attribute := regexp.MustCompile(`^( *([a-z_]+) *= )[^#]*`)
	more := "variable \"nothing\" { default = null }\nlocals {\n  nothing = null\n}\n"
	seen := 0
	for i, line := range lines {
		m := attribute.FindStringSubmatch(line)
		if m == nil || m[2] == "for_each" || m[2] == "type" || m[2] == "default" || m[2] == "safe" {
			continue
		}
		seen++
		load := func(line string) (digest string, addresses string, place int) {
			with := append([]string{}, lines...)
			with[i] = line
			set, diags := hcl.LoadFiles(filesOf("a.hcl", more, "full.hcl", strings.Join(with, "\n")), hcl.Options{})
			for _, d := range diags {
				addresses += d.Address + " "
				if strings.Contains(d.Summary, " lacks ") {
					place = d.Range.Line
				}
			}
			return set.Digest(), addresses, place
		}
		digest, addresses, _ := load("")
		for _, null := range []string{"null", "(null)", "true ? null : null", "local.nothing", "var.nothing", `"${null}"`, `"${local.nothing}"`, `try(null, "x")`, `{ a = null }.a`} {
			if m[2] == "description" || m[2] == "sensitive" {
				if null == "local.nothing" || null == `"${local.nothing}"` || null == "var.nothing" {
					continue // variables are there before locals
				}
			}
			got, where, place := load(m[1] + null)
			if got != digest || where != addresses {
				t.Errorf("line %d, %s as %s: errors in %q; left out they are in %q", i+1, m[2], null, where, addresses)
			}
			if place > i+1 {
				t.Errorf("line %d, %s as %s: the error is at line %d", i+1, m[2], null, place)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d attributes", seen)
	}
}

// A null of a sandbox's own leaves what its base says.
func TestNullLeavesTheBase(t *testing.T) {
	const base = `network "n" { pool = "10.1.0.0/16" }
sandbox "base" {
  abstract = true
  command  = ["a"]
  network  = network.n
  grace    = "3s"
  filesystem {
    programs = ["/bin/a"]
    bind "/work" { from = "/srv/a" }
  }
}
`
	want := mustLoad(t, hcl.Options{}, "a.hcl", base+`sandbox "s" { extends = sandbox.base }`)
	got := mustLoad(t, hcl.Options{}, "a.hcl", base+`sandbox "s" {
  extends  = sandbox.base
  abstract = null
  command  = null
  network  = null
  grace    = null
  filesystem {
    programs = null
    bind "/work" { from = null }
  }
}`)
	if got.Digest() != want.Digest() {
		t.Error("another sandbox")
	}
	if set := mustLoad(t, hcl.Options{}, "a.hcl", base+`sandbox "s" { extends = null }`); len(set.Sandboxes) != 1 {
		t.Error("the sandbox is gone")
	}
}

// One of many projects may lack what the others have.
func TestNullOfOneElement(t *testing.T) {
	_, diags := hcl.LoadFiles(filesOf("a.hcl", `project "p" {
  for_each  = { a = "/srv/a", b = null }
  directory = each.value
}
`), hcl.Options{})
	if got := text(t, diags); !strings.HasPrefix(got, `a.hcl:3:15: error: project "p" lacks directory`) {
		t.Error(got)
	}
}
