package session_test

import (
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
	"github.com/aicodesit/cordon/specs"
)

// modes runs a test with user namespaces, and as on a host without.
func modes(t *testing.T, f func(t *testing.T, s *stand)) {
	for name, without := range map[string]bool{"user namespaces": false, "no user namespaces": true} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			s.NoUserns = without
			f(t, s)
			s.settled()
		})
	}
}

func expect(t *testing.T, got result, code int, lines ...string) {
	t.Helper()
	if got.code != code {
		t.Errorf("exit code %d, want %d", got.code, code)
	}
	have := map[string]bool{}
	for l := range strings.Lines(got.out) {
		have[strings.TrimSuffix(l, "\n")] = true
	}
	for _, l := range lines {
		if !have[l] {
			t.Errorf("no line %q", l)
		}
	}
	if t.Failed() {
		t.Logf("standard output:\n%s\nstandard error:\n%s", got.out, got.err)
	}
}

func TestIdentity(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		got := s.run(sh("box", `
			id -un; id -gn; id -G; pwd; cat /etc/hostname 2>/dev/null || hostname
			grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr '\t' ' '
			touch /work/made; echo x > "$HOME/f" && echo home; echo x > /tmp/f && echo tmp`))
		expect(t, got, 0, testUser, fmt.Sprint(testGID), "/work", "box", "home", "tmp",
			"CapInh: 0000000000000000", "CapPrm: 0000000000000000", "CapEff: 0000000000000000", "CapBnd: 0000000000000000",
			"CapAmb: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2")
		b, err := exec.Command("stat", "-c", "%u:%g", filepath.Join(s.project, "made")).Output()
		must(t, err)
		if string(b) != fmt.Sprintf("%d:%d\n", testUID, testGID) {
			t.Errorf("a file made inside is owned by %s", b)
		}
	})
}

// What the filter refuses is in the kernel's log, and nothing else is other
// than without.
func TestLoggedRefusals(t *testing.T) {
	for name, without := range map[string]bool{"user namespaces": false, "no user namespaces": true} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, func(set *specs.Set) {
				set.Seccomps = []specs.Seccomp{{Name: "logged", Base: "container", Errno: "EPERM", Log: true}}
				set.Sandboxes[0].Seccomp = "logged"
			})
			s.NoUserns = without
			must(t, os.WriteFile(filepath.Join(s.project, "script"), []byte("#!/usr/bin/bash\necho \"script $0 $1\"; exit 5\n"), 0o755))
			expect(t, s.run(in("box", "./script", "x y")), 5, "script ./script x y")
			expect(t, s.run(in("box", "nothing-here")), 127)
			hostname, err := os.ReadFile("/usr/bin/hostname")
			must(t, err)
			logged := kerneltest.KernelLog(t)
			for deadline := time.Now().Add(20 * time.Second); ; {
				comm := fmt.Sprintf("try%d", time.Now().UnixNano()%1e9)
				must(t, os.WriteFile(filepath.Join(s.project, comm), hostname, 0o755))
				got := s.run(sh("box", `./`+comm+` x || echo refused; ls /proc/self/fd | tr '\n' ' '; echo; grep ^Seccomp_filters /proc/self/status | tr '\t' ' '`))
				expect(t, got, 0, "refused", "0 1 2 3 ", "Seccomp_filters: 2")
				for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
					if logged("type=1326", fmt.Sprintf(" uid=%d ", testUID), fmt.Sprintf("comm=%q", comm), fmt.Sprintf(" syscall=%d ", unix.SYS_SETHOSTNAME)) {
						s.settled()
						return
					}
				}
				if t.Failed() || time.Now().After(deadline) {
					t.Fatal("no record of it (or does an auditd take them?)")
				}
			}
		})
	}
}

