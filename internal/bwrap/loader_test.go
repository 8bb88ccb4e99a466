package bwrap

import (
	"context"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// refusesChroot is a filter that refuses chroot and allows the rest.
func refusesChroot() []byte {
	var out []byte
	for _, i := range []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CHROOT, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EXDEV)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	} {
		out = binary.LittleEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.LittleEndian.AppendUint32(out, i.K)
	}
	return out
}

// A command whose refusals are logged finds what it would find without, but
// for one filter more.
func TestLogged(t *testing.T) {
	const script = `
		echo "$0|$#|$1|$2"; pwd; /usr/sbin/chroot /usr true 2>&1; env | sort
		grep -E '^(Uid|Gid|Groups|Umask|Sig[BIC]|Cap|NoNewPrivs|Seccomp|PPid|NSpid)' /proc/self/status
		cat /proc/self/personality; ls /proc/self/fd | tr '\n' ' '; ls -l /proc/self/exe; tr '\0' '\n' </proc/$$/cmdline
		exit 9`
	modes(t, func(t *testing.T, userns bool) {
		for _, namespaces := range [][]string{{"cgroup", "ipc", "pid", "uts"}, nil} {
			s := spec(t, "bash", "-c", script, "zero", "", "x y")
			s.Userns, s.Namespaces = userns, namespaces
			must(t, os.WriteFile(s.Filter, refusesChroot(), 0o600))
			plain, code := run(t, s)
			if code != 9 || !strings.Contains(plain, "Invalid cross-device link") || !strings.Contains(plain, "\nSeccomp_filters:\t1\n") {
				t.Fatal(code, plain)
			}
			s.Logged = true
			logged, code := run(t, s)
			want := strings.Replace(plain, "Seccomp_filters:\t1", "Seccomp_filters:\t2", 1)
			if namespaces == nil { // the numbers are the host's
				want, logged = withoutPids(want), withoutPids(logged)
			}
			if code != 9 || logged != want {
				t.Errorf("%d\n%s\nwithout log:\n%s", code, logged, want)
			}
		}
	})
}

func withoutPids(s string) string {
	lines := slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool {
		return strings.HasPrefix(l, "PPid") || strings.HasPrefix(l, "NSpid")
	})
	return strings.Join(lines, "\n")
}

func TestLoggedExitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137, "kill -TERM $$": 143, "true": 0} {
		s := spec(t, "sh", "-c", script)
		s.Logged = true
		if _, code := run(t, s); code != want {
			t.Errorf("%s: %d, want %d", script, code, want)
		}
	}
}

// What stands between the gate and the command must not open it: neither
// without having been told the command nor with a filter that does not load.
func TestLoggedGate(t *testing.T) {
	s := spec(t, "true")
	s.Logged = true
	p, err := Start(s)
	must(t, err)
	must(t, p.Verify(context.Background()))
	if err := p.Release(); err == nil {
		t.Error("released without Lookup")
	}
	must(t, p.Kill())

	s = spec(t, "echo", "ran")
	s.Logged = true
	refuses := refusesChroot()
	binary.LittleEndian.PutUint32(refuses[12:], unix.SYS_SECCOMP)
	must(t, os.WriteFile(s.Filter, refuses, 0o600))
	if out, code := run(t, s); out != "" || code != 125 {
		t.Errorf("%d, %q", code, out)
	}
}
