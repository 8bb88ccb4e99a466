package session_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

func TestExitCodes(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		must(t, os.WriteFile(filepath.Join(s.project, "plain"), []byte("x"), 0o644))
		must(t, os.WriteFile(filepath.Join(s.project, "script"), []byte("#!/no/such/interpreter\n"), 0o755))
		for _, c := range []struct {
			command []string
			want    int
		}{
			{[]string{"true"}, 0},
			{[]string{"sh", "-c", "exit 7"}, 7},
			{[]string{"sh", "-c", "kill -TERM $$"}, 143},
			{[]string{"sh", "-c", "kill -KILL $$"}, 137},
			{[]string{"not-there"}, 127},
			{[]string{"/bin/not-there"}, 127},
			{[]string{"./plain"}, 126},
			{[]string{"/usr"}, 126},
			{[]string{"./script"}, 126},
		} {
			if got := s.run(in("box", c.command...)); got.code != c.want || got.out != "" {
				t.Errorf("%v: exit code %d, want %d\n%s", c.command, got.code, c.want, got.err)
			}
		}
	})
}

func TestPipes(t *testing.T) {
	s := newStand(t)
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	got := s.runWith(in("box", "cat"), bytes.NewReader(data))
	if got.code != 0 || got.out != string(data) || got.err != "" {
		t.Errorf("%d of %d bytes, exit code %d, %s", len(got.out), len(data), got.code, got.err)
	}
	if got := s.run(sh("box", "echo out; echo err >&2; [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo no terminal")); got.out != "out\nno terminal\n" || got.err != "err\n" {
		t.Errorf("%+v", got)
	}
}

// started is a stand-in in the background.
type started struct {
	*exec.Cmd
	out   *bufio.Reader
	stand *stand
}

func (s *stand) start(q session.Request) *started {
	s.t.Helper()
	cmd := s.command(q)
	out, err := cmd.StdoutPipe()
	must(s.t, err)
	cmd.Stderr = os.Stderr
	must(s.t, cmd.Start())
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &started{cmd, bufio.NewReader(out), s}
}

