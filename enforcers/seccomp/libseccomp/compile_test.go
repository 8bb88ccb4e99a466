package libseccomp

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	scmp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/enforcers/seccomp/base"
)

const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
	eperm = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	nosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

func machineFor(t *testing.T, arch string) machine {
	t.Helper()
	m, err := machineOf(arch)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func policy(deny, allow []string, errno string) seccomp.Resource {
	return seccomp.Resource{Filter: "x", Base: seccomp.Base, Deny: deny, Allow: allow, Errno: errno}
}

func compiled(t *testing.T, r seccomp.Resource, m machine) []byte {
	t.Helper()
	if r.Errno == "" {
		r.Errno = "EPERM"
	}
	p, err := compile(r, m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func answer(t *testing.T, program []byte, c call) uint32 {
	t.Helper()
	got, err := interpret(program, c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func nr(t *testing.T, name string, m machine) uint32 {
	t.Helper()
	n, err := number(name, m)
	if err != nil || n < 0 {
		t.Fatalf("%s: %d, %v", name, n, err)
	}
	return uint32(n)
}

func TestBase(t *testing.T) {
	const garbage = 0xdead_beef << 32
	tests := []struct {
		name string
		args []uint64
		want uint32
	}{
		{"read", nil, allow},
		{"openat", nil, allow},
		{"execve", nil, allow},
		{"futex", nil, allow},
		{"ptrace", nil, allow},
		{"seccomp", nil, allow},
		{"mount", nil, eperm},
		{"umount2", nil, eperm},
		{"unshare", nil, eperm},
		{"setns", nil, eperm},
		{"pivot_root", nil, eperm},
		{"chroot", nil, eperm},
		{"open_tree", nil, eperm},
		{"mount_setattr", nil, eperm},
		{"bpf", nil, eperm},
		{"perf_event_open", nil, eperm},
		{"kexec_load", nil, eperm},
		{"init_module", nil, eperm},
		{"finit_module", nil, eperm},
		{"keyctl", nil, eperm},
		{"add_key", nil, eperm},
		{"request_key", nil, eperm},
		{"userfaultfd", nil, eperm},
		{"io_uring_setup", nil, eperm},
		{"io_uring_enter", nil, eperm},
		{"open_by_handle_at", nil, eperm},
		{"name_to_handle_at", nil, eperm},
		{"reboot", nil, eperm},
		{"syslog", nil, eperm},
		{"pidfd_getfd", nil, eperm},
		{"clone3", nil, nosys},

		{"clone", []uint64{0}, allow},
		{"clone", []uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID}, allow},
		{"clone", []uint64{garbage | uint64(unix.SIGCHLD)}, allow},
		{"clone", []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, eperm},
		{"clone", []uint64{garbage | unix.CLONE_NEWUSER}, eperm},
		{"clone", []uint64{unix.CLONE_NEWNS}, eperm},
		{"clone", []uint64{unix.CLONE_NEWCGROUP}, eperm},
		{"clone", []uint64{unix.CLONE_NEWUTS}, eperm},
		{"clone", []uint64{unix.CLONE_NEWIPC}, eperm},
		{"clone", []uint64{unix.CLONE_NEWPID}, eperm},
		{"clone", []uint64{unix.CLONE_NEWNET}, eperm},

		{"ioctl", []uint64{0, unix.TCGETS}, allow},
		{"ioctl", []uint64{0, unix.TIOCSWINSZ}, allow},
		{"ioctl", []uint64{unix.TIOCSTI, 0}, allow}, // the first argument is the descriptor
		{"ioctl", []uint64{0, unix.TIOCSTI}, eperm},
		{"ioctl", []uint64{0, garbage | unix.TIOCSTI}, eperm},
		{"ioctl", []uint64{0, 1<<32 | unix.TIOCSTI}, eperm},
		{"ioctl", []uint64{0, 0x541c}, eperm},
		{"ioctl", []uint64{0, garbage | 0x541c}, eperm},
		{"ioctl", []uint64{0, unix.TIOCSTI + 1}, allow},

		{"socket", []uint64{unix.AF_UNIX}, allow},
		{"socket", []uint64{unix.AF_INET}, allow},
		{"socket", []uint64{unix.AF_INET6}, allow},
		{"socket", []uint64{unix.AF_NETLINK}, allow},
		{"socket", []uint64{garbage | unix.AF_VSOCK}, eperm},
		{"socket", []uint64{unix.AF_VSOCK}, eperm},
		{"socket", []uint64{unix.AF_ALG}, eperm},
		{"socket", []uint64{unix.AF_PACKET}, eperm},
		{"socket", []uint64{unix.AF_BLUETOOTH}, eperm},
		{"socket", []uint64{0}, eperm},

		{"personality", []uint64{0}, allow},
		{"personality", []uint64{8}, allow},
		{"personality", []uint64{0x20008}, allow},
		{"personality", []uint64{0xffffffff}, allow},
		{"personality", []uint64{0x0040000}, eperm},
		{"personality", []uint64{0x0400000 | 8}, eperm},
	}
	for _, arch := range []string{"amd64", "arm64"} {
		m := machineFor(t, arch)
		program := compiled(t, policy(nil, nil, ""), m)
		for _, tt := range tests {
			c := call{nr: nr(t, tt.name, m), arch: m.token}
			copy(c.args[:], tt.args)
			if got := answer(t, program, c); got != tt.want {
				t.Errorf("%s: %s(%#x) answers %#x, want %#x", arch, tt.name, tt.args, got, tt.want)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	const i386 = unix.AUDIT_ARCH_I386
	amd64, arm64 := machineFor(t, "amd64"), machineFor(t, "arm64")
	for _, tt := range []struct {
		name string
		m    machine
		c    call
		want uint32
	}{
		{"unknown", amd64, call{nr: 9999, arch: amd64.token}, nosys},
		{"in a gap", amd64, call{nr: 400, arch: amd64.token}, nosys},
		{"first of the gap", amd64, call{nr: 335, arch: amd64.token}, nosys},
		{"before the gap", amd64, call{nr: 334, arch: amd64.token}, allow}, // rseq
		{"behind the gap", amd64, call{nr: 424, arch: amd64.token}, allow}, // pidfd_send_signal
		{"just below x32", amd64, call{nr: 0x3fffffff, arch: amd64.token}, nosys},
		{"x32 read", amd64, call{nr: 0x40000000, arch: amd64.token}, kill},
		{"x32 mount", amd64, call{nr: 0x40000000 | 165, arch: amd64.token}, kill},
		{"x32 own numbers", amd64, call{nr: 0x40000000 | 512, arch: amd64.token}, kill},
		{"i386 on amd64", amd64, call{nr: 3, arch: i386}, kill},
		{"i386 unknown", amd64, call{nr: 9999, arch: i386}, kill},
		{"arm64 on amd64", amd64, call{nr: 63, arch: arm64.token}, kill},
		{"amd64 on arm64", arm64, call{nr: 0, arch: amd64.token}, kill},
		{"arm on arm64", arm64, call{nr: 3, arch: unix.AUDIT_ARCH_ARM}, kill},
		{"unknown on arm64", arm64, call{nr: 9999, arch: arm64.token}, nosys},
		{"in a gap on arm64", arm64, call{nr: 300, arch: arm64.token}, nosys},
	} {
		program := compiled(t, policy(nil, nil, ""), tt.m)
		if got := answer(t, program, tt.c); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

// Every number, with no argument, answers what the table says: nothing was
// lost or added on the way through the library.
func TestWholeTable(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		m := machineFor(t, arch)
		program := compiled(t, policy([]string{"ptrace"}, []string{"mount"}, "EACCES"), m)
		for n := range uint32(2000) {
			name, err := scmp.ScmpSyscall(n).GetNameByArch(m.arch)
			var want uint32
			switch {
			case err != nil, name == "clone3":
				want = nosys
			case name == "ptrace":
				want = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
			case name == "mount", name == "ioctl", name == "clone", name == "personality", slices.Contains(base.Allowed(), name):
				want = allow
			default:
				want = eperm
			}
			if got := answer(t, program, call{nr: n, arch: m.token}); got != want {
				t.Errorf("%s: %d (%s) answers %#x, want %#x", arch, n, name, got, want)
			}
		}
	}
}

// All ioctl numbers of 16 bits, and each single bit above: only two are refused.
func TestIoctlNumbers(t *testing.T) {
	m := machineFor(t, "amd64")
	program := compiled(t, policy(nil, nil, ""), m)
	for request := range uint64(1 << 16) {
		want := uint32(allow)
		if request == 0x5412 || request == 0x541c {
			want = eperm
		}
		if got := answer(t, program, call{nr: m.ioctl, arch: m.token, args: [6]uint64{0, request}}); got != want {
			t.Fatalf("ioctl %#x answers %#x", request, got)
		}
	}
	for bit := 16; bit < 64; bit++ {
		want := uint32(allow)
		if bit >= 32 {
			want = eperm
		}
		if got := answer(t, program, call{nr: m.ioctl, arch: m.token, args: [6]uint64{0, 0x5412 | 1<<bit}}); got != want {
			t.Errorf("TIOCSTI with bit %d answers %#x", bit, got)
		}
	}
}

func TestPolicies(t *testing.T) {
	m := machineFor(t, "amd64")
	newuser := []uint64{unix.CLONE_NEWUSER}
	for _, tt := range []struct {
		what string
		r    seccomp.Resource
		name string
		args []uint64
		want uint32
	}{
		{"deny wins over the base", policy([]string{"ptrace"}, nil, ""), "ptrace", nil, eperm},
		{"errno", policy([]string{"ptrace"}, nil, "ENOSYS"), "ptrace", nil, nosys},
		{"errno is for deny alone", policy([]string{"ptrace"}, nil, "ENOSYS"), "mount", nil, eperm},
		{"deny what the base refuses", policy([]string{"mount"}, nil, "ENOENT"), "mount", nil, unix.SECCOMP_RET_ERRNO | uint32(unix.ENOENT)},
		{"allow adds", policy(nil, []string{"mount"}, ""), "mount", nil, allow},
		{"allow clone", policy(nil, []string{"clone"}, ""), "clone", newuser, allow},
		{"allow clone3", policy(nil, []string{"clone3"}, ""), "clone3", nil, allow},
		{"allow socket", policy(nil, []string{"socket"}, ""), "socket", []uint64{unix.AF_PACKET}, allow},
		{"allow ioctl", policy(nil, []string{"ioctl"}, ""), "ioctl", []uint64{0, unix.TIOCSTI}, eperm},
		{"allow ioctl, console", policy(nil, []string{"ioctl"}, ""), "ioctl", []uint64{0, 1<<32 | 0x541c}, eperm},
		{"allow ioctl, others", policy(nil, []string{"ioctl"}, ""), "ioctl", []uint64{0, unix.TCGETS}, allow},
		{"allow personality", policy(nil, []string{"personality"}, ""), "personality", []uint64{0x0040000}, allow},
		{"deny ioctl", policy([]string{"ioctl"}, nil, "ENOTTY"), "ioctl", []uint64{0, unix.TCGETS}, unix.SECCOMP_RET_ERRNO | uint32(unix.ENOTTY)},
		{"deny clone", policy([]string{"clone"}, nil, ""), "clone", []uint64{0}, eperm},
		{"deny socket", policy([]string{"socket"}, nil, "EACCES"), "socket", []uint64{unix.AF_INET}, unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
		{"clone3 stays ENOSYS", policy([]string{"clone3"}, nil, "EPERM"), "clone3", nil, nosys},
	} {
		c := call{nr: nr(t, tt.name, m), arch: m.token}
		copy(c.args[:], tt.args)
		if got := answer(t, compiled(t, tt.r, m), c); got != tt.want {
			t.Errorf("%s: %s answers %#x, want %#x", tt.what, tt.name, got, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	m := machineFor(t, "arm64")
	if _, err := compile(policy([]string{"open", "socketcall"}, []string{"fork"}, "EPERM"), m); err != nil {
		t.Errorf("calls of other architectures are refused: %v", err)
	}
	for _, r := range []seccomp.Resource{policy([]string{"opn"}, nil, "EPERM"), policy(nil, []string{"opn"}, "EPERM")} {
		if _, err := compile(r, m); err == nil || !strings.Contains(err.Error(), "opn: no system call that libseccomp ") {
			t.Errorf("an unknown call: %v", err)
		}
	}
	if _, err := compile(policy(nil, nil, "EWHAT"), m); err == nil || !strings.Contains(err.Error(), "EWHAT") {
		t.Errorf("an unknown errno: %v", err)
	}
	if _, err := machineOf("s390x"); err == nil {
		t.Error("s390x, whose clone has another order of arguments, is accepted")
	}
	// A name that no architecture has is a slip of the pen.
	for _, name := range base.Allowed() {
		if _, err := number(name, machineFor(t, "amd64")); err != nil && !slices.Contains(newer, name) {
			t.Errorf("table: %v", err)
		}
	}
	if list := base.Allowed(); len(slices.Compact(slices.Clone(list))) != len(list) {
		t.Error("the table has a name twice")
	}
}

// newer are calls that Debian 12's library does not know.
var newer = []string{
	"futex_requeue", "futex_wait", "futex_wake", "getsid", "getxattrat", "listmount", "listxattrat", "map_shadow_stack", "mseal",
	"removexattrat", "riscv_hwprobe", "setxattrat", "statmount", "uretprobe",
}

func TestDeterministic(t *testing.T) {
	m := machineFor(t, "amd64")
	first := compiled(t, policy([]string{"ptrace", "keyctl"}, []string{"mount", "unshare"}, "EACCES"), m)
	for range 20 {
		if !bytes.Equal(first, compiled(t, policy([]string{"ptrace", "keyctl"}, []string{"mount", "unshare"}, "EACCES"), m)) {
			t.Fatal("the same policy compiles to another program")
		}
	}
}

// The end of the table is found without a look at all numbers.
func TestKnown(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		m := machineFor(t, arch)
		gaps, last := spans(known(m, maxGap))
		allGaps, end := spans(known(m, maxNumber))
		if last != end || !slices.Equal(gaps, allGaps) {
			t.Errorf("%s: the table ends at %d, not %d", arch, end, last)
		}
		for _, g := range allGaps {
			if g.last-g.first+1 > maxGap-32 {
				t.Errorf("%s: the gap %v is almost maxGap", arch, g)
			}
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	m, err := native()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := compile(seccomp.Resource{Base: seccomp.Base, Errno: "EPERM"}, m); err != nil {
			b.Fatal(err)
		}
	}
}
