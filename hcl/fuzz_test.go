package hcl_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/hcl/format"
	"github.com/aicodesit/cordon/specs"
)

// seeds adds all HCL of the repository.
func seeds(f *testing.F) {
	f.Helper()
	for _, pattern := range []string{"../examples/*/*.hcl", "testdata/*.hcl", "testdata/invalid/*.hcl"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			f.Fatal(pattern, err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Add([]byte("locals {\n a = <<EOT\n${[\nEOT\n}\n"))
	f.Add([]byte("\xef\xbb\xbfsandbox \"s\" {}"))
	f.Add([]byte("sandbox \"s\" { command = [for x in [session.id] : x] }"))
	f.Add([]byte("secret \"a\" {\n env = \"A\"\n}\nlocals {\n a = { (secret.a) = 1 }\n b = secret.a == secret.a\n c = [for k, v in { a = secret.a } : v]\n d = \"${b ? secret.a : \"x\"}\"\n e = toset([secret.a])\n}\n"))
}

// Whatever the bytes: no crash, a Set or errors and never both, ranges that
// lie in the file, and what loads also loads formatted, to the same Set.
func FuzzLoad(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		set, diags := hcl.LoadFiles([]hcl.File{{Name: "f.hcl", Bytes: src}}, hcl.Options{})
		var out strings.Builder
		if err := diags.WriteText(&out, false); err != nil {
			t.Fatal(err)
		}
		if _, err := diags.MarshalJSON(); err != nil {
			t.Fatal(err)
		}
		for i, d := range diags {
			if i == len(diags)-1 && strings.HasSuffix(d.Summary, " more errors") {
				continue // of no place
			}
			if r := d.Range; r.Byte < 0 || r.Byte > len(src) || r.File != "f.hcl" || d.Summary == "" {
				t.Errorf("%+v", d)
			}
		}
		if diags.HasErrors() {
			if set.Digest() != (specs.Set{}).Digest() {
				t.Error("a Set came out in spite of errors")
			}
			return
		}
		if len(set.Check()) > 0 {
			t.Error(set.Check())
		}
		formatted, diags := format.Source("f.hcl", src)
		if diags.HasErrors() {
			t.Fatal("loads and is not formatted")
		}
		again, diags := hcl.LoadFiles([]hcl.File{{Name: "f.hcl", Bytes: formatted}}, hcl.Options{})
		if diags.HasErrors() || again.Digest() != set.Digest() {
			t.Errorf("formatted it is another Set: %v\n%s", diags.Err(), formatted)
		}
	})
}

func FuzzFormat(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		once, diags := format.Source("f.hcl", src)
		if diags.HasErrors() {
			if once != nil {
				t.Error("formatted in spite of errors")
			}
			return
		}
		twice, diags := format.Source("f.hcl", once)
		if diags.HasErrors() || !bytes.Equal(once, twice) {
			t.Errorf("%v\nonce:\n%q\ntwice:\n%q", diags.Err(), once, twice)
		}
	})
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"512MiB", "0", "9223372036854775807", "9007199254740992KiB", "1 GB", "-1", "1.5GiB", "٣MB", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := hcl.ParseSize(s)
		if (err == nil) != (n > 0) {
			t.Errorf("%q is %d, %v", s, n, err)
		}
	})
}

func FuzzPercent(f *testing.F) {
	for _, s := range []string{"80%", "0%", "100001%", "%", "1e3%", "80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := hcl.ParsePercent(s)
		if (err == nil) != (n > 0) || n > 100_000 {
			t.Errorf("%q is %d, %v", s, n, err)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"4h", "-1s", "0s", "1h30m", "5", "9999999999h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := hcl.ParseDuration(s)
		if (err == nil) != (d > 0) {
			t.Errorf("%q is %s, %v", s, d, err)
		}
	})
}
