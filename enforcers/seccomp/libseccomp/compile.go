// Package libseccomp compiles the policies of package seccomp by the library of
// that name, which is linked by cgo: only programs that compile link it.
package libseccomp

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"

	scmp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/enforcers/seccomp/base"
	"github.com/aicodesit/cordon/reconciler"
)

// Compiler implements [seccomp.Compiler] and [reconciler.Examiner].
type Compiler struct{}

// Program implements [seccomp.Compiler]. It takes about a millisecond.
func (Compiler) Program(_ context.Context, r seccomp.Resource) ([]byte, error) {
	m, err := native()
	if err != nil {
		return nil, err
	}
	return compile(r, m)
}

// Examine implements [reconciler.Examiner].
func (c Compiler) Examine(ctx context.Context) []reconciler.Finding {
	f := reconciler.Finding{Subject: "libseccomp", Status: reconciler.OK, Text: "version " + installed()}
	if _, err := c.Program(ctx, seccomp.Resource{Base: seccomp.Base, Errno: "EPERM"}); err != nil {
		f.Status, f.Text = reconciler.Fail, f.Text+": the base does not compile: "+err.Error()
		f.Remedy = "install libseccomp 2.5 or later"
	}
	return []reconciler.Finding{f}
}

func installed() string {
	major, minor, micro := scmp.GetLibraryVersion()
	return fmt.Sprintf("%d.%d.%d", major, minor, micro)
}

// maxNumber bounds the search for the end of the table of calls, which is
// also taken to have ended where maxGap numbers in a row have no name: to look
// at the rest would take longer than all else. The longest gap is that of arm64,
// from 295 to 423.
const (
	maxNumber = 1024
	maxGap    = 192
)

// maxProgram is BPF_MAXINSNS of linux/bpf_common.h.
const maxProgram = 4096

// machine is an architecture that filters can be compiled for.
type machine struct {
	arch  scmp.ScmpArch
	token uint32 // AUDIT_ARCH_…, linux/audit.h
	ioctl uint32 // number of ioctl
	x32   bool
}

// machineOf takes the name that Go has for it.
func machineOf(goarch string) (machine, error) {
	switch goarch {
	case "amd64":
		return machine{arch: scmp.ArchAMD64, token: unix.AUDIT_ARCH_X86_64, ioctl: 16, x32: true}, nil
	case "arm64":
		return machine{arch: scmp.ArchARM64, token: unix.AUDIT_ARCH_AARCH64, ioctl: 29}, nil
	}
	return machine{}, fmt.Errorf("filters can't be compiled for %s, only for amd64 and arm64", goarch)
}

// native is the host's machine.
func native() (machine, error) { return machineOf(runtime.GOARCH) }

// verdict is what a filter does with a call.
type verdict struct {
	errno      unix.Errno // 0: allowed
	conditions []base.Condition
}

// compile returns the program of a policy, the same for the same policy,
// machine and library.
func compile(r seccomp.Resource, m machine) ([]byte, error) {
	verdicts, err := verdictsOf(r, m)
	if err != nil {
		return nil, err
	}
	f, err := scmp.NewFilter(scmp.ActErrno.SetReturnCode(int16(unix.EPERM)))
	if err != nil {
		return nil, err
	}
	defer f.Release()
	if err := only(f, m.arch); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(verdicts)) {
		if err := addRule(f, name, verdicts[name]); err != nil {
			return nil, fmt.Errorf("rule for %s: %w", name, err)
		}
	}
	table, err := export(f)
	if err != nil {
		return nil, err
	}
	gaps, last := spans(known(m, maxGap))
	program := append(encode(prelude(m, gaps, last, ioctls(r))), table...)
	if len(program) > 8*maxProgram {
		return nil, fmt.Errorf("the filter has %d instructions, the kernel takes %d", len(program)/8, maxProgram)
	}
	return program, nil
}

