package tinyexec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

// asCommand makes the test binary the command, which tells how it was started.
const asCommand = "CORDON_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		if err := json.NewEncoder(os.Stdout).Encode(look()); err != nil {
			os.Exit(1)
		}
		os.Exit(7)
	}
	kerneltest.Main(m)
}

// seen is what the command finds.
type seen struct {
	Args, Env    []string
	Status       map[string]string // of /proc/self/status, what two starts have in common
	Personality  string
	Descriptor   string // what the third one is
	Refused      string // how a refused call was answered
	NotConcerned string // and another
}

func look() (s seen) {
	s.Args, s.Env, s.Status = os.Args, os.Environ(), map[string]string{}
	s.Descriptor, _ = os.Readlink("/proc/self/fd/3")
	tooLong := make([]byte, 65) // where the call is not refused, the machine keeps its name
	s.Refused = unix.ErrnoName(errnoOf(unix.Sethostname(tooLong)))
	s.NotConcerned = unix.ErrnoName(errnoOf(unix.Acct("/nonexistent")))
	b, _ := os.ReadFile("/proc/self/personality")
	s.Personality = strings.TrimSpace(string(b))
	b, _ = os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		if slices.Contains(strings.Fields("Umask Uid Gid Groups SigBlk SigIgn CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters"), key) {
			s.Status[key] = strings.TrimSpace(value)
		}
	}
	return s
}

func errnoOf(err error) (e unix.Errno) {
	errors.As(err, &e)
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refuses is a filter that answers a call with an errno and allows all others.
func refuses(call uint32, errno unix.Errno) []byte {
	var out []byte
	for _, i := range []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	} {
		out = binary.LittleEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.LittleEndian.AppendUint32(out, i.K)
	}
	return out
}

const failure = "the command could not be started\n"

// loads is a program that closes the third descriptor and loads a filter.
func loads(t *testing.T, path string, instructions []byte) Program {
	t.Helper()
	filter, err := Filter(instructions)
	must(t, err)
	return Program{Path: path, Failure: failure, Calls: []Call{
		{unix.SYS_CLOSE, []Arg{Int(3)}},
		{unix.SYS_SECCOMP, []Arg{Int(unix.SECCOMP_SET_MODE_FILTER), Int(unix.SECCOMP_FILTER_FLAG_LOG), filter}},
	}}
}

func file(t *testing.T, path string, instructions []byte) string {
	t.Helper()
	return written(t, loads(t, path, instructions))
}

func written(t *testing.T, p Program) string {
	t.Helper()
	b, err := p.ELF()
	must(t, err)
	name := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(name, b, 0o700))
	return name
}

// start runs a program with arguments, the environment and a third descriptor.
func start(t *testing.T, program string, args ...string) (out, errOut string, code int) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	var o, e bytes.Buffer
	cmd := &exec.Cmd{Path: program, Args: args, Env: []string{asCommand + "=1", "A=", "B=c d"}, ExtraFiles: []*os.File{null}, Stdout: &o, Stderr: &e}
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

func command(t *testing.T) string {
	t.Helper()
	kerneltest.Host(t) // root may load a filter without no_new_privs
	self, err := os.Executable()
	must(t, err)
	return self
}

// The command is started as if it were started directly, but for the filter.
func TestCommand(t *testing.T) {
	self := command(t)
	var direct, got seen
	out, errOut, code := start(t, self, "own name", "", "x y")
	must(t, json.Unmarshal([]byte(out), &direct))
	if code != 7 {
		t.Fatal(code, errOut)
	}
	out, errOut, code = start(t, file(t, self, refuses(unix.SYS_SETHOSTNAME, unix.EXDEV)), "program", "own name", "", "x y")
	if code != 7 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	must(t, json.Unmarshal([]byte(out), &got))
	if direct.Descriptor != os.DevNull || got.Descriptor == os.DevNull {
		t.Errorf("the descriptor: %q, %q when started directly", got.Descriptor, direct.Descriptor)
	}
	if got.Refused != "EXDEV" || got.NotConcerned != "ENOENT" {
		t.Errorf("refused %q, not concerned %q", got.Refused, got.NotConcerned)
	}
	direct.Descriptor, direct.Refused = got.Descriptor, got.Refused
	direct.Status["Seccomp"] = "2"
	direct.Status["Seccomp_filters"] = fmt.Sprint(number(t, direct.Status["Seccomp_filters"]) + 1)
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", direct); a != b {
		t.Errorf("\n%s\nstarted directly:\n%s", a, b)
	}
}

func number(t *testing.T, s string) (n int) {
	t.Helper()
	_, err := fmt.Sscan(s, &n)
	must(t, err)
	return n
}

