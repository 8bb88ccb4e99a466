package root

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler"
)

// Examine implements [reconciler.Examiner]. It changes nothing.
func (e *Enforcer) Examine(context.Context) []reconciler.Finding {
	return []reconciler.Finding{mountAPI(), beneath()}
}

// mountAPI calls mount_setattr in a way that changes nothing: a kernel that
// knows it complains of the bad descriptor.
func mountAPI() reconciler.Finding {
	f := reconciler.Finding{Subject: "mount trees", Status: reconciler.OK, Text: "open_tree, move_mount, mount_setattr and openat2 are there"}
	err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	switch {
	case errors.Is(err, unix.ENOSYS):
		f.Status, f.Text = reconciler.Fail, "the kernel lacks mount_setattr: no tree can be built"
		f.Remedy = "use Linux 5.12 or later"
	case errors.Is(err, unix.EPERM):
		f.Status, f.Text = reconciler.Fail, "mounting is not permitted: no tree can be built"
		f.Remedy = "run cordon as root, with CAP_SYS_ADMIN and a system call filter that allows mounting"
	}
	return f
}

// beneath tells whether a tree can be replaced without a gap. The descriptor
// is bad on purpose; unknown flags are complained of first.
func beneath() reconciler.Finding {
	f := reconciler.Finding{Subject: "mount trees, replacing", Status: reconciler.OK, Text: "atomic"}
	err := unix.MoveMount(-1, "", -1, "", beneathTop|unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if errors.Is(err, unix.EINVAL) {
		f.Status = reconciler.Warn
		f.Text = "for an instant of each change the tree is missing; a session that starts then is refused"
		f.Remedy = "Linux 6.5 or later replaces it atomically"
	}
	return f
}
