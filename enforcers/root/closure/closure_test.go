package closure

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.RemoveAll(path))
	must(t, os.WriteFile(path, []byte(content), mode))
	return path
}

func link(t *testing.T, target, path string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.Symlink(target, path))
	return path
}

// real is a temporary directory without a symbolic link on the way.
func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

func cc(t *testing.T, args ...string) {
	t.Helper()
	kerneltest.Program(t, "gcc")
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %v: %v\n%s", args, err, out)
	}
}

func of(t *testing.T, r Request) Closure {
	t.Helper()
	c, problems := Of(r)
	if len(problems) > 0 {
		t.Fatalf("problems: %q", problems)
	}
	return c
}

func names(c Closure) []string {
	var out []string
	for _, f := range c.Files {
		out = append(out, f.Path)
	}
	return out
}

// What is found for programs of the host is what their loader finds.
func TestAgainstTheLoader(t *testing.T) {
	kerneltest.Program(t, "ldd")
	for _, p := range []string{"/bin/bash", "/usr/bin/git", "/usr/bin/node", "/usr/bin/python3", "/usr/bin/perl", "/usr/bin/gdb", "/usr/bin/rg"} {
		if _, err := os.Stat(p); err != nil {
			continue
		}
		out, err := exec.Command("ldd", p).Output()
		must(t, err)
		real, err := filepath.EvalSymlinks(p)
		must(t, err)
		want := map[string]bool{real: true}
		for _, m := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
			real, err := filepath.EvalSymlinks(m[1])
			must(t, err)
			want[real] = true
		}
		if got := names(of(t, Request{Programs: []string{p}})); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s: %q, the loader has %q", p, got, slices.Sorted(maps.Keys(want)))
		}
	}
}

// library compiles a library that calls the functions of others.
func library(t *testing.T, path, fn string, args ...string) {
	t.Helper()
	src := write(t, path+".c", "int "+fn+"(void){return 1;}\n", 0o644)
	cc(t, append([]string{"-shared", "-fPIC", "-Wl,--no-as-needed", "-o", path, src}, args...)...)
	must(t, os.Remove(src))
}

func TestSearchPaths(t *testing.T) {
	const old, modern = "-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"
	for _, tt := range []struct {
		name        string
		programArgs []string
		libArgs     []string
		problem     string // part of it; "": both libraries are found
	}{
		{"RUNPATH of each", []string{modern, "-Wl,-rpath,$ORIGIN/../lib"}, []string{modern, "-Wl,-rpath,${ORIGIN}/deep"}, ""},
		{"RPATH is inherited", []string{old, "-Wl,-rpath,$ORIGIN/../lib:$ORIGIN/../lib/deep"}, nil, ""},
		{"RUNPATH is not", []string{modern, "-Wl,-rpath,$ORIGIN/../lib:$ORIGIN/../lib/deep"}, nil, "libinner.so: no such library"},
		{"RUNPATH switches the program's RPATH off", []string{old, "-Wl,-rpath,$ORIGIN/../lib:$ORIGIN/../lib/deep"}, []string{modern, "-Wl,-rpath,/nowhere"}, "libinner.so: no such library"},
		{"relative paths are not searched", []string{old, "-Wl,-rpath,lib"}, nil, "libouter.so.1: no such library"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := realTemp(t)
			must(t, os.MkdirAll(dir+"/lib/deep", 0o755))
			library(t, dir+"/lib/deep/libinner.so", "inner")
			library(t, dir+"/lib/libouter.so.1.0", "outer", append([]string{"-Wl,-soname,libouter.so.1", "-L" + dir + "/lib/deep", "-linner"}, tt.libArgs...)...)
			link(t, "libouter.so.1.0", dir+"/lib/libouter.so.1")
			src := write(t, dir+"/main.c", "int main(void){return 0;}\n", 0o644)
			must(t, os.MkdirAll(dir+"/bin", 0o755))
			cc(t, append([]string{"-o", dir + "/bin/main", src, "-Wl,--no-as-needed", dir + "/lib/libouter.so.1", "-Wl,-rpath-link," + dir + "/lib/deep"}, tt.programArgs...)...)
			runs := exec.Command(dir+"/bin/main").Run() == nil
			c, problems := Of(Request{Programs: []string{dir + "/bin/main"}})
			if runs != (tt.problem == "") {
				t.Fatalf("the host's loader: runs %t", runs)
			}
			if tt.problem != "" {
				if len(problems) != 1 || !strings.HasPrefix(problems[0], tt.problem) {
					t.Errorf("problems %q, want %q", problems, tt.problem)
				}
				return
			}
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			for _, want := range []string{"/bin/main", "/lib/libouter.so.1.0", "/lib/deep/libinner.so"} {
				if _, ok := c.File(dir + want); !ok {
					t.Errorf("no %s in %q", want, names(c))
				}
			}
			if c.Links[dir+"/lib/libouter.so.1"] != "libouter.so.1.0" {
				t.Errorf("links: %q", c.Links)
			}
		})
	}
}

