// Package base is what the filters' base "container" means: calls that are
// allowed, some with certain arguments only. It is data; package seccomp tells
// of the mechanism, and libseccomp compiles it.
package base

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// rulesVersion rises when the compiled program changes though the tables
// below do not.
const rulesVersion = 2

// Allowed returns the calls that the base allows whatever their arguments.
//
// Sources: the published default profiles of moby and podman, as facts about
// what programs need and what was found dangerous; man 2 syscalls; the kernel's
// syscall tables. Compared with the engines a session has no capabilities, so
// all that only helps with one is left out: mount, umount2, pivot_root,
// chroot, setns, unshare, the new mount calls, bpf, perf_event_open, syslog,
// kexec_*, *_module, reboot, swapon, acct, quotactl, settimeofday,
// open_by_handle_at, fanotify_init, vhangup, iopl, ioperm, pidfd_getfd.
//
// Left out though no capability is asked for, because they have been ways
// into the kernel or reach beyond the session: keyctl, add_key, request_key
// (keyrings are not namespaced), userfaultfd (makes races winnable),
// io_uring_* (a second way to make calls that no filter sees),
// name_to_handle_at (its handles are for open_by_handle_at), modify_ldt and
// vm86 (16-bit code), lookup_dcookie, kcmp and process_madvise (other
// processes' memory), mbind, move_pages, migrate_pages, set_mempolicy (need
// CAP_SYS_NICE to be of use). uselib, sysfs, ustat, nfsservctl and the like are
// gone from the kernel or from use.
//
// Names that the installed library, or the architecture, does not have are
// passed over.
func Allowed() []string {
	return join(
		// Files and directories, by path and by descriptor.
		`access chdir chmod chown chown32 creat faccessat faccessat2 fchdir fchmod fchmodat fchmodat2 fchown
		fchown32 fchownat fstat fstat64 fstatat64 fstatfs fstatfs64 futimesat getcwd getdents getdents64
		lchown lchown32 link linkat lstat lstat64 mkdir mkdirat mknod mknodat newfstatat open openat openat2
		readlink readlinkat rename renameat renameat2 rmdir stat stat64 statfs statfs64 statx symlink symlinkat
		truncate truncate64 umask unlink unlinkat utime utimensat utimensat_time64 utimes`,
		// Mounts can be listed, not made.
		`listmount statmount`,
		// Extended attributes.
		`fgetxattr flistxattr fremovexattr fsetxattr getxattr getxattrat lgetxattr listxattr listxattrat
		llistxattr lremovexattr lsetxattr removexattr removexattrat setxattr setxattrat`,
		// Reading and writing.
		`_llseek cachestat close close_range copy_file_range dup dup2 dup3 fadvise64 fadvise64_64 fallocate fcntl
		fcntl64 fdatasync flock fsync ftruncate ftruncate64 lseek pipe pipe2 pread64 preadv preadv2 pwrite64
		pwritev pwritev2 read readahead readv sendfile sendfile64 splice sync sync_file_range sync_file_range2
		syncfs tee vmsplice write writev`,
		// Waiting for descriptors, and the older asynchronous I/O.
		`_newselect epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2
		inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents
		io_pgetevents io_pgetevents_time64 io_setup io_submit poll ppoll ppoll_time64 pselect6 pselect6_time64
		select signalfd signalfd4`,
		// Memory of the process itself.
		`brk get_mempolicy madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mlock mlock2
		mlockall mmap mmap2 mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free
		pkey_mprotect remap_file_pages`,
		// Processes and threads; clone is below, with its condition.
		`arch_prctl execve execveat exit exit_group fork futex futex_requeue futex_time64 futex_wait futex_waitv
		futex_wake get_robust_list get_thread_area getcpu getpgid getpgrp getpid getppid getsid gettid
		prctl restart_syscall rseq set_robust_list set_thread_area set_tid_address setpgid setsid
		uretprobe vfork wait4 waitid waitpid`,
		// Identity: without capabilities these can only give up rights.
		`capget capset getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getresgid
		getresgid32 getresuid getresuid32 getuid getuid32 setfsgid setfsgid32 setfsuid setfsuid32 setgid
		setgid32 setgroups setgroups32 setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid
		setreuid32 setuid setuid32`,
		// Signals.
		`alarm kill pause pidfd_open pidfd_send_signal process_mrelease rt_sigaction rt_sigpending rt_sigprocmask
		rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo
		sigaltstack sigprocmask sigreturn tgkill tkill`,
		// Time: clocks can be read; setting one takes CAP_SYS_TIME, which adjtimex itself asks for.
		`adjtimex clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64
		clock_nanosleep clock_nanosleep_time64 getitimer gettimeofday nanosleep setitimer time timer_create
		timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create
		timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times`,
		// Scheduling, limits and accounts of itself.
		`getpriority getrlimit getrusage ioprio_get ioprio_set prlimit64 sched_get_priority_max
		sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
		sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam
		sched_setscheduler sched_yield setpriority setrlimit sysinfo ugetrlimit uname`,
		// Sockets; socket is below, with its condition. socketpair knows AF_UNIX only.
		`accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg
		recvmmsg_time64 recvmsg send sendmmsg sendmsg sendto setsockopt shutdown socketpair`,
		// System V and POSIX IPC, in the session's own namespace.
		`ipc mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend
		mq_timedsend_time64 mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop
		semtimedop_time64 shmat shmctl shmdt shmget`,
		// Further confinement by the program itself.
		`landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp`,
		// Debugging one's own processes; engines allow it since Linux 4.8, where
		// ptrace can no longer get round a filter. deny = ["ptrace", …] for an agent.
		`process_vm_readv process_vm_writev ptrace`,
		// getrandom, and what arm64 and riscv64 ask of the processor.
		`getrandom riscv_flush_icache riscv_hwprobe`,
	)
}

