package seccomp

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	scmp "github.com/seccomp/libseccomp-golang"

	"github.com/aicodesit/cordon/reconciler"
)

// actionsFile lists what a filter may answer; see seccomp(2), /proc interfaces.
const actionsFile = "/proc/sys/kernel/seccomp/actions_avail"

// Examine implements [reconciler.Examiner].
func (e *Enforcer) Examine(context.Context) []reconciler.Finding {
	return []reconciler.Finding{library(), kernel(actionsFile)}
}

func library() reconciler.Finding {
	major, minor, micro := scmp.GetLibraryVersion()
	f := reconciler.Finding{Subject: "libseccomp", Status: reconciler.OK, Text: fmt.Sprintf("version %d.%d.%d", major, minor, micro)}
	m, err := native()
	if err == nil {
		_, err = compile(Resource{Base: Base, Errno: "EPERM"}, m)
	}
	if err != nil {
		f.Status, f.Text = reconciler.Fail, f.Text+": the base does not compile: "+err.Error()
		f.Remedy = "install libseccomp 2.5 or later"
	}
	return f
}

func kernel(path string) reconciler.Finding {
	f := reconciler.Finding{Subject: "system call filters", Status: reconciler.OK}
	b, err := os.ReadFile(path)
	if err != nil {
		f.Status, f.Text = reconciler.Fail, "the kernel has none: "+err.Error()
		f.Remedy = "use a kernel with CONFIG_SECCOMP_FILTER, 4.14 or later"
		return f
	}
	have := strings.Fields(string(b))
	f.Text = "the kernel knows " + strings.Join(have, ", ")
	for _, need := range []string{"kill_process", "errno", "allow"} {
		if !slices.Contains(have, need) {
			f.Status, f.Remedy = reconciler.Fail, "use a kernel that knows "+need+", 4.14 or later"
		}
	}
	return f
}
