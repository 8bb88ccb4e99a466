package vm

import (
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Program returns the files of programs of this host: each at its own path,
// or at to/NAME, with the libraries that it is linked to. Names are looked up
// on PATH unless they are paths.
func Program(t testing.TB, names ...string) []File {
	t.Helper()
	var files []File
	for _, name := range names {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		at, err = filepath.Abs(at)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, withLibraries(t, at)...)
	}
	return files
}

// library is a line of ldd(1): "libc.so.6 => /lib/…/libc.so.6 (0x…)", or the
// dynamic linker without the arrow.
var library = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+) \(0x`)

func withLibraries(t testing.TB, at string) []File {
	t.Helper()
	files := []File{{Path: at, From: at}}
	out, err := exec.Command("ldd", at).CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "not a dynamic executable") {
			return files
		}
		t.Fatalf("ldd %s: %v: %s", at, err, out)
	}
	for _, m := range library.FindAllStringSubmatch(string(out), -1) {
		files = append(files, File{Path: m[1], From: m[1]})
	}
	return files
}

// Glob returns the files of this host that match pattern, at their own paths.
func Glob(t testing.TB, pattern string) []File {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: no file (%v)", pattern, err)
	}
	var files []File
	for _, f := range found {
		files = append(files, File{Path: f, From: f})
	}
	return files
}

// HostModules are what a host needs for cordon's networks.
func HostModules() []string {
	return []string{"net/netfilter", "net/ipv4/netfilter", "net/ipv6/netfilter", "drivers/net/veth"}
}

// HostPrograms returns what Debian's packages bubblewrap, iptables, ipset and
// iproute2 bring, as far as cordon uses it, and bash.
func HostPrograms(t testing.TB) []File {
	t.Helper()
	files := Program(t, "bwrap", "ipset", "ip", "/bin/bash", "/usr/sbin/xtables-nft-multi", "/usr/sbin/xtables-legacy-multi")
	for _, name := range []string{"iptables", "ip6tables"} {
		for _, tool := range []string{"", "-save", "-restore"} {
			files = append(files,
				File{Path: "/usr/sbin/" + name + tool, Link: "xtables-nft-multi"},
				File{Path: "/usr/sbin/" + name + "-nft" + tool, Link: "xtables-nft-multi"},
				File{Path: "/usr/sbin/" + name + "-legacy" + tool, Link: "xtables-legacy-multi"})
		}
	}
	return append(files, Glob(t, "/usr/lib/*/xtables/*.so")...)
}

// GoTest builds the tests of a package of this module; they are the program
// /test/NAME.test of the machine.
func GoTest(t testing.TB, pkg string) []File {
	t.Helper()
	name := "/test/" + path.Base(pkg) + ".test"
	at := filepath.Join(t.TempDir(), path.Base(name))
	cmd := exec.Command("go", "test", "-c", "-trimpath", "-o", at, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test -c %s: %v\n%s", pkg, err, out)
	}
	files := withLibraries(t, at)
	files[0].Path = name
	return files
}
