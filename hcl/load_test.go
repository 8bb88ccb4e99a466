package hcl_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/hcl/format"
	"github.com/aicodesit/cordon/specs"
)

// mustLoad loads files that are given as name, content, name, content.
func mustLoad(t *testing.T, o hcl.Options, files ...string) specs.Set {
	t.Helper()
	set, diags := hcl.LoadFiles(filesOf(files...), o)
	if len(diags) > 0 {
		t.Fatal(text(t, diags))
	}
	return set
}

func filesOf(files ...string) []hcl.File {
	var list []hcl.File
	for i := 0; i+1 < len(files); i += 2 {
		list = append(list, hcl.File{Name: files[i], Bytes: []byte(files[i+1])})
	}
	return list
}

func text(t *testing.T, diags hcl.Diagnostics) string {
	t.Helper()
	var out strings.Builder
	if err := diags.WriteText(&out, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestExamplesLoad(t *testing.T) {
	for _, dir := range []string{"../examples/aicodesit", "../examples/minimal"} {
		if _, diags := hcl.Load(dir, hcl.Options{}); len(diags) > 0 {
			t.Error(text(t, diags))
		}
	}
	names, err := filepath.Glob("../examples/*/*.hcl")
	if err != nil || len(names) == 0 {
		t.Fatal("no examples", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if formatted, diags := format.Source(name, b); diags.HasErrors() || string(formatted) != string(b) {
			t.Errorf("%s is not formatted", name)
		}
	}
}

// In which file a block stands, and in which order, makes no difference.
func TestOneNamespace(t *testing.T) {
	set, _ := hcl.Load("../examples/aicodesit", hcl.Options{})
	names, err := filepath.Glob("../examples/aicodesit/*.hcl")
	if err != nil || len(names) < 3 {
		t.Fatal("the example is split over files", err)
	}
	var whole strings.Builder
	for i := range names {
		b, err := os.ReadFile(names[len(names)-1-i])
		if err != nil {
			t.Fatal(err)
		}
		whole.Write(b)
		whole.WriteByte('\n')
	}
	joined := mustLoad(t, hcl.Options{}, "all.hcl", whole.String())
	if joined.Digest() != set.Digest() {
		t.Error("one file and many differ")
	}
}

func TestReference(t *testing.T) {
	set, _ := hcl.Load("../examples/aicodesit", hcl.Options{})
	b, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/aicodesit.json", append(b, '\n'))
}

// A daemon hands what it loaded to other processes as JSON.
func TestSetTravels(t *testing.T) {
	full, err := os.ReadFile("testdata/full.hcl")
	if err != nil {
		t.Fatal(err)
	}
	example, _ := hcl.Load("../examples/aicodesit", hcl.Options{})
	for _, set := range []specs.Set{example, mustLoad(t, hcl.Options{}, "full.hcl", string(full))} {
		b, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		var there specs.Set
		if err := json.Unmarshal(b, &there); err != nil {
			t.Fatal(err)
		}
		if len(there.Sandboxes) == 0 || there.Digest() != set.Digest() {
			t.Error("what arrives is not what was sent")
		}
		for _, s := range set.Sandboxes {
			if there.SandboxDigest(s.Name) != set.SandboxDigest(s.Name) {
				t.Errorf("sandbox %q is another there", s.Name)
			}
		}
	}
}

func TestNotEnforced(t *testing.T) {
	set, _ := hcl.Load("../examples/aicodesit", hcl.Options{})
	got := fmt.Sprint(set.NotEnforced())
	for _, want := range []string{"gateway.data", "project.shop.dev_server"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	set := mustLoad(t, hcl.Options{}, "a.hcl", `
network "n" { pool = "10.1.0.0/16" }
seccomp "c" {}
sandbox "s" {
  filesystem {
    tmpfs "/tmp" {}
  }
}
`)
	n, c, s := set.Networks[0], set.Seccomps[0], set.Sandboxes[0]
	if n.Egress != "none" || n.Fallback != "refuse" || n.Publish || n.Warm != 0 || n.Allow != nil || n.Deny != nil {
		t.Errorf("%+v", n)
	}
	if c.Base != "container" || c.Errno != "EPERM" || c.Log {
		t.Errorf("%+v", c)
	}
	if fmt.Sprint(s.Namespaces) != "[cgroup ipc pid uts]" || s.OnChange != "keep" || s.StopSignal != "TERM" || s.Grace != 10*time.Second ||
		s.Filesystem.Tmpfs[0].Size != 64<<20 || s.Network != "" || s.Capabilities != nil || s.Command != nil {
		t.Errorf("%+v", s)
	}
}

func TestExtends(t *testing.T) {
	set := mustLoad(t, hcl.Options{}, "a.hcl", `
sandbox "grandchild" {
  extends = sandbox.child
  grace   = "5s"

  filesystem {
    programs = ["/bin/c"]
    bind "/work" { from = "/srv/other" }
  }
}

sandbox "child" {
  extends = sandbox.base
  command = ["b"]

  filesystem {
    programs = ["/bin/b", "/bin/a"]
    tmpfs "/tmp" { size = "2MiB" }
    tmpfs "/var/tmp" {}
  }

  capabilities { keep = ["CAP_SYS_NICE", "net_bind_service"] }
  limits { pids = 7 }
  agent "claude-code" { hide = ["B"] }
}

sandbox "base" {
  abstract   = true
  command    = ["a", "a"]
  namespaces = ["pid", "ipc"]
  grace      = "1s"

  filesystem {
    programs = ["/bin/a"]
    tmpfs "/tmp" { size = "1MiB" }
    bind "/work" {
      from     = session.project.directory
      writable = true
    }
  }

  capabilities { keep = ["net_bind_service"] }
  limits {
    memory = "1GiB"
    pids   = 1
  }
  agent "claude-code" {
    hide = ["A"]
    home = "project"
  }
}
`)
	if len(set.Sandboxes) != 2 {
		t.Fatalf("abstract ones are not in the Set: %d", len(set.Sandboxes))
	}
	s := set.Sandboxes[1]
	for got, want := range map[string]string{
		s.Name:                             "grandchild",
		fmt.Sprint(s.Command):              "[b]",
		fmt.Sprint(s.Namespaces):           "[ipc pid]",
		fmt.Sprint(s.Grace):                "5s",
		fmt.Sprint(s.Filesystem.Programs):  "[/bin/a /bin/b /bin/c]",
		fmt.Sprint(s.Capabilities):         "[CAP_NET_BIND_SERVICE CAP_SYS_NICE]",
		fmt.Sprint(s.Limits):               "{1073741824 0 7}",
		fmt.Sprint(s.Agent.Hide):           "[A B]",
		s.Agent.Home:                       "project",
		string(s.Filesystem.Binds[0].From): "/srv/other",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if !s.Filesystem.Binds[0].Writable {
		t.Error("the base's writable holds for the bind that the child changes")
	}
	if fs := s.Filesystem.Tmpfs; len(fs) != 2 || fs[0].Size != 2<<20 || fs[1].Size != 64<<20 {
		t.Errorf("%+v", fs)
	}
}

func TestForEach(t *testing.T) {
	set := mustLoad(t, hcl.Options{}, "a.hcl", `
project "t" {
  for_each  = toset(["b", "42", "b"])
  directory = "/srv/${project.name}"
}

project "m" {
  for_each  = { x = "one", y = "two" }
  name      = "${each.key}-${each.value}"
  directory = "/srv/${project.name}"
  user      = "u-${each.key}"

  git { remote = "https://git.example.com/${project.user}${project.directory}.git" }
}

project "empty" {
  for_each  = toset([])
  directory = "/srv/x"
}
`)
	var got []string
	for _, p := range set.Projects {
		got = append(got, p.Name+" "+p.Directory)
	}
	want := "t-42 /srv/t-42; t-b /srv/t-b; x-one /srv/x-one; y-two /srv/y-two"
	if strings.Join(got, "; ") != want {
		t.Errorf("%s, want %s", strings.Join(got, "; "), want)
	}
	if remote := set.Projects[3].Git.Remote; remote != "https://git.example.com/u-y/srv/y-two.git" {
		t.Error(remote)
	}
}

func TestSessionTemplates(t *testing.T) {
	set := mustLoad(t, hcl.Options{}, "a.hcl", `
locals { dollar = "$${session.id}" }

environment "e" {
  set = {
    ID   = session.id
    BOTH = "${session.project.name}-$${x}-${1 + 1}"
    LIT  = local.dollar
    NUM  = 5
    YES  = true
  }
}

sandbox "s" {
  command = ["${session.sandbox}", (session.project.user), "a${"b"}"]
  filesystem {
    bind "/w" { from = "${session.project.directory}/src" }
  }
}
`)
	want := map[string]string{"ID": "${session.id}", "BOTH": "${session.project.name}-$${x}-2", "LIT": "$${session.id}", "NUM": "5", "YES": "true"}
	for name, value := range want {
		if got := set.Environments[0].Set[name]; string(got) != value {
			t.Errorf("%s is %s, want %s", name, got, value)
		}
	}
	s := set.Sandboxes[0]
	if fmt.Sprint(s.Command) != "[${session.sandbox} ${session.project.user} ab]" {
		t.Error(s.Command)
	}
	if s.Filesystem.Binds[0].From != "${session.project.directory}/src" {
		t.Error(s.Filesystem.Binds[0].From)
	}
}

// A file that can't be read as HCL hides no errors of others, and makes none.
func TestBrokenFile(t *testing.T) {
	_, diags := hcl.LoadFiles(filesOf(
		"a.hcl", "network \"a\" {\n  pool = = 1\n}\nlocals {\n  x = 1\n}\nvariable \"v\" {}\nproxy \"p\" {",
		"b.hcl", "network \"b\" {\n  pol = \"10.1.0.0/16\"\n  warm = local.x\n allow = [proxy.p]\n}\nsandbox \"s\" {\n  network = network.a\n command = [var.v]\n}\n",
	), hcl.Options{Vars: []string{"v=1"}})
	var b []string
	for _, d := range diags {
		if d.Range.File == "b.hcl" {
			b = append(b, d.Summary)
		}
	}
	if want := `[unknown attribute "pol" in network "b"]`; fmt.Sprint(b) != want {
		t.Errorf("%s, want %s", fmt.Sprint(b), want)
	}
	if len(diags) < 2 || diags[0].Range.File != "a.hcl" {
		t.Error(text(t, diags))
	}
}

// What stands in a file that can't even be scanned may be anything: references
// into it are no errors.
func TestUnreadableFile(t *testing.T) {
	b := "sandbox \"s\" {\n  network = network.a\n  command = [local.x, var.v]\n}\n"
	_, diags := hcl.LoadFiles(filesOf("a.hcl", "network \"a\" {}\n\xff", "b.hcl", b), hcl.Options{Vars: []string{"v=1"}})
	if len(diags) != 1 || diags[0].Summary != "not UTF-8" {
		t.Error(text(t, diags))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "b.hcl"), []byte(b), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("gone", filepath.Join(dir, "a.hcl")); err != nil {
		t.Fatal(err)
	}
	if _, diags := hcl.Load(dir, hcl.Options{}); len(diags) != 1 || diags[0].Summary != "the file can't be read" {
		t.Error(text(t, diags))
	}
}

func TestDirectories(t *testing.T) {
	valid := []byte("sandbox \"s\" {}\n")
	write := func(t *testing.T, dir, name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		make func(t *testing.T, dir string)
		want string // of the summary; "" is no error
	}{
		"empty":        {func(*testing.T, string) {}, "no *.hcl file in this directory"},
		"missing":      {func(t *testing.T, dir string) { _ = os.Remove(dir) }, "no such directory"},
		"a file":       {func(t *testing.T, dir string) { _ = os.Remove(dir); write(t, filepath.Dir(dir), "d", valid) }, "not a directory"},
		"only nothing": {func(t *testing.T, dir string) { write(t, dir, "a.hcl", []byte("locals {}\n# nothing\n")) }, "nothing is declared"},
		"others": {func(t *testing.T, dir string) {
			write(t, dir, "a.hcl", valid)
			write(t, dir, ".#a.hcl", []byte("{"))
			write(t, dir, "a.hcl~", []byte("{"))
			_ = os.Mkdir(filepath.Join(dir, "sub"), 0o700)
			write(t, dir, "sub/b.hcl", []byte("{"))
		}, ""},
		"directory": {func(t *testing.T, dir string) {
			write(t, dir, "a.hcl", valid)
			_ = os.Mkdir(filepath.Join(dir, "b.hcl"), 0o700)
		}, "not a regular file"},
		"fifo": {func(t *testing.T, dir string) {
			write(t, dir, "a.hcl", valid)
			_ = syscall.Mkfifo(filepath.Join(dir, "b.hcl"), 0o600)
		}, "not a regular file"},
		"link": {func(t *testing.T, dir string) {
			write(t, dir, "a.txt", valid)
			_ = os.Symlink("a.txt", filepath.Join(dir, "b.hcl"))
		}, ""},
		"dangling": {func(t *testing.T, dir string) {
			write(t, dir, "a.hcl", valid)
			_ = os.Symlink("gone", filepath.Join(dir, "b.hcl"))
		}, "the file can't be read"},
		"utf-16":  {func(t *testing.T, dir string) { write(t, dir, "a.hcl", []byte("\xff\xfea\x00")) }, "not UTF-8"},
		"latin-1": {func(t *testing.T, dir string) { write(t, dir, "a.hcl", []byte("# caf\xe9\nsandbox \"s\" {}\n")) }, "not UTF-8"},
		"bom":     {func(t *testing.T, dir string) { write(t, dir, "a.hcl", append([]byte("\xef\xbb\xbf"), valid...)) }, ""},
		"crlf": {func(t *testing.T, dir string) {
			write(t, dir, "a.hcl", []byte("sandbox \"s\" {\r\n  grace = \"1s\"\r\n}\r\n"))
		}, ""},
		"too large": {func(t *testing.T, dir string) { write(t, dir, "a.hcl", make([]byte, hcl.MaxFile)) }, "the file is too large"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			test.make(t, dir)
			set, diags := hcl.Load(dir, hcl.Options{})
			switch {
			case test.want == "" && (len(diags) > 0 || len(set.Sandboxes) != 1):
				t.Error(text(t, diags))
			case test.want != "" && (len(diags) != 1 || diags[0].Summary != test.want):
				t.Errorf("want only %q, got:\n%s", test.want, text(t, diags))
			}
		})
	}
}

// Deep nesting is an error and not the end of the process, in files that are
// parsed while that is looked for, as long as they can be, and in longer ones.
func TestNesting(t *testing.T) {
	for name, src := range map[string]func(repeat func(string) string) string{
		"lists":      func(n func(string) string) string { return "locals {\n a = " + n("[") + n("]") + "\n}" },
		"unclosed":   func(n func(string) string) string { return "locals {\n a = " + n("{a=") },
		"parens":     func(n func(string) string) string { return "locals {\n a = " + n("(") },
		"not":        func(n func(string) string) string { return "locals {\n a = " + n("!") + "true\n}" },
		"minus":      func(n func(string) string) string { return "locals {\n a = " + n("-") + "1\n}" },
		"plus":       func(n func(string) string) string { return "locals {\n a = 1" + n("+1") + "\n}" },
		"lines":      func(n func(string) string) string { return "locals {\n a = (1" + n("+\n1") + ")\n}" },
		"condition":  func(n func(string) string) string { return "locals {\n a = " + n("true ? 1 : ") + "1\n}" },
		"index":      func(n func(string) string) string { return "locals {\n a = b" + n("[b]") + "\n}" },
		"splat":      func(n func(string) string) string { return "locals {\n a = b" + n(".*") + "\n}" },
		"templates":  func(n func(string) string) string { return "locals {\n a = " + n(`"${`) + "\n}" },
		"directives": func(n func(string) string) string { return "locals {\n a = \"" + n(`%{if true}`) + "\"\n}" },
		"blocks":     func(n func(string) string) string { return n("a {\n") },
		"calls":      func(n func(string) string) string { return "locals {\n a = " + n("lower(") + "\n}" },
	} {
		for length, size := range map[string]int{"short": 16 << 10, "long": 200_000} {
			t.Run(name+"/"+length, func(t *testing.T) {
				none, once := src(func(string) string { return "" }), src(func(s string) string { return s })
				n := (size - len(none)) / (len(once) - len(none))
				nested(t, src(func(s string) string { return strings.Repeat(s, n) }))
			})
		}
	}
	var chain strings.Builder
	chain.WriteString("sandbox \"s\" {}\nlocals {\n")
	for i := range 8_000 {
		fmt.Fprintf(&chain, "l%d = local.l%d\n", i, i+1)
	}
	chain.WriteString("l8000 = 1\n}\n")
	if _, diags := hcl.LoadFiles(filesOf("a.hcl", chain.String()), hcl.Options{}); len(diags) != 1 || diags[0].Summary != "too long a chain of locals" {
		t.Error(text(t, diags[:min(3, len(diags))]))
	}
}

// nested fails the test unless it is refused everywhere that src is nested too deep.
func nested(t *testing.T, src string) {
	t.Helper()
	_, diags := hcl.LoadFiles(filesOf("a.hcl", src), hcl.Options{})
	if len(diags) != 1 || diags[0].Summary != "nested too deep" {
		t.Error(text(t, diags[:min(3, len(diags))]))
	}
	if _, diags := format.Source("a.hcl", []byte(src)); !diags.HasErrors() {
		t.Error("formatted")
	}
	set := hcl.Options{Vars: []string{"v=" + strings.TrimSuffix(strings.TrimPrefix(src, "locals {\n a = "), "\n}")}}
	if _, diags := hcl.LoadFiles(filesOf("a.hcl", `variable "v" { type = list(any) }`), set); !diags.HasErrors() {
		t.Error("taken as a value")
	}
}

// Locals that double each other end in an error and not in all memory.
func TestLargeValues(t *testing.T) {
	for name, double := range map[string]string{"text": `"${PREVIOUS}${PREVIOUS}"`, "lists": `[PREVIOUS, PREVIOUS]`, "maps": `{ a = PREVIOUS, b = PREVIOUS }`} {
		var src strings.Builder
		src.WriteString("sandbox \"s\" {}\nlocals {\n  l0 = \"x\"\n")
		for i := range 60 {
			fmt.Fprintf(&src, "  l%d = %s\n", i+1, strings.ReplaceAll(double, "PREVIOUS", fmt.Sprintf("local.l%d", i)))
		}
		src.WriteString("}\n")
		if _, diags := hcl.LoadFiles(filesOf("a.hcl", src.String()), hcl.Options{}); len(diags) != 1 || !strings.HasSuffix(diags[0].Summary, "is too large") {
			t.Error(name, text(t, diags))
		}
	}
}

func TestManyProjects(t *testing.T) {
	dir := manyProjects(t, 2_000)
	best := time.Hour
	for range 3 {
		start := processorTime(t)
		set, diags := hcl.Load(dir, hcl.Options{})
		if len(diags) > 0 || len(set.Projects) != 2_000 {
			t.Fatal(len(set.Projects), text(t, diags[:min(3, len(diags))]))
		}
		if best = min(best, processorTime(t)-start); best <= time.Second {
			return
		}
	}
	t.Errorf("2,000 projects took %s of a processor", best)
}

// processorTime is what the process has used: other than the time of day it
// does not depend on what else runs.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// manyProjects writes a directory with n projects of five tables, 100 to a file.
func manyProjects(tb testing.TB, n int) string {
	tb.Helper()
	dir := tb.TempDir()
	var out strings.Builder
	out.WriteString("secret \"db\" { env = \"DB\" }\ndatabase \"main\" { connection = secret.db }\nsandbox \"s\" {}\n")
	for i := range n {
		fmt.Fprintf(&out, `
project "p%d" {
  directory = "/srv/projects/p%d"
  user      = "p%d"
  sandboxes = [sandbox.s]
  operators = ["group:p%d"]

  schema {
    database     = database.main
    owner_column = "user_id"
    table "a" { anonymous = ["select"] }
    table "b" { authenticated = ["select", "insert"] }
    table "c" { authenticated = [] }
    table "d" {}
    table "e" { owner_column = "owner" }
  }
}
`, i, i, i, i)
		if i%100 == 99 || i == n-1 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%d.hcl", i)), []byte(out.String()), 0o600); err != nil {
				tb.Fatal(err)
			}
			out.Reset()
		}
	}
	return dir
}

func TestErr(t *testing.T) {
	_, diags := hcl.LoadFiles(filesOf("a.hcl", "network \"n\" {}\nsandbox \"s\" {\n  x = 1\n}\n"), hcl.Options{})
	if got, want := fmt.Sprint(diags.Err()), `a.hcl:1:1: network "n" lacks pool (and 1 more)`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := (hcl.Diagnostics{{Severity: hcl.Warning}}).Err(); err != nil || errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func BenchmarkExample(b *testing.B) {
	for b.Loop() {
		if _, diags := hcl.Load("../examples/aicodesit", hcl.Options{}); diags.HasErrors() {
			b.Fatal(diags.Err())
		}
	}
}

func BenchmarkProjects(b *testing.B) {
	for _, n := range []int{10, 100, 1_000, 2_000} {
		dir := manyProjects(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, diags := hcl.Load(dir, hcl.Options{}); diags.HasErrors() {
					b.Fatal(diags.Err())
				}
			}
		})
	}
}