// A library for another machine that is found first is passed over.
func TestForeignMachine(t *testing.T) {
	dir := realTemp(t)
	must(t, os.MkdirAll(dir+"/lib", 0o755))
	library(t, dir+"/lib/libown.so", "own")
	src := write(t, dir+"/main.c", "int main(void){return 0;}\n", 0o644)
	cc(t, "-o", dir+"/main", src, "-Wl,--no-as-needed", "-L"+dir+"/lib", "-lown", "-Wl,-rpath,$ORIGIN/alien:$ORIGIN/lib")
	b, err := os.ReadFile(dir + "/lib/libown.so")
	must(t, err)
	b[18] ^= 0x55 // e_machine
	write(t, dir+"/alien/libown.so", string(b), 0o755)
	must(t, exec.Command(dir+"/main").Run())
	c := of(t, Request{Programs: []string{dir + "/main"}})
	got := names(c)
	if slices.Contains(got, dir+"/alien/libown.so") || !slices.Contains(got, dir+"/lib/libown.so") {
		t.Errorf("%q", got)
	}
	f, err := os.OpenFile(dir+"/lib/libown.so", os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString("x")
	must(t, err)
	must(t, f.Close())
	if c.Fresh() {
		t.Error("a library that was changed in place is fresh")
	}
}

func TestStaticProgram(t *testing.T) {
	dir := realTemp(t)
	src := write(t, dir+"/main.c", "int main(void){return 0;}\n", 0o644)
	cc(t, "-static", "-o", dir+"/main", src)
	if got := names(of(t, Request{Programs: []string{dir + "/main"}})); !slices.Equal(got, []string{dir + "/main"}) {
		t.Errorf("%q", got)
	}
}

// putCache puts content in the place of the loader's cache, in this test's
// mount namespace.
func putCache(t *testing.T, content []byte) {
	t.Helper()
	kerneltest.Host(t)
	own := write(t, filepath.Join(t.TempDir(), "cache"), string(content), 0o644)
	must(t, unix.Mount(own, cachePath, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(cachePath, unix.MNT_DETACH) })
}

// A library that only the cache knows brings the cache with it.
func TestCacheOnly(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "/sbin/ldconfig")
	dir := realTemp(t)
	library(t, dir+"/libodd.so", "odd", "-Wl,-soname,libodd.so")
	wanted := []string{dir + "/libodd.so", cachePath}
	src := write(t, dir+"/main.c", "int main(void){return 0;}\n", 0o644)
	cc(t, "-o", dir+"/main", src, "-Wl,--no-as-needed", "-L"+dir, "-lodd")
	if _, problems := Of(Request{Programs: []string{dir + "/main"}}); len(problems) != 1 || !strings.HasPrefix(problems[0], "libodd.so: no such library") {
		t.Fatalf("before: %q", problems)
	}
	if runtime.GOARCH == "amd64" {
		must(t, os.MkdirAll(dir+"/glibc-hwcaps/x86-64-v2", 0o755))
		library(t, dir+"/glibc-hwcaps/x86-64-v2/libodd.so", "odd", "-Wl,-soname,libodd.so")
		wanted = append(wanted, dir+"/glibc-hwcaps/x86-64-v2/libodd.so")
	}
	conf := write(t, dir+"/conf", dir+"\n", 0o644)
	if out, err := exec.Command("/sbin/ldconfig", "-X", "-f", conf, "-C", dir+"/cache").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(dir + "/cache")
	must(t, err)
	putCache(t, b)
	c := of(t, Request{Programs: []string{dir + "/main"}})
	for _, want := range wanted {
		if _, ok := c.File(want); !ok {
			t.Errorf("no %s in %q", want, names(c))
		}
	}
	if ordinary := of(t, Request{Programs: []string{"/bin/true"}}); slices.Contains(names(ordinary), cachePath) {
		t.Error("the cache is bound for a program that does not need it")
	}
}

