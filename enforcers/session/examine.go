package session

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/reconciler"
)

// UserNamespaces tells whether a process with this user id may make user
// namespaces and have capabilities in them.
func UserNamespaces(uid uint32) bool { return noUserns(uid) == "" }

// noUserns is the setting that keeps users from user namespaces; "" is none.
// Where a setting does not exist, its kernel has no such restriction.
func noUserns(uid uint32) string {
	if sysctl("user/max_user_namespaces") < 1 {
		return "user.max_user_namespaces"
	}
	if uid == 0 {
		return ""
	}
	if sysctl("kernel/unprivileged_userns_clone") == 0 {
		return "kernel.unprivileged_userns_clone"
	}
	if sysctl("kernel/apparmor_restrict_unprivileged_userns") > 0 {
		return "kernel.apparmor_restrict_unprivileged_userns"
	}
	return ""
}

// sysctl reads a setting; -1 is one that does not exist.
func sysctl(name string) int {
	b, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

// fixedIn is the first bubblewrap without CVE-2026-87766.
const fixedIn = "0.12.0"

// Examine implements [reconciler.Examiner].
func (e *Enforcer) Examine(ctx context.Context) []reconciler.Finding {
	return []reconciler.Finding{bubblewrap(ctx), helpers(), userns(), yama()}
}

func bubblewrap(ctx context.Context) reconciler.Finding {
	f := reconciler.Finding{Subject: "bubblewrap", Status: reconciler.OK}
	program, err := lookup("bwrap")
	if err != nil {
		f.Status, f.Text, f.Remedy = reconciler.Fail, err.Error(), "install the package bubblewrap"
		return f
	}
	out, err := run.Output(ctx, program, "--version")
	if err != nil {
		f.Status, f.Text, f.Remedy = reconciler.Fail, err.Error(), "reinstall the package bubblewrap"
		return f
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(out)), "bubblewrap ")
	f.Text = fmt.Sprintf("%s %s", program, version)
	if less(version, fixedIn) {
		f.Text += ": below " + fixedIn + ", so whether it carries the fix for CVE-2026-87766 is not known from its version. " +
			"Sessions are not exposed to it: every mount point is made before, in a read-only tree, and what was mounted is verified before the command runs"
	}
	return f
}

// helpers is what a start needs besides bubblewrap.
func helpers() reconciler.Finding {
	f := reconciler.Finding{Subject: "session start", Status: reconciler.OK, Text: "/proc/PID/task/TID/children is there"}
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		f.Status, f.Text, f.Remedy = reconciler.Fail, err.Error(), "use a kernel with CONFIG_PROC_CHILDREN"
	}
	return f
}

func userns() reconciler.Finding {
	f := reconciler.Finding{Subject: "user namespaces", Status: reconciler.OK, Text: "users may make them"}
	if why := noUserns(overflowID); why != "" {
		f.Status = reconciler.Warn
		f.Text = why + " keeps users from them: bubblewrap sets up as root and then drops to the session's user for good. Sandboxes that keep capabilities, and user = \"root\", are refused"
		f.Remedy = "sysctl " + why + " (max_user_namespaces above 0, unprivileged_userns_clone=1, apparmor_restrict_unprivileged_userns=0)"
	}
	return f
}

func yama() reconciler.Finding {
	f := reconciler.Finding{Subject: "yama", Status: reconciler.OK, Text: "ptrace_scope is on"}
	if sysctl("kernel/yama/ptrace_scope") < 1 {
		f.Status = reconciler.Warn
		f.Text = "off: a process may read the memory of others of its user, in its own session too, unless the sandbox's filter denies ptrace and process_vm_readv"
		f.Remedy = "sysctl kernel.yama.ptrace_scope=1, if the kernel has it"
	}
	return f
}

// less compares versions of numbers with dots.
func less(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range y {
		if i >= len(x) {
			return true
		}
		m, errM := strconv.Atoi(x[i])
		n, errN := strconv.Atoi(y[i])
		if errM != nil || errN != nil {
			return true
		}
		if m != n {
			return m < n
		}
	}
	return false
}
