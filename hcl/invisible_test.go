package hcl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/aicodesit/cordon/hcl"
)

// Wherever in a file a character stands that is not seen, it is an error that
// names it; so is one that an escape brings into a name or a value.
func TestInvisible(t *testing.T) {
	const whole = `# COMMENT
// COMMENT
/* COMMENT */
locals {
  a = "LOCAL"
}
secret "s" {
  file = "/etc/STRING"
}
secret "e" { env = "STRING" }
secret "c" { command = ["/bin/STRING"] }
environment "e" {
  set = { "STRING" = "STRING", B = session.id }
}
proxy "p" {
  port     = 1
  upstream = "https://api.example.com/STRING"
  inject   = { "STRING" = secret.s }
}
sandbox "LABEL" {
  command = ["STRING", "${session.id}STRING"]
  filesystem {
    programs = ["/bin/STRING"]
    tmpfs "/STRING" {}
    bind "/w" { from = "/srv/STRING" }
  }
}
project "LABEL" {
  directory = "/srv/STRING"
  user      = "STRING"
  operators = ["user:STRING"]
}
`
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		bidi := unicode.Is(unicode.Bidi_Control, r)
		if !bidi && r != 0xAD && r != 0x200B && r != 0x2060 && r != 0xFEFF && r != 0x3164 && r != 0x2800 && r != 0x2028 && r != 0xFE01 && r != 0xE0041 && r != 0xE0101 {
			continue
		}
		escape := fmt.Sprintf("\\U%08X", r)
		for i := range strings.Count(whole, "STRING") + strings.Count(whole, "LABEL") + strings.Count(whole, "COMMENT") {
			for how, inserted := range map[string]string{"itself": string(r), "escape": escape} {
				src := nth(whole, i, "x"+inserted+"y")
				if how == "escape" && i < 3 {
					continue // of comments, where it is text
				}
				_, diags := hcl.LoadFiles(filesOf("a.hcl", src), hcl.Options{})
				want := fmt.Sprintf("invisible character %U", r)
				line := 1 + strings.Count(src[:strings.Index(src, inserted)], "\n")
				found := false
				for _, d := range diags {
					found = found || d.Summary == want && d.Range.Line == line
				}
				if !found {
					t.Errorf("%U as %s at line %d:\n%s", r, how, line, text(t, diags))
				}
			}
		}
	}
	plain := strings.NewReplacer("LABEL", "x", "COMMENT", "größer → 中文 😀 שלום", "STRING", "größer中文שלום", "LOCAL", "x").Replace(whole)
	_, diags := hcl.LoadFiles(filesOf("a.hcl", "\uFEFF"+plain), hcl.Options{})
	for _, d := range diags {
		if strings.HasPrefix(d.Summary, "invisible") {
			t.Error(text(t, diags))
		}
	}
}

// nth puts with in the place of the i-th word to replace, and x in the place of
// all others.
func nth(whole string, i int, with string) string {
	for _, word := range []string{"COMMENT", "STRING", "LABEL"} {
		n := strings.Count(whole, word)
		if i >= n {
			i -= n
			continue
		}
		parts := strings.Split(whole, word)
		whole = strings.Join(parts[:i+1], "x") + with + strings.Join(parts[i+1:], "x")
		break
	}
	return strings.NewReplacer("LABEL", "x", "COMMENT", "x", "STRING", "x", "LOCAL", "x").Replace(whole)
}

func TestFilesOfAnotherCase(t *testing.T) {
	for _, name := range []string{"B.HCL", "b.Hcl", "b.hCL"} {
		dir := t.TempDir()
		for _, n := range []string{"a.hcl", name} {
			if err := os.WriteFile(filepath.Join(dir, n), []byte("sandbox \"s\" {}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, diags := hcl.Load(dir, hcl.Options{}); len(diags) != 1 || diags[0].Summary != "the file would not be read" || diags[0].Range.File != filepath.Join(dir, name) {
			t.Error(text(t, diags))
		}
	}
}

func TestSignals(t *testing.T) {
	for name, ends := range map[string]bool{
		"TERM": true, "INT": true, "HUP": true, "QUIT": true, "USR1": true, "USR2": true, "KILL": true, "SIGTERM": true, "sigint": true,
		"STOP": false, "CONT": false, "WINCH": false, "TSTP": false, "CHLD": false, "ALRM": false, "PWR": false, "URG": false, "SEGV": false, "0": false, "9": false, "": false,
	} {
		_, diags := hcl.LoadFiles(filesOf("a.hcl", "sandbox \"s\" {\n  stop_signal = \""+name+"\"\n}\n"), hcl.Options{})
		if diags.HasErrors() == ends || !ends && !strings.Contains(diags[0].Detail, "TERM, INT, HUP, QUIT, USR1, USR2, KILL") {
			t.Errorf("%s: %s", name, text(t, diags))
		}
	}
}

func TestNoPrograms(t *testing.T) {
	for path, good := range map[string]bool{
		"/bin/sh": true, "/device/x": true, "/opt/proc/x": true,
		"/": false, "/dev": false, "/dev/null": false, "/proc": false, "/proc/self/exe": false, "/sys": false, "/sys/kernel/x": false, "/dev/shm/x": false,
	} {
		_, diags := hcl.LoadFiles(filesOf("a.hcl", "sandbox \"s\" {\n  filesystem {\n    programs = [\"/bin/a\", \""+path+"\"]\n  }\n}\n"), hcl.Options{})
		if diags.HasErrors() == good || !good && !strings.HasPrefix(text(t, diags), "a.hcl:3:27: error: ") {
			t.Errorf("%s: %s", path, text(t, diags))
		}
	}
}