// A package that has nothing to do with it rewrites the cache.
func TestFreshWithAnotherCache(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "git")
	b, err := os.ReadFile(cachePath)
	must(t, err)
	c := of(t, Request{Programs: []string{"/usr/bin/git"}})
	if !c.Fresh() {
		t.Fatal("not fresh at once")
	}
	putCache(t, b)
	if !c.Fresh() {
		t.Error("the same answers in another file are not fresh")
	}
	putCache(t, bytes.ReplaceAll(b, []byte("/libz.so.1\x00"), []byte("/libq.so.1\x00")))
	if c.Fresh() {
		t.Error("another answer is fresh")
	}
}

func TestFresh(t *testing.T) {
	dir := realTemp(t)
	script := dir + "/bin/script"
	for _, tt := range []struct {
		name  string
		do    func(t *testing.T)
		fresh bool
	}{
		{"nothing", func(*testing.T) {}, true},
		{"a plain file's content", func(t *testing.T) { must(t, os.WriteFile(dir+"/plain", []byte("other"), 0o600)) }, true},
		{"in a directory", func(t *testing.T) { write(t, dir+"/dir/new", "x", 0o600) }, true},
		{"a script's content", func(t *testing.T) { must(t, os.WriteFile(script, []byte("#!/usr/bin/env cat\n"), 0o600)) }, false},
		{"a file replaced", func(t *testing.T) { must(t, os.Rename(write(t, dir+"/x", "plain", 0o600), dir+"/plain")) }, false},
		{"a link changed", func(t *testing.T) { must(t, os.Remove(dir+"/alias")); link(t, dir+"/plain", dir+"/alias") }, false},
		{"a directory replaced", func(t *testing.T) {
			must(t, os.Rename(dir+"/dir", dir+"/dir2"))
			must(t, os.Mkdir(dir+"/dir", 0o755))
		}, false},
		{"a file removed", func(t *testing.T) { must(t, os.Remove(dir+"/plain")) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must(t, os.RemoveAll(dir))
			write(t, script, "#!/bin/sh\n", 0o755)
			write(t, dir+"/plain", "plain", 0o644)
			write(t, dir+"/dir/file", "x", 0o644)
			link(t, "bin/script", dir+"/alias")
			c := of(t, Request{Programs: []string{dir + "/alias"}, Files: []string{dir + "/plain", dir + "/dir"}})
			tt.do(t)
			if c.Fresh() != tt.fresh {
				t.Errorf("fresh: %t", c.Fresh())
			}
		})
	}
}

func TestScripts(t *testing.T) {
	dir := realTemp(t)
	cat, err := filepath.EvalSymlinks("/usr/bin/cat")
	must(t, err)
	env, err := filepath.EvalSymlinks("/usr/bin/env")
	must(t, err)
	for _, tt := range []struct {
		name, line string
		want       []string
		problem    string
	}{
		{"plain", "#!/usr/bin/cat\n", []string{cat}, ""},
		{"with a space and an argument", "#! /usr/bin/cat -A\nx", []string{cat}, ""},
		{"env", "#!/usr/bin/env cat\n", []string{cat, env}, ""},
		{"env with options", "#!/usr/bin/env -S A=b cat -A\n", []string{cat, env}, ""},
		{"env of nothing there", "#!/usr/bin/env nosuchprogram\n", nil, "nosuchprogram: no such program in "},
		{"no interpreter", "#!/nowhere/sh\n", nil, "/nowhere/sh: no such file on this host (needed by "},
		{"itself", "#!" + dir + "/itself\n", nil, ""},
		{"text", "echo\n", nil, ""},
		{"empty", "", nil, ""},
		{"nested", "#!" + dir + "/plain\n", []string{cat, dir + "/plain"}, ""},
	} {
		p := write(t, filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-")), tt.line, 0o755)
		c, problems := Of(Request{Programs: []string{p}})
		if tt.problem != "" {
			if len(problems) != 1 || !strings.HasPrefix(problems[0], tt.problem) {
				t.Errorf("%s: problems %q", tt.name, problems)
			}
			continue
		}
		if len(problems) > 0 {
			t.Errorf("%s: problems %q", tt.name, problems)
		}
		for _, want := range append(tt.want, p) {
			if _, ok := c.File(want); !ok {
				t.Errorf("%s: no %s in %q", tt.name, want, names(c))
			}
		}
		if tt.want == nil && len(c.Files) != 1 {
			t.Errorf("%s: %q", tt.name, names(c))
		}
	}
}

func TestTooManyScripts(t *testing.T) {
	dir := realTemp(t)
	last := "/usr/bin/cat"
	for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
		last = write(t, dir+"/"+n, "#!"+last+"\n", 0o755)
	}
	if _, problems := Of(Request{Programs: []string{last}}); len(problems) != 1 || !strings.Contains(problems[0], "too many scripts") {
		t.Errorf("%q", problems)
	}
}

