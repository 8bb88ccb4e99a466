package hcl_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

// A rule that is about one element of a list points at that element, the
// later of two.
func TestElementIsMarked(t *testing.T) {
	src := "proxy \"p\" {\n  port = 1\n  upstream = \"https://a.example\"\n}\nnetwork \"n\" {\n  pool = \"10.1.0.0/16\"\n  allow = [proxy.p, proxy.p]\n}\n"
	_, diags := hcl.LoadFiles(filesOf("a.hcl", src), hcl.Options{})
	if len(diags) != 1 || diags[0].Range.Line != 7 || diags[0].Range.Column != 21 || diags[0].Address != "network.n" {
		t.Errorf("%+v", diags)
	}
}

// A report does not repeat a line of a megabyte for each error in it.
func TestLongLineHasNoSnippet(t *testing.T) {
	_, diags := hcl.LoadFiles(filesOf("a.hcl", "sandbox \"s\" { x = \""+strings.Repeat("a", 1_000)+"\" }\n"), hcl.Options{})
	b, err := json.Marshal(diags)
	if err != nil || len(diags) != 1 || strings.Contains(string(b), "snippet") {
		t.Error(string(b), err)
	}
}
