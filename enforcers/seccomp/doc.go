// Package seccomp compiles system call filters to the files that sessions
// load: one for each seccomp block, and the base as it is where a sandbox
// names no block.
//
// # Mechanism
//
// A filter is a classic BPF program as seccomp(2) takes it, at
// [rundir.Dir.Seccomp]; bubblewrap loads it with --seccomp just before it
// starts the command. libseccomp (package libseccomp) turns names into numbers
// and writes the table; before its program stand a few instructions of our own,
// for what one condition of the library can't say (see its prelude.go).
//
// The base "container" is a list of allowed calls, after the lists that
// container engines publish, for a process without any capability (package
// base tells what was left out and why). In the order of the answer:
//
//   - another architecture than the host's, and x32 numbers: the process is
//     killed. Their numbers mean other calls.
//   - numbers that libseccomp does not know, and clone3: ENOSYS, so that libc
//     falls back to older calls. clone3 hides its flags behind a pointer.
//   - deny: the block's errno. It wins over the base.
//   - allow: allowed, whatever the arguments, but for TIOCSTI and TIOCLINUX,
//     which stay refused when ioctl is allowed; allow clone, unshare and mount
//     for an agent that makes sandboxes itself.
//   - allowed by the base, some only with certain arguments: clone without
//     namespace flags, socket of the families unix, inet, inet6 and netlink,
//     personality of five harmless values, ioctl but for TIOCSTI and TIOCLINUX
//     (compared, as the kernel does, by the low 32 bits).
//   - the rest: EPERM.
//
// A clone3 that is denied still answers ENOSYS whatever the errno: threads of
// every libc depend on it.
//
// # Log
//
// The kernel logs a refused call if the filter was loaded with
// SECCOMP_FILTER_FLAG_LOG, a flag of the load and not part of the program: log
// changes nothing in the files. bubblewrap loads without it, so a session of a
// block with log = true loads its filter a second time (package
// internal/tinyexec). The action that logs by itself, SECCOMP_RET_LOG,
// *allows* the call.
//
// Not logged: what a filter that a program loads for itself refuses before,
// and everything where the kernel has no audit or where
// kernel.seccomp.actions_logged lacks "errno"; [Enforcer.Examine] says so.
//
// # Mark and privilege
//
// The files are cordon's by being in its directory. Beside NAME.bpf stands
// NAME.json, which says what it was compiled from and what came of it. A reading
// compiles that again, which takes 1 to 2 ms for a policy; a file that departs
// from it is drift. No digest, time or signature beside the file could say as
// much: who can replace the one can replace the other.
//
// The front (cmd/cordon/front), which starts sessions as quickly as it can, reads
// by [Options.Recorded]: a filter that departs from its record is drift, the two
// are believed together, as are bubblewrap and cordon's own program, which only
// the same user, root, can replace. Every plan, every apply and every pass of a
// daemon compiles. So the front needs no libseccomp, and has the complete program
// compile what is missing.
//
// Writing needs the right to write there; nothing here needs a capability.
//
// There is no fake: real files are as quick and as safe as any fake would be.
package seccomp
