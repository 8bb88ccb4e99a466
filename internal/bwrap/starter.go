package bwrap

import (
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/tinyexec"
)

// starter is what is started in bubblewrap's place where it has a pid
// namespace of its own, in the staged root. bubblewrap looks its child up in
// /proc, which must therefore be of that namespace, and only a process in it
// can mount that. The starter does, takes the user's ids and becomes
// bubblewrap.
const starter = "/.starter"

// stageStarter writes it.
func (s Spec) stageStarter() error {
	program, err := tinyexec.Program{
		Calls:   s.starterCalls(),
		Path:    s.Program,
		Failure: "cordon: bubblewrap could not be started in its namespaces\n",
	}.ELF()
	if err != nil {
		return err
	}
	// No process that is just being started by another thread may hold it open
	// for writing: then nothing could execute it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return writeFile(filepath.Join(s.Stage, starter), program, 0o555)
}

func (s Spec) starterCalls() []tinyexec.Call {
	call := func(number int, args ...tinyexec.Arg) tinyexec.Call {
		return tinyexec.Call{Number: number, Args: args}
	}
	proc, zero := tinyexec.String("proc"), tinyexec.Int(0)
	calls := []tinyexec.Call{call(unix.SYS_MOUNT, proc, tinyexec.String("/proc"), proc, tinyexec.Int(unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC), zero)}
	if !s.Userns {
		return calls // become has done the rest
	}
	uid, gid := tinyexec.Int(s.UID), tinyexec.Int(s.GID)
	return append(calls,
		call(unix.SYS_SETGROUPS, zero, zero),
		call(unix.SYS_SETRESGID, gid, gid, gid),
		call(unix.SYS_SETRESUID, uid, uid, uid),
		// bubblewrap will ask for the same, but only when it has made its
		// child. Before the user's ids are taken it would be forgotten.
		call(unix.SYS_PRCTL, tinyexec.Int(unix.PR_SET_PDEATHSIG), tinyexec.Int(uint32(unix.SIGKILL))),
	)
}