func (c *started) line(want string) {
	c.stand.t.Helper()
	got, err := c.out.ReadString('\n')
	if err != nil || got != want+"\n" {
		c.stand.t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

// end waits for the end, at most ten seconds, and returns the exit code.
func (c *started) end() int {
	c.stand.t.Helper()
	timer := time.AfterFunc(10*time.Second, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	_ = c.Wait()
	return c.ProcessState.ExitCode()
}

func TestSignalsReachTheCommand(t *testing.T) {
	s := newStand(t)
	for sig, name := range map[syscall.Signal]string{
		syscall.SIGTERM: "TERM", syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGQUIT: "QUIT", syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2",
	} {
		c := s.start(sh("box", "trap 'echo got; exit 5' "+name+"; echo ready; while :; do sleep 0.05; done"))
		c.line("ready")
		must(t, c.Process.Signal(sig))
		c.line("got")
		if code := c.end(); code != 5 {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
	c := s.start(sh("box", "echo ready; exec sleep 60"))
	c.line("ready")
	must(t, c.Process.Signal(syscall.SIGTERM))
	if code := c.end(); code != 143 {
		t.Errorf("exit code %d", code)
	}
	s.settled()
}

// A command that does not want to end has its grace period, and not more.
func TestGrace(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		s.Set.Sandboxes[0].Grace = 300 * time.Millisecond
		c := s.start(sh("box", "trap 'echo no' TERM; (trap '' TERM; sleep 77) & echo ready; while :; do sleep 0.05; done"))
		c.line("ready")
		begun := time.Now()
		must(t, c.Process.Signal(syscall.SIGTERM))
		c.line("no")
		if code := c.end(); code != 137 {
			t.Errorf("exit code %d", code)
		}
		if took := time.Since(begun); took < 300*time.Millisecond || took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		if pid := s.hostCommand("sleep\x0077"); pid != "" {
			t.Errorf("process %s is left", pid)
		}
	})
}

func TestStopSignal(t *testing.T) {
	s := newStand(t, func(set *specs.Set) { set.Sandboxes[0].StopSignal = "USR1" })
	c := s.start(sh("box", "trap 'echo usr1; exit 3' USR1; echo ready; while :; do sleep 0.05; done"))
	c.line("ready")
	e := session.New(session.Options{RunDir: s.Dir})
	list := s.list()
	if len(list) != 1 || list[0].Project != "shop" || list[0].Sandbox != "box" || list[0].User != testUser || list[0].PID != c.Process.Pid || list[0].Stale {
		t.Fatalf("%+v", list)
	}
	must(t, e.Stop(context.Background(), list[0].ID, session.Order{}))
	c.line("usr1")
	if code := c.end(); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if err := e.Stop(context.Background(), list[0].ID, session.Order{}); err == nil {
		t.Error("a session that does not run was stopped")
	}
	c = s.start(sh("box", "trap 'echo int' INT; echo ready; while :; do sleep 0.05; done"))
	c.line("ready")
	short := 700 * time.Millisecond
	must(t, e.Stop(context.Background(), s.list()[0].ID, session.Order{Signal: "SIGINT", Grace: &short}))
	c.line("int")
	if code := c.end(); code != 137 {
		t.Errorf("exit code %d", code)
	}
	if err := e.Stop(context.Background(), "00000000", session.Order{Signal: "NONE"}); err == nil || !strings.Contains(err.Error(), "NONE") {
		t.Errorf("a signal of no name: %v", err)
	}
}

// What the command left in the background ends with it.
func TestBackgroundEnds(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		expect(t, s.run(sh("box", "sleep 88 >/dev/null 2>&1 & echo started")), 0, "started")
		if pid := s.hostCommand("sleep\x0088"); pid != "" {
			t.Errorf("process %s is left", pid)
		}
	})
}

// Killed at any moment, it leaves nothing that runs, nothing runs unverified,
// and the next start and the next apply remove the rest.
func TestKilledAnywhere(t *testing.T) {
	s := newStand(t)
	for i := range 40 {
		s.NoUserns = i%2 == 1
		name := "box"
		if i%4 < 2 {
			name = "net"
		}
		c := s.start(sh(name, "sleep 99 & sleep 99; exit 0"))
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		must(t, c.Process.Kill())
		c.end()
		until(t, "its processes have ended", func() bool { return s.hostCommand("sleep\x0099") == "" && !s.bubblewraps() })
		if i%5 != 4 {
			continue
		}
		if i%2 == 0 {
			if got := s.run(in("box", "true")); got.code != 0 { // cleans up on its own
				t.Fatalf("%+v", got)
			}
			for _, c := range s.plan(s.Set).Changes { // a half-made warm slot is completed by who takes it
				if c.Addr().Enforcer() != "slot" {
					t.Errorf("left: %s", enforcertest.Describe([]reconciler.Change{c}))
				}
			}
			continue
		}
		s.apply(s.Set)
		s.settled()
	}
}

func (s *stand) bubblewraps() bool {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(s.t, err)
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil && strings.Contains(string(b), "bwrap\x00--args\x00") && strings.Contains(string(b), "sleep 99") {
			return true
		}
	}
	return false
}

func TestTerminal(t *testing.T) {
	s := newStand(t)
	cmd := s.command(in("box", "bash", "--norc", "-i"))
	far, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 101})
	must(t, err)
	defer func() { far.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	seen := make(chan string, 1024)
	go func() {
		lines := bufio.NewReader(far)
		for {
			l, err := lines.ReadString('\n')
			seen <- strings.TrimRight(l, "\r\n")
			if err != nil {
				close(seen)
				return
			}
		}
	}()
	var all []string
	expect := func(want string) {
		t.Helper()
		late := time.After(10 * time.Second)
		for {
			select {
			case l, ok := <-seen:
				all = append(all, l)
				if strings.Contains(l, want) {
					return
				}
				if !ok {
					t.Fatalf("no %q in:\n%s", want, strings.Join(all, "\n"))
				}
			case <-late:
				t.Fatalf("no %q in:\n%s", want, strings.Join(all, "\n"))
			}
		}
	}
	typed := func(s string) {
		t.Helper()
		_, err := io.WriteString(far, s)
		must(t, err)
	}
	typed("PS1=; stty size; echo tty=$(tty)\n")
	expect("33 101")
	typed("sleep 70\n")
	until(t, "sleep runs", func() bool { return s.hostCommand("sleep\x0070") != "" })
	typed("\x1a") // Ctrl-Z
	expect("Stopped")
	typed("jobs; echo job-$((1+1))\n")
	expect("job-2")
	typed("fg\n")
	until(t, "sleep goes on", func() bool {
		b, _ := os.ReadFile("/proc/" + s.hostCommand("sleep\x0070") + "/stat")
		return strings.Contains(string(b), ") S ")
	})
	typed("\x03") // Ctrl-C
	typed("echo code=$?\n")
	expect("code=130")
	must(t, pty.Setsize(far, &pty.Winsize{Rows: 44, Cols: 55}))
	typed("sleep 0.1; stty size\n")
	expect("44 55")
	typed("exit 9\n")
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit code %d", code)
	}
	for _, l := range all {
		if strings.Contains(l, "no job control") {
			t.Error(l)
		}
	}
}