// Condition allows a call when one argument, counted from 0, has a value under a
// mask. Several of one call are alternatives.
type Condition struct {
	Call  string `json:"call"`
	Arg   uint   `json:"arg"`
	Mask  uint64 `json:"mask"`
	Value uint64 `json:"value"`
}

// low32 is all that the kernel reads of an int argument.
const low32 = 0xffff_ffff

// namespaces are the clone flags that make one; see clone(2). CLONE_NEWTIME
// lies within clone's exit signal and can't be given to it.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Conditions are the calls that the base allows with some arguments only.
// What their other arguments may be, the prelude's checks included, stands in
// the documentation of package seccomp.
func Conditions() []Condition {
	out := []Condition{{"clone", 0, namespaces, 0}}
	// Not packet (raw frames), vsock (the hypervisor), alg (the kernel's
	// ciphers), nor the many families that no one audits.
	for _, family := range []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		out = append(out, Condition{"socket", 0, low32, family})
	}
	// PER_LINUX, PER_LINUX32, each also with UNAME26, and "tell me"; not
	// ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC and the like. See personality(2).
	for _, persona := range []uint64{0, 0x8, 0x20000, 0x20008, 0xffffffff} {
		out = append(out, Condition{"personality", 0, low32, persona})
	}
	return out
}

// RefusedIoctls put characters into a terminal as if they were typed there:
// into the one that the session shares with whoever started it. See
// ioctl_tty(2), ioctl_console(2).
func RefusedIoctls() []uint32 { return []uint32{unix.TIOCSTI, tiocLinux} }

// tiocLinux is TIOCLINUX of asm-generic/ioctls.h.
const tiocLinux = 0x541c

// Digest identifies what this build means by the base, so that a filter
// compiled by another build differs from what is desired.
func Digest() string {
	b, err := json.Marshal([]any{rulesVersion, Allowed(), Conditions(), RefusedIoctls()})
	if err != nil { // strings and numbers always marshal
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// join splits groups of names at white space.
func join(groups ...string) []string {
	var out []string
	for _, g := range groups {
		out = append(out, strings.Fields(g)...)
	}
	slices.Sort(out)
	return out
}
