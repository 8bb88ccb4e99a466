// Package demo checks that the demo's claims hold.
package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/cordontest"
	"github.com/aicodesit/cordon/internal/kerneltest"
)

func TestTour(t *testing.T) {
	if os.Geteuid() != 0 {
		kerneltest.Missing(t, "root, to make a host")
	}
	kerneltest.Program(t, "bwrap", "iptables", "ipset", "ip", "psql", "git", "rg", "node", "npm")
	bin := filepath.Dir(cordontest.Build(t))
	examples, err := filepath.Abs("../../examples/aicodesit")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "../throwaway.sh", "./tour.sh")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "CORDON_DIR="+examples)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "claims hold.") {
		t.Errorf("%v\n%s", err, out)
	}
}
