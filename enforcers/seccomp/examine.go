package seccomp

import (
	"context"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler"
)

// actionsFile lists what a filter may answer; see seccomp(2), /proc interfaces.
const actionsFile = "/proc/sys/kernel/seccomp/actions_avail"

// loggedFile lists which of them are logged for filters that ask for it.
const loggedFile = "/proc/sys/kernel/seccomp/actions_logged"

// Examine implements [reconciler.Examiner].
func (e *Enforcer) Examine(ctx context.Context) []reconciler.Finding {
	var out []reconciler.Finding
	if c, ok := e.programs.compiler.(reconciler.Examiner); ok {
		out = c.Examine(ctx)
	}
	return append(out, kernel(actionsFile), logging(loggedFile))
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

// logging tells whether log = true comes to anything.
func logging(path string) reconciler.Finding {
	f := reconciler.Finding{Subject: "log of refused system calls", Status: reconciler.OK, Text: "the kernel writes it for blocks with log = true"}
	b, err := os.ReadFile(path)
	if err == nil {
		err = audit()
	}
	switch {
	case err != nil:
		f.Status, f.Text = reconciler.Warn, "there is none: "+err.Error()
		f.Remedy = "use a kernel with CONFIG_AUDIT, not booted with audit=0"
	case !slices.Contains(strings.Fields(string(b)), "errno"):
		f.Status, f.Text = reconciler.Warn, "there is none: kernel.seccomp.actions_logged lacks errno"
		f.Remedy = "add errno to kernel.seccomp.actions_logged"
	}
	return f
}

// audit returns an error unless the kernel's audit is at work: its netlink
// family is there only then.
func audit() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_AUDIT)
	if err != nil {
		return os.NewSyscallError("socket(NETLINK_AUDIT)", err)
	}
	return unix.Close(fd)
}
