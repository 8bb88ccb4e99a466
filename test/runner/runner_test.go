package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Why a test failed is also the last thing said, whatever else was run after it.
func TestSaysLastWhyItFailed(t *testing.T) {
	var out bytes.Buffer
	tally := newTally(&out)
	tally.add(event{Action: "output", Package: "x", Test: "TestA", Output: strings.Repeat("noise\n", 2*again) + "why\n"})
	tally.add(event{Action: "fail", Package: "x", Test: "TestA"})
	tally.add(event{Action: "fail", Package: "x"})
	tally.add(event{Action: "pass", Package: "y", Test: "TestB", Elapsed: 2 * slow})
	tally.add(event{Action: "pass", Package: "y"})
	tally.summary()
	_, end, _ := strings.Cut(out.String(), "slow:")
	if noise := strings.Count(end, "noise"); noise != again-1 || !strings.HasSuffix(end, "noise\nwhy\n1 passed, 1 failed\n") {
		t.Errorf("%d lines of noise in %q", noise, end)
	}
}

func TestSaysHowItEnded(t *testing.T) {
	const (
		good = "package x\nimport \"testing\"\nfunc TestGood(t *testing.T) { t.Run(\"sub\", func(*testing.T) {}) }\n"
		bad  = "package x\nimport \"testing\"\nfunc TestBad(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"why\") }) }\n"
		skip = "package x\nimport \"testing\"\nfunc TestSkip(t *testing.T) { t.Skip(\"reason\") }\n"
		dies = "package x\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { println(\"last words\"); os.Exit(3) }\nfunc TestNever(*testing.T) {}\n"
		exit = "package x\nimport (\"os\"; \"testing\")\nfunc TestExits(t *testing.T) { t.Log(\"so far\"); os.Exit(0) }\n"
	)
	tests := []struct {
		name string
		file map[string]string
		code int
		last string
		says []string
	}{
		{"pass", map[string]string{"a_test.go": good}, 0, "2 passed, 0 failed", []string{"ok  \tx"}},
		{"skips are counted apart", map[string]string{"a_test.go": good, "b_test.go": skip}, 0, "2 passed, 0 failed, 1 skipped", []string{"reason"}},
		{"failure", map[string]string{"a_test.go": good, "b_test.go": bad}, 1, "2 passed, 2 failed", []string{"why", "FAIL\tx"}},
		{"no test", map[string]string{"a.go": "package x\n"}, 1, "0 passed, 0 failed", []string{"no test was run"}},
		{"only skips are no test", map[string]string{"a_test.go": skip}, 1, "0 passed, 0 failed, 1 skipped", nil},
		{"does not build", map[string]string{"a_test.go": good, "b.go": "package x\nvar v int = missing\n"}, 1, "0 passed, 1 failed", []string{"undefined: missing"}},
		{"one of two does not build", map[string]string{"a_test.go": good, "y/y.go": "package y\nvar v int = missing\n", "y/y_test.go": strings.Replace(good, "x", "y", 1)}, 1, "2 passed, 1 failed", []string{"undefined: missing", "ok  \tx"}},
		{"dies before its tests", map[string]string{"a_test.go": dies}, 1, "0 passed, 1 failed", []string{"last words"}},
		{"ends amid a test", map[string]string{"a_test.go": exit}, 1, "0 passed, 1 failed", []string{"so far"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.file["go.mod"] = "module x\n\ngo 1.26\n"
			for name, text := range tt.file {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			var out, talk bytes.Buffer
			code := run([]string{"-count=1", "./..."}, &out, &talk)
			t.Log(talk.String())
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if code != tt.code || lines[len(lines)-1] != tt.last {
				t.Errorf("exit %d and %q, want %d and %q\n%s", code, lines[len(lines)-1], tt.code, tt.last, out.String())
			}
			for _, s := range tt.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("says nothing of %q:\n%s", s, out.String())
				}
			}
			for _, why := range []string{"why", "undefined: missing", "last words", "so far"} {
				if n := strings.Count(out.String(), why); n != 0 && n != 2 {
					t.Errorf("says %q %d times, want it again at the end:\n%s", why, n, out.String())
				}
			}
		})
	}
}
