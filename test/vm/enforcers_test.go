package vm_test

import (
	"strings"
	"testing"

	"github.com/aicodesit/cordon/test/vm"
)

// The test machine has one cgroup version and one kernel; there the enforcers'
// own tests meet others: cgroup v2 alone, Debian's kernel, its modules.
func TestEnforcersOnAFreshHost(t *testing.T) {
	for _, pkg := range []string{"cgroup"} {
		t.Run(pkg, func(t *testing.T) {
			files := append(vm.HostPrograms(t), vm.GoTest(t, "github.com/aicodesit/cordon/enforcers/"+pkg)...)
			r := vm.Run(t, vm.Machine{
				Memory:  2048,
				Modules: vm.HostModules(),
				Files:   files,
				Script:  "#!/bin/bash\nexport CI=true\ncd /test && ./" + pkg + ".test -test.v -test.timeout=3m\n",
			})
			if r.Status != 0 || !strings.Contains(r.Output, "--- PASS: ") {
				t.Errorf("status %d\n%s\n--- console\n%s", r.Status, r.Output, r.Console)
			}
			t.Log(r.Output)
		})
	}
}
