package vm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/test/vm"
)

// The test machine has one cgroup version and one kernel; there the enforcers'
// own tests meet others: cgroup v2 alone, Debian's kernel, its modules.
func TestEnforcersOnAFreshHost(t *testing.T) {
	tests := []struct {
		name     string
		run      string   // which tests; those that need a larger host, or minutes under emulation, are left out
		programs []string // in place of busybox's
		files    []string
	}{
		{name: "cgroup", run: "."},
		{name: "slot", run: "."},
		{name: "network", run: "^TestOnKernel$/nft/^foreign_objects_are_untouched$", programs: []string{"nft"}},
		{name: "root", run: "^(TestMissing|TestCopiesOutliveTheTree|TestSharedRun|TestTargetsStayInTheTree)$", programs: []string{"cat", "env", "git"}, files: []string{"/etc/localtime"}},
		{name: "seccomp", run: "^(TestConformance|TestKernelAnswers)$"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := append(vm.HostPrograms(t), vm.GoTest(t, "github.com/aicodesit/cordon/enforcers/"+tt.name)...)
			files = append(files, vm.Program(t, tt.programs...)...)
			for _, f := range tt.files {
				files = append(files, vm.File{Path: f, From: f})
			}
			r := vm.Run(t, vm.Machine{
				Memory:  2048,
				Timeout: 10 * time.Minute, // emulated, beside other tests
				Modules: append(vm.HostModules(), "net/bridge/bridge", "drivers/net/macvlan", "net/sched/sch_ingress"),
				Files:   files,
				Script:  "#!/bin/bash\nexport CI=true\ncd /test && ./" + tt.name + ".test -test.v -test.timeout=8m -test.run '" + tt.run + "'\n",
			})
			if r.Status != 0 || !strings.Contains(r.Output, "\n--- PASS: ") {
				t.Error(r)
			}
		})
	}
}