func TestNothingElse(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		must(t, os.WriteFile("/run/secret-of-the-host", []byte("x"), 0o644))
		got := s.run(sh("box", `
			for p in /run /var/tmp /root /boot /opt /srv /sys /home/*; do [ -e "$p" ] && echo "$p: $(ls -A "$p" | tr '\n' ' ')"; done
			for f in / /usr /etc /usr/bin /dev /home /proc/sys/kernel; do touch $f/x 2>/dev/null && echo "wrote $f"; done
			for f in /etc/passwd /etc/hosts /etc/group /usr/bin/id; do (echo x >> $f) 2>/dev/null && echo "wrote $f"; done
			ls /etc | tr '\n' ' '; echo
			echo "processes $(ls /proc | grep -c '^[0-9]')"
			echo "links $(tail -n +3 /proc/net/dev 2>/dev/null | wc -l) $(grep -c : /proc/net/dev)"
			echo "fds $(ls /proc/self/fd | tr '\n' ' ')"
			head -c 80M /dev/zero > /dev/shm/x 2>/dev/null || echo "shm bounded"
			head -c 9M /dev/zero > /tmp/x 2>/dev/null || echo "tmp bounded"
			head -c 80M /dev/zero > $HOME/x 2>/dev/null || echo "home bounded"`))
		expect(t, got, 0, "fds 0 1 2 3 ", "shm bounded", "tmp bounded", "home bounded", "/run: ", "/home/"+testUser+": ")
		for _, bad := range []string{"wrote ", "/root:", "/sys:", "/srv:", "secret", "shadow", "links 1 2"} {
			if strings.Contains(got.out, bad) {
				t.Errorf("%q in:\n%s", bad, got.out)
			}
		}
		if strings.Contains(got.out, "processes 1") && len(got.out) == 0 {
			t.Error("no processes")
		}
	})
}

func TestEnvironment(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		got := s.run(sh("box", `tr '\0' '\n' < /proc/1/environ; echo --; tr '\0' '\n' < /proc/$$/environ; echo --; env`))
		parts := strings.Split(got.out, "--\n")
		if len(parts) != 3 {
			t.Fatalf("%+v", got)
		}
		want := "HOME=/home/" + testUser + "\nLC_ALL=C\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\nPWD=/work\nTERM=dumb\nUSER=" + testUser + "\nWHO=box\n"
		second := parts[2]
		if parts[0] != "" {
			t.Errorf("/proc/1/environ, of a process outside too:\n%s", parts[0])
		}
		own := strings.SplitAfter(parts[1], "\n")
		slices.Sort(own)
		if strings.Join(own, "") != want {
			t.Errorf("the command's:\n%s\nwant:\n%s", parts[1], want)
		}
		for _, l := range []string{"SECRET", orderVar, "HOME=/root", "hidden"} {
			if strings.Contains(second, l) {
				t.Errorf("%s is inside:\n%s", l, second)
			}
		}
	})
}

// What the caller left open is no way out.
func TestDescriptors(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		cmd := s.command(sh("box", "ls /proc/self/fd | tr '\\n' ' '; ls -l /proc/1/fd; cat /proc/self/fd/9/etc/hostname"))
		dir, err := os.Open("/")
		must(t, err)
		defer dir.Close()
		for range 7 {
			cmd.ExtraFiles = append(cmd.ExtraFiles, dir)
		}
		out, err := cmd.Output()
		if err == nil || !strings.HasPrefix(string(out), "0 1 2 3 ") || strings.Contains(string(out), "-> /\n") {
			t.Errorf("%q, %v", out, err)
		}
		cmd = s.command(in("box", "true"))
		cmd.Stdin = dir
		if err := cmd.Run(); err == nil {
			t.Error("a directory of the host was let in as standard input")
		}
	})
}

// Nothing of the session's is in the host's process list.
func TestHostSeesNoOptions(t *testing.T) {
	s := newStand(t)
	cmd := s.command(in("box", "sleep", "60"))
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); s.apply(s.Set) }()
	until(t, "the command runs", func() bool { return len(s.list()) == 1 && s.hostCommand("sleep\x0060") != "" })
	procs, err := s.groups.Procs(s.list()[0].ID)
	must(t, err)
	for _, pid := range procs {
		for _, file := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			must(t, err)
			if strings.Contains(string(b), "hidden") || file == "cmdline" && (strings.Contains(string(b), s.project) || strings.Contains(string(b), "LC_ALL")) {
				t.Errorf("%d %s: %q", pid, file, b)
			}
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		must(t, err)
		if !strings.Contains(string(status), fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d\n", testUID)) {
			t.Errorf("%d is not the project's user:\n%s", pid, status)
		}
	}
}

// hostCommand is the pid of a process of the host's with this command line.
func (s *stand) hostCommand(cmdline string) string {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(s.t, err)
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil && string(b) == cmdline+"\x00" {
			return filepath.Base(filepath.Dir(n))
		}
	}
	return ""
}

