package hcl

import "strings"

// Words that the kernel knows. The tables hold names only: what number a name
// has is for the enforcers and the machine they run on.

// syscallNames are the system calls of x86_64 (asm/unistd_64.h), which
// include those of arm64, up to Linux 6.18.
const syscallNames = `
_sysctl accept accept4 access acct add_key adjtimex afs_syscall alarm arch_prctl bind bpf brk
cachestat capget capset chdir chmod chown chroot clock_adjtime clock_getres clock_gettime
clock_nanosleep clock_settime clone clone3 close close_range connect copy_file_range creat
create_module delete_module dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old
epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group
faccessat faccessat2 fadvise64 fallocate fanotify_init fanotify_mark fchdir fchmod fchmodat
fchmodat2 fchown fchownat fcntl fdatasync fgetxattr file_getattr file_setattr finit_module
flistxattr flock fork fremovexattr fsconfig fsetxattr fsmount fsopen fspick fstat fstatfs fsync
ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat get_kernel_syms
get_mempolicy get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid
getgid getgroups getitimer getpeername getpgid getpgrp getpid getpmsg getppid getpriority getrandom
getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid
getxattr getxattrat init_module inotify_add_watch inotify_init inotify_init1 inotify_rm_watch
io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit io_uring_enter io_uring_register
io_uring_setup ioctl ioperm iopl ioprio_get ioprio_set kcmp kexec_file_load kexec_load keyctl kill
landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen
listmount listxattr listxattrat llistxattr lookup_dcookie lremovexattr lseek lsetxattr
lsm_get_self_attr lsm_list_modules lsm_set_self_attr lstat madvise map_shadow_stack mbind membarrier
memfd_create memfd_secret migrate_pages mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall
mmap modify_ldt mount mount_setattr move_mount move_pages mprotect mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock
munlockall munmap name_to_handle_at nanosleep newfstatat nfsservctl open open_by_handle_at open_tree
open_tree_attr openat openat2 pause perf_event_open personality pidfd_getfd pidfd_open
pidfd_send_signal pipe pipe2 pivot_root pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64
preadv preadv2 prlimit64 process_madvise process_mrelease process_vm_readv process_vm_writev
pselect6 ptrace putpmsg pwrite64 pwritev pwritev2 query_module quotactl quotactl_fd read readahead
readlink readlinkat readv reboot recvfrom recvmmsg recvmsg remap_file_pages removexattr
removexattrat rename renameat renameat2 request_key restart_syscall rmdir rseq rt_sigaction
rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr
sched_setparam sched_setscheduler sched_yield seccomp security select semctl semget semop semtimedop
sendfile sendmmsg sendmsg sendto set_mempolicy set_mempolicy_home_node set_robust_list
set_thread_area set_tid_address setdomainname setfsgid setfsuid setgid setgroups sethostname
setitimer setns setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid
setsockopt settimeofday setuid setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack
signalfd signalfd4 socket socketpair splice stat statfs statmount statx swapoff swapon symlink
symlinkat sync sync_file_range sync_file_range2 syncfs sysfs sysinfo syslog tee tgkill time
timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
timerfd_gettime timerfd_settime times tkill truncate tuxcall umask umount2 uname unlink unlinkat
unshare uprobe uretprobe uselib userfaultfd ustat utime utimensat utimes vfork vhangup vmsplice
vserver wait4 waitid write writev
`

// capabilityNames are in the order of their numbers (linux/capability.h).
const capabilityNames = `
CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_KILL CAP_SETGID CAP_SETUID
CAP_SETPCAP CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_ADMIN CAP_NET_RAW
CAP_IPC_LOCK CAP_IPC_OWNER CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT
CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD
CAP_LEASE CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG
CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_AUDIT_READ CAP_PERFMON CAP_BPF CAP_CHECKPOINT_RESTORE
`

// errnoNames are those of asm-generic/errno.h.
const errnoNames = `
EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK
EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE
EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP EWOULDBLOCK ENOMSG
EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC
EBADSLT EDEADLOCK EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM
EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX
ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT
EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL
ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN
ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN
ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED
EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON
`

// signalNames are the signals that programs take for a request to end, and
// KILL, without their "SIG" (signal(7)).
const signalNames = "TERM INT HUP QUIT USR1 USR2 KILL"

// namespaceNames are the namespaces that a sandbox may leave out or list.
const namespaceNames = "pid ipc uts cgroup"

// words splits a table.
func words(table string) []string { return strings.Fields(table) }

// contains tells whether table has the word w.
func contains(table, w string) bool {
	for field := range strings.FieldsSeq(table) {
		if field == w {
			return true
		}
	}
	return false
}