// A key that means a signal is the command's matter alone, when it makes no
// process groups of its own.
func TestTerminalSignal(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		cmd := s.command(sh("box", "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.05; done"))
		far, err := pty.Start(cmd)
		must(t, err)
		defer far.Close()
		lines := bufio.NewReader(far)
		for _, want := range []string{"ready", "caught"} {
			for {
				l, err := lines.ReadString('\n')
				if err != nil {
					_ = cmd.Process.Kill()
					t.Fatalf("no %q: %v", want, err)
				}
				if strings.Contains(l, want) {
					break
				}
			}
			if want == "ready" {
				_, err := io.WriteString(far, "\x03")
				must(t, err)
			}
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 4 {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestNetwork(t *testing.T) {
	modes(t, func(t *testing.T, s *stand) {
		c := s.start(sh("net", "grep -c : /proc/net/dev; cat /etc/hosts | grep proxy; echo ready; sleep 66"))
		c.line("2")
		c.line("198.51.100.1 proxy.internal")
		c.line("ready")
		list := s.list()
		if len(list) != 1 || list[0].Slot != 0 || list[0].Network != "llm" || list[0].Address != "198.51.100.2" {
			t.Errorf("%+v", list)
		}
		second := s.start(sh("net", "grep proxy /etc/hosts; sleep 66"))
		second.line("198.51.100.5 proxy.internal")
		must(t, second.Process.Signal(syscall.SIGTERM))
		must(t, c.Process.Signal(syscall.SIGTERM))
		second.end()
		c.end()
	})
}

// A network that can't be had is a refusal, or no network at all; a firewall
// that can't be made is never success.
func TestFallback(t *testing.T) {
	for fallback, want := range map[string]int{specs.FallbackRefuse: 125, specs.FallbackIsolated: 0} {
		t.Run(fallback, func(t *testing.T) {
			s := newStand(t, func(set *specs.Set) {
				set.Networks[0].Fallback = fallback
			})
			bin := t.TempDir() // an iptables that fails
			must(t, os.Chmod(filepath.Dir(bin), 0o755))
			for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
				must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho broken on purpose >&2\nexit 4\n"), 0o755))
			}
			cmd := s.command(sh("net", "echo links $(grep -c : /proc/net/dev)"))
			cmd.Env = append(cmd.Env, "PATH="+bin+":/usr/sbin:/usr/bin:/sbin:/bin")
			var out, errOut bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errOut
			_ = cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Errorf("exit code %d, want %d\n%s", code, want, errOut.String())
			}
			if strings.Contains(out.String(), "links 2") || want == 0 && (out.String() != "links 1\n" || !strings.Contains(errOut.String(), "isolated")) {
				t.Errorf("%q\n%s", out.String(), errOut.String())
			}
			s.settled()
		})
	}
}

func TestPoolIsFull(t *testing.T) {
	s := newStand(t)
	var all []*started
	for i := range 4 {
		c := s.start(sh("net", "echo ready; sleep 66"))
		c.line("ready")
		all = append(all, c)
		if n := len(s.list()); n != i+1 {
			t.Errorf("%d sessions", n)
		}
	}
	if got := s.run(in("net", "true")); got.code != 125 || !strings.Contains(got.err, "no free slot") {
		t.Errorf("a fifth in four slots: %+v", got)
	}
	for _, c := range all {
		must(t, c.Process.Signal(syscall.SIGTERM))
		c.end()
	}
	s.settled()
}

// A profile that changes while its session runs.
func TestRestart(t *testing.T) {
	s := newStand(t, func(set *specs.Set) { set.Sandboxes[0].OnChange = specs.OnChangeRestart })
	c := s.start(sh("box", "echo pids $WHO $(cat /proc/self/limits | wc -l | tr -d ' ' >/dev/null; ls /tmp | wc -l); touch /tmp/old; sleep 60"))
	c.line("pids box 0")
	id := s.list()[0].ID
	s.Set.Sandboxes[0].Limits.Pids = 33
	o := s.order
	o.Request = sh("box", "")
	s.write(o)
	if list := s.list(); !list[0].Stale {
		t.Errorf("%+v", list)
	}
	s.apply(s.Set)
	c.line("pids box 0")
	list := s.list()
	if len(list) != 1 || list[0].ID != id || list[0].Stale || list[0].Limits.Pids != 33 {
		t.Errorf("%+v", list)
	}
	s.apply(s.Set)
	s.settled()
	// Its sandbox is not declared any more.
	bare := s.Set
	bare.Sandboxes, bare.Projects = bare.Sandboxes[1:], nil
	s.apply(bare)
	if code := c.end(); code != 143 {
		t.Errorf("exit code %d", code)
	}
	if n := len(s.list()); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// The tree or the filter is missing or wrong: the session's own start makes it.
func TestRepairsBeforeStart(t *testing.T) {
	s := newStand(t)
	must(t, os.Remove(s.Dir.Seccomp("")))
	expect(t, s.run(sh("box", "grep Seccomp: /proc/self/status | tr '\\t' ' '")), 0, "Seccomp: 2")
	must(t, os.WriteFile(s.Dir.Seccomp(""), []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}, 0o600))
	before, err := os.ReadFile(s.Dir.Seccomp(""))
	must(t, err)
	expect(t, s.run(in("box", "true")), 0)
	after, err := os.ReadFile(s.Dir.Seccomp(""))
	must(t, err)
	if bytes.Equal(before, after) {
		t.Error("the session ran under another's filter")
	}
	half := filepath.Join(filepath.Dir(s.Dir.Session("x")), ".new-1") // of who was killed while it began
	must(t, os.Mkdir(half, 0o700))
	expect(t, s.run(in("box", "true")), 0)
	if _, err := os.Stat(half); err == nil {
		t.Errorf("%s was left", half)
	}
	begun := time.Now()
	must(t, syscall.Unmount(s.Dir.Root("box"), syscall.MNT_DETACH))
	expect(t, s.run(sh("box", "echo tree")), 0, "tree")
	// A profile that was not applied yet, while its older tree stands.
	s.Set.Sandboxes[0].Filesystem.Programs = append(s.Set.Sandboxes[0].Filesystem.Programs, "/usr/bin/tac")
	expect(t, s.run(in("box", "tac", "/etc/nsswitch.conf")), 0)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	s.settled()
}

// A project's directory that is swapped for a link.
func TestLinkedDirectory(t *testing.T) {
	s := newStand(t)
	must(t, os.Remove(s.project))
	must(t, os.Symlink("/etc", s.project))
	if got := s.run(sh("box", "ls /work")); got.code != 125 || !strings.Contains(got.err, "symbolic link") {
		t.Errorf("%+v", got)
	}
	must(t, os.Remove(s.project))
	s.settled()
}

func TestManyAtOnce(t *testing.T) {
	s := newStand(t, func(set *specs.Set) { set.Networks[0].Warm = 0 })
	var all []*started
	for range 4 {
		all = append(all, s.start(in("net", "cat", "/etc/hosts")))
	}
	seen := map[string]bool{}
	for _, c := range all {
		b, err := io.ReadAll(c.out)
		must(t, err)
		if code := c.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		seen[string(b)] = true
	}
	if len(seen) == 0 {
		t.Error("nothing was said")
	}
	s.settled()
}

func BenchmarkSession(b *testing.B) {
	s := newStand(b)
	for name, q := range map[string]session.Request{"box": in("box", "true"), "network": in("net", "true")} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got := s.run(q); got.code != 0 {
					b.Fatal(got.err)
				}
			}
		})
	}
	b.Run("stand-in alone", func(b *testing.B) { // what the test binary itself costs
		for b.Loop() {
			if got := s.run(session.Request{Sandbox: "none"}); got.code != 125 {
				b.Fatal(got.err)
			}
		}
	})
	b.Run("bare bubblewrap", func(b *testing.B) {
		for b.Loop() {
			args := strings.Fields("--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-net --ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev true")
			if out, err := exec.Command("bwrap", args...).CombinedOutput(); err != nil {
				b.Fatal(err, string(out))
			}
		}
	})
}