// known tells which numbers of m have a name, up to the end of its table.
func known(m machine, maxGap int) []bool {
	var list []bool
	for n, gap := 0, 0; n < maxNumber && gap < maxGap; n++ {
		_, err := scmp.ScmpSyscall(n).GetNameByArch(m.arch)
		list = append(list, err == nil)
		gap++
		if err == nil {
			gap = 0
		}
	}
	return list
}

// verdictsOf decides for each call that m has: base, then allow, then deny.
func verdictsOf(r seccomp.Resource, m machine) (map[string]verdict, error) {
	errno, err := errnoOf(r.Errno)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(r.Allow, r.Deny) {
		if _, err := number(name, m); err != nil {
			return nil, err
		}
	}
	out := map[string]verdict{"ioctl": {}, "clone3": {errno: unix.ENOSYS}}
	for _, name := range base.Allowed() {
		out[name] = verdict{}
	}
	for _, c := range base.Conditions() {
		out[c.Call] = verdict{conditions: append(out[c.Call].conditions, c)}
	}
	for _, name := range r.Allow {
		out[name] = verdict{}
	}
	for _, name := range r.Deny {
		if name != "clone3" {
			out[name] = verdict{errno: errno}
		}
	}
	maps.DeleteFunc(out, func(name string, _ verdict) bool {
		n, err := number(name, m)
		return err != nil || n < 0
	})
	return out, nil
}

// ioctls are the requests to refuse, unless all are: who allows ioctl means
// the devices of a program, not the terminal of whoever started the session.
func ioctls(r seccomp.Resource) []uint32 {
	if slices.Contains(r.Deny, "ioctl") {
		return nil
	}
	return base.RefusedIoctls()
}

// number returns the call's number, below zero for one that only other
// architectures have.
func number(name string, m machine) (int, error) {
	n, err := scmp.GetSyscallFromNameByArch(name, m.arch)
	if err != nil {
		return 0, fmt.Errorf("%s: no system call that libseccomp %s knows", name, installed())
	}
	return int(n), nil
}

func errnoOf(name string) (unix.Errno, error) {
	for e := unix.Errno(1); e < 4096; e++ { // MAX_ERRNO
		if unix.ErrnoName(e) == name {
			return e, nil
		}
	}
	return 0, fmt.Errorf("%s: no such errno", name)
}

// only makes f one for arch, which kills calls of any other.
func only(f *scmp.ScmpFilter, arch scmp.ScmpArch) error {
	if err := f.SetBadArchAction(scmp.ActKillProcess); err != nil {
		return fmt.Errorf("kill foreign architectures: %w", err)
	}
	host, err := scmp.GetNativeArch()
	if err != nil || host == arch {
		return err
	}
	if err := f.AddArch(arch); err != nil {
		return err
	}
	return f.RemoveArch(host)
}

// addRule takes the number that the host has for the name, which the library
// translates to that of the filter's architecture.
func addRule(f *scmp.ScmpFilter, name string, v verdict) error {
	call, err := scmp.GetSyscallFromName(name)
	if err != nil {
		return err
	}
	switch {
	case v.errno == unix.EPERM: // what the filter does anyway; the library refuses to say it twice
		return nil
	case v.errno != 0:
		return f.AddRuleExact(call, scmp.ActErrno.SetReturnCode(int16(v.errno)))
	case len(v.conditions) == 0:
		return f.AddRuleExact(call, scmp.ActAllow)
	}
	for _, c := range v.conditions {
		cond, err := scmp.MakeCondition(c.Arg, scmp.CompareMaskedEqual, c.Mask, c.Value)
		if err != nil {
			return err
		}
		if err := f.AddRuleConditionalExact(call, scmp.ActAllow, []scmp.ScmpCondition{cond}); err != nil {
			return err
		}
	}
	return nil
}

// export returns f's program. The library writes to a descriptor; one in
// memory needs no name.
func export(f *scmp.ScmpFilter) ([]byte, error) {
	fd, err := unix.MemfdCreate("filter", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "filter")
	defer file.Close()
	if err := f.ExportBPF(file); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}