// What bubblewrap's execvp(3) runs, runs.
func TestScript(t *testing.T) {
	command(t)
	script := filepath.Join(t.TempDir(), "script")
	for _, first := range []string{"", "#!/bin/sh\n"} {
		must(t, os.WriteFile(script, []byte(first+`echo "$0,$1,$2,$#,$B"; exit 3`), 0o700))
		out, errOut, code := start(t, file(t, script, refuses(unix.SYS_SETHOSTNAME, unix.EPERM)), "program", "own name", "", "x y")
		if want := script + ",,x y,2,c d\n"; out != want || code != 3 {
			t.Errorf("%q: %d, %q, want %q: %s", first, code, out, want, errOut)
		}
	}
}

// A refused call is in the kernel's log, one that is allowed is not.
func TestLogged(t *testing.T) {
	self := command(t)
	logged := kerneltest.KernelLog(t)
	program := file(t, self, refuses(unix.SYS_SETHOSTNAME, unix.EPERM))
	record := []string{"type=1326", fmt.Sprintf("exe=%q", self), fmt.Sprintf(" syscall=%d ", unix.SYS_SETHOSTNAME), "code=0x50000"}
	for deadline := time.Now().Add(20 * time.Second); ; {
		start(t, program, "program", "command")
		for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			if logged(record...) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no record with %q (or does an auditd take them?)", record)
		}
	}
}

// Nothing runs but under the filter.
func TestFailures(t *testing.T) {
	self := command(t)
	fine := refuses(unix.SYS_SETHOSTNAME, unix.EPERM)
	unfit := fine[:len(fine)-8] // the kernel takes none that has no end
	for name, program := range map[string]string{
		"no such file":               file(t, "/nonexistent/file", fine),
		"not executable":             file(t, "/etc/passwd", fine),
		"a filter that does not fit": file(t, self, unfit[:8]),
		"seccomp is refused":         file(t, file(t, self, fine), refuses(unix.SYS_SECCOMP, unix.EPERM)),
		"execve is refused":          file(t, self, refuses(unix.SYS_EXECVE, unix.EPERM)),
	} {
		out, errOut, code := start(t, program, "program", "command", "argument")
		if out != "" || errOut != failure || code != failed {
			t.Errorf("%s: %d, %q, %q", name, code, out, errOut)
		}
	}
}

// All six arguments get to the kernel, and each call must succeed.
func TestCalls(t *testing.T) {
	self := command(t)
	dir, value := t.TempDir(), "value"
	for _, f := range []string{"from", "other"} {
		must(t, os.WriteFile(filepath.Join(dir, f), []byte("content"), 0o600))
	}
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	calls := []Call{
		{unix.SYS_RENAMEAT2, []Arg{Int(unix.AT_FDCWD & 0xffff_ffff), String(from), Int(unix.AT_FDCWD & 0xffff_ffff), String(to), Int(unix.RENAME_NOREPLACE)}},
		{unix.SYS_SETXATTR, []Arg{String(to), String("trusted.test"), String(value), Int(uint32(len(value))), Int(0)}},
	}
	program := written(t, Program{Path: self, Failure: failure, Calls: calls})
	if _, errOut, code := start(t, program, "program", "command"); code != 7 || errOut != "" {
		t.Fatal(code, errOut)
	}
	buf := make([]byte, 16)
	if n, err := unix.Getxattr(to, "trusted.test", buf); err != nil || string(buf[:n]) != value {
		t.Errorf("%q, %v", buf[:max(n, 0)], err)
	}
	must(t, os.Rename(filepath.Join(dir, "other"), from))
	if out, errOut, code := start(t, program, "program", "command"); code != failed || out != "" || errOut != failure {
		t.Errorf("a call that fails: %d, %q, %q", code, out, errOut)
	}
	if _, err := os.Stat(from); err != nil {
		t.Error(err)
	}
}

func TestRefusedRequests(t *testing.T) {
	for name, b := range map[string][]byte{"no filter": nil, "half a filter": make([]byte, 12), "a long filter": make([]byte, 8<<16)} {
		if _, err := Filter(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := (Program{Path: "/bin/sh"}).elf("riscv64"); err == nil {
		t.Error("any architecture is accepted")
	}
	for name, p := range map[string]Program{
		"no path": {}, "two paths": {Path: "/a\x00/b"},
		"a number":        {Path: "/bin/sh", Calls: []Call{{Number: -1}}},
		"seven arguments": {Path: "/bin/sh", Calls: []Call{{Args: make([]Arg, 7)}}},
	} {
		if b, err := p.ELF(); err == nil {
			t.Errorf("%s: %d bytes", name, len(b))
		}
	}
}