func TestLinks(t *testing.T) {
	dir := realTemp(t)
	write(t, dir+"/real/lib/tool/cli", "x", 0o755)
	link(t, "real", dir+"/merged")
	link(t, "../lib/tool/cli", dir+"/real/bin/tool")
	link(t, dir+"/merged/bin", dir+"/abs")
	c := of(t, Request{Files: []string{dir + "/abs/tool"}})
	if got := names(c); !slices.Equal(got, []string{dir + "/real/lib/tool/cli"}) {
		t.Errorf("files: %q", got)
	}
	want := map[string]string{dir + "/merged": "real", dir + "/real/bin/tool": "../lib/tool/cli", dir + "/abs": dir + "/merged/bin"}
	if !maps.Equal(c.Links, want) {
		t.Errorf("links: %q", c.Links)
	}
	if !slices.Contains(c.Dirs, dir+"/real/bin") {
		t.Errorf("the directory that a link leads through is not kept: %q", c.Dirs)
	}
	// A directory swallows what lies in it.
	whole := of(t, Request{Files: []string{dir + "/abs/tool", dir + "/real"}})
	if got := names(whole); !slices.Equal(got, []string{dir + "/real"}) || len(whole.Links) != 2 {
		t.Errorf("whole directory: %q, %q", got, whole.Links)
	}
	link(t, "loop", dir+"/loop")
	if _, problems := Of(Request{Files: []string{dir + "/loop"}}); len(problems) != 1 || !strings.Contains(problems[0], "too many levels") {
		t.Errorf("a loop: %q", problems)
	}
	if _, problems := Of(Request{Files: []string{dir + "/abs/tool/x"}}); len(problems) != 1 || !strings.Contains(problems[0], "not a directory") {
		t.Errorf("below a file: %q", problems)
	}
}

func TestCovered(t *testing.T) {
	dir := realTemp(t)
	write(t, dir+"/hidden/tool", "x", 0o755)
	link(t, "hidden/tool", dir+"/tool")
	_, problems := Of(Request{Programs: []string{dir + "/tool"}, Covered: []string{dir + "/hidden"}})
	if len(problems) != 1 || !strings.HasPrefix(problems[0], dir+"/tool: lies below "+dir+"/hidden") {
		t.Errorf("%q", problems)
	}
	if _, problems := Of(Request{Files: []string{dir + "/hidden/tool"}, Covered: []string{dir + "/hid"}}); len(problems) > 0 {
		t.Errorf("a name that only begins the same covers: %q", problems)
	}
}

func TestParseCache(t *testing.T) {
	b, err := os.ReadFile(cachePath)
	must(t, err)
	whole, err := parseCache(b)
	must(t, err)
	if len(whole["libc.so.6"]) == 0 {
		t.Error("no libc in the cache")
	}
	prefixed, err := parseCache(append([]byte("ld.so-1.7.0\x00\x00\x00\x00\x00"), b...)) // both formats, as before glibc 2.32
	if err != nil || !slices.Equal(prefixed["libc.so.6"], whole["libc.so.6"]) {
		t.Errorf("behind the old format: %v, %v", prefixed["libc.so.6"], err)
	}
	for n := range min(len(b), 30000) {
		_, _ = parseCache(b[:n]) // must not panic
	}
	for _, bad := range [][]byte{nil, []byte("x"), b[:cacheHeader-1], b[:cacheHeader+10]} {
		if _, err := parseCache(bad); err == nil {
			t.Errorf("%d bytes parse", len(bad))
		}
	}
}