func TestLimits(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		got := s.run(sh("box", "head -c 400M /dev/zero | { IFS= read -r -d '' x; sleep 1; } ; perl -e '$x = \"x\" x (400 << 20)'"))
		if got.code != 137 || !strings.Contains(got.err, "memory limit of 256 MiB") {
			t.Errorf("400 MiB in 256: exit code %d\n%s", got.code, got.err)
		}
		got = s.run(sh("box", "i=0; while [ $i -lt 100 ]; do sleep 60 & i=$((i+1)); done; echo survived"))
		if strings.Contains(got.out, "survived") || !strings.Contains(got.err, "ork") {
			t.Errorf("100 processes in 64: %q\n%s", got.out, got.err)
		}
	})
}

func TestRefused(t *testing.T) {
	s := newStand(t, func(set *specs.Set) {
		p := set.Projects[0]
		owner := p
		owner.Name, owner.User, owner.Directory = "rooty", "", "/run"
		rootGroup := p
		rootGroup.Name, rootGroup.User = "rootgroup", "rootgroup"
		rootID := p
		rootID.Name, rootID.User = "rootid", "rootid"
		same, sameGroup := p, p // as root's, to setresuid(2) and setresgid(2)
		same.Name, same.User = "same", "same"
		sameGroup.Name, sameGroup.User = "samegroup", "samegroup"
		gone := p
		gone.Name, gone.User = "gone", "nobody-of-this-name"
		away, moved := owner, p // of whom nobody can tell, and whose user is declared
		away.Name, away.Directory = "away", "/srv/no/such"
		moved.Name, moved.Directory = "moved", "/srv/no/such"
		set.Projects = []specs.Project{away, gone, moved, rootGroup, rootID, owner, same, sameGroup, p}
	})
	for _, c := range []struct {
		project, sandbox string
		why              string
	}{
		{"rooty", "box", "the owner of /run (uid 0, gid 0) is root or in its group: declare another user, or user = \"root\" if that is meant; or give the directory to a user: chown -R USER: /run"},
		{"rootgroup", "box", "is root or in its group"},
		{"rootid", "box", "user rootid (uid 0, gid 54325) is root or in its group"},
		{"same", "box", "user same: 4294967295 is nobody's id"},
		{"samegroup", "box", "user samegroup: 4294967295 is nobody's id"},
		{"gone", "box", "unknown user"},
		{"away", "box", `project "away": its directory /srv/no/such is not there`},
		{"moved", "box", `project "moved": its directory /srv/no/such is not there`},
		{"", "box", "say which with --project: away, gone, moved, rootgroup, rootid, rooty, same, samegroup, shop"},
		{"none", "box", `project "none" is not declared; did you mean "gone"?`},
		{"shop", "lone", `project "shop" has no sandbox "lone"; there is `},
		{"shop", "nothing", `sandbox "nothing" is not declared; there is `},
	} {
		q := in(c.sandbox, "true")
		q.Project = c.project
		if got := s.run(q); got.code != 125 || !strings.Contains(got.err, c.why) {
			t.Errorf("%s %s: exit code %d: %s", c.project, c.sandbox, got.code, got.err)
		}
	}
	s.settled()
}

// Root where it is meant is root in its own namespace only.
func TestDeclaredRoot(t *testing.T) {
	s := newStand(t, func(set *specs.Set) { set.Projects[0].User = "root" })
	must(t, os.Chown(s.project, 0, 0))
	got := s.run(sh("box", "id -u; cat /proc/self/uid_map | tr -s ' '; for f in kernel/core_pattern vm/swappiness kernel/domainname; do [ -w /proc/sys/$f ] || echo closed $f; done; [ -w /proc/sysrq-trigger ] || echo closed sysrq; grep CapEff /proc/self/status | tr '\\t' ' '"))
	expect(t, got, 0, "0", " 0 0 1", "closed kernel/core_pattern", "closed vm/swappiness", "closed kernel/domainname", "closed sysrq", "CapEff: 0000000000000000")
	s.NoUserns = true
	if got := s.run(in("box", "true")); got.code != 125 || !strings.Contains(got.err, "user namespaces") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

func TestOutsideProject(t *testing.T) {
	s := newStand(t)
	expect(t, s.run(sh("lone", "id -un; pwd")), 0, "nobody", "/home/nobody")
	got := s.run(in("box"))
	if !strings.HasPrefix(got.out, "own shop ") {
		t.Errorf("the sandbox's own command: %q %s", got.out, got.err)
	}
}
