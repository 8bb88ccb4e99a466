package hcl_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

func TestTry(t *testing.T) {
	s, d := hcl.Load(os.Getenv("EX"), hcl.Options{})
	d.WriteText(os.Stdout, false)
	b, _ := json.MarshalIndent(s, "", " ")
	os.Stdout.Write(b)
}

func BenchmarkTry(b *testing.B) {
	for b.Loop() {
		hcl.Load(os.Getenv("EX"), hcl.Options{})
	}
}
