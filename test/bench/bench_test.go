package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/cordontest"
	"github.com/aicodesit/cordon/internal/kerneltest"
)

// The benches measure, and judge nothing; but they must run.
func TestBenchesRun(t *testing.T) {
	if os.Geteuid() != 0 {
		kerneltest.Missing(t, "root, to make a host")
	}
	kerneltest.Program(t, "bwrap", "iptables", "ipset", "ip", "psql", "runc", "firejail", "busybox")
	bin := cordontest.Build(t)
	bench := filepath.Join(filepath.Dir(bin), "bench")
	cordontest.Compile(t, bench, "test/bench")
	cmd := exec.CommandContext(t.Context(), bench, "-cordon", bin, "-n", "1", "-sizes", "1,2", "-running", "2", "-watched", "100ms", "-damages", "2")
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"Start to exit", "number of projects", "number of sessions", "by the number of sessions that run"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("nothing about %q", want)
		}
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "could not run") && !strings.Contains(line, "firejail") {
			t.Error(line)
		}
	}
	t.Logf("%s", out)
}
