package broker

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/terminal"
)

// onTerminal is what a session does with its terminal, but for the sandbox: a
// shell that reads commands from it.
func onTerminal(r *Runner, signals <-chan os.Signal) error {
	relay, err := terminal.New(r, r.Files[0], r.Files[1], r.Files[2])
	if err != nil {
		return err
	}
	defer relay.Close()
	files, tty := relay.Files()
	sh := exec.Command("sh", "-c", `stty -echo; echo "pid $PPID"; while read line; do eval "$line"; done`)
	sh.Stdin, sh.Stdout, sh.Stderr = files[0], files[1], files[2]
	sh.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: tty}
	if err := sh.Start(); err != nil {
		return err
	}
	if err := relay.Start(r.Files[0]); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			if s != unix.SIGUSR1 {
				_ = sh.Process.Kill()
			}
		}
	}()
	_ = sh.Wait()
	return nil
}

// person is somebody at a terminal, in which a client runs.
type person struct {
	*testing.T
	far, near *os.File
	lines     *bufio.Reader
	before    unix.Termios
	client    *exec.Cmd
	runner    string // its pid
}

func sit(t *testing.T) *person {
	p := starts(t, "/proc/self/exe", "terminal")
	p.begun()
	return p
}

// begun waits until the session has the terminal.
func (p *person) begun() {
	p.Helper()
	p.runner = strings.TrimPrefix(p.reads("pid "), "pid ")
	p.until("raw", func() bool { return p.modes().Lflag&unix.ICANON == 0 })
}

// starts a command at a terminal.
func starts(t *testing.T, command ...string) *person {
	h := serve(t, nil)
	far, near, err := pty.Open()
	must(t, err)
	t.Cleanup(func() { far.Close(); near.Close() })
	must(t, pty.Setsize(far, &pty.Winsize{Rows: 24, Cols: 80}))
	p := &person{T: t, far: far, near: near, lines: bufio.NewReader(far)}
	p.before = *p.modes()
	p.client = exec.Command(command[0], command[1:]...)
	p.client.Env = append(os.Environ(), asClient+"="+h.socket)
	p.client.Stdin, p.client.Stdout, p.client.Stderr = near, near, near
	p.client.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, p.client.Start())
	late := time.AfterFunc(30*time.Second, func() { _ = p.client.Process.Kill() }) // not for ever
	t.Cleanup(func() { late.Stop(); _ = p.client.Process.Kill() })
	return p
}

func (p *person) modes() *unix.Termios {
	p.Helper()
	m, err := unix.IoctlGetTermios(int(p.near.Fd()), unix.TCGETS)
	must(p, err)
	return m
}

// reads waits for a line that begins so.
func (p *person) reads(prefix string) string {
	p.Helper()
	must(p, p.far.SetReadDeadline(time.Now().Add(10*time.Second)))
	for {
		line, err := p.lines.ReadString('\n')
		must(p, err)
		if line = strings.TrimRight(line, "\r\n"); strings.HasPrefix(line, prefix) {
			return line
		}
	}
}

func (p *person) types(line string) {
	p.Helper()
	_, err := p.far.WriteString(line + "\n")
	must(p, err)
}

// until waits for what nobody tells of.
func (p *person) until(what string, ok func() bool) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 10*time.Second)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			p.Fatalf("never: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

func (p *person) asBefore() bool { return *p.modes() == p.before }

func TestTerminal(t *testing.T) {
	p := sit(t)
	p.types("stty size")
	p.reads("24 80")
	must(t, pty.Setsize(p.far, &pty.Winsize{Rows: 50, Cols: 132})) // the kernel tells the foreground, which the runner is not in
	p.types("trap '' USR2; until stty size | grep -x '50 132'; do :; done")
	p.reads("50 132")
	p.types("exit")
	if _ = p.client.Wait(); p.client.ProcessState.ExitCode() != 7 || !p.asBefore() {
		t.Errorf("%s; modes as before: %v", p.client.ProcessState, p.asBefore())
	}
}

// A client that stops leaves its terminal as it was, and what is typed then
// alone; continued, it goes on.
func TestStopAndContinue(t *testing.T) {
	p := sit(t)
	must(t, p.client.Process.Signal(unix.SIGTSTP))
	var info unix.Siginfo
	must(t, unix.Waitid(unix.P_PID, p.client.Process.Pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil))
	if !p.asBefore() {
		t.Error("it stopped with the terminal raw")
	}
	p.types("echo other's")
	p.reads("echo other's") // echoed by the terminal itself
	must(t, p.near.SetReadDeadline(time.Now().Add(10*time.Second)))
	buf := make([]byte, 64)
	if n, err := p.near.Read(buf); err != nil || string(buf[:n]) != "echo other's\n" {
		t.Errorf("what was typed for others: %q, %v", buf[:n], err)
	}
	must(t, p.client.Process.Signal(unix.SIGCONT))
	p.until("raw again", func() bool { return !p.asBefore() })
	p.types("echo mine")
	p.reads("mine")
	p.types("exit")
	if _ = p.client.Wait(); p.client.ProcessState.ExitCode() != 7 {
		t.Error(p.client.ProcessState)
	}
}

// A client in the background stops before it touches its shell's terminal.
func TestBackground(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	p := starts(t, "bash", "-c", `set -m; "$0" terminal & echo "job $!"; read x; fg; c=$?; while [ $c = 150 ]; do fg; c=$?; done; exit $c`, self)
	job := strings.TrimPrefix(p.reads("job "), "job ")
	p.until("the job stopped", func() bool {
		stat, err := os.ReadFile("/proc/" + job + "/stat")
		must(t, err)
		return strings.Contains(string(stat), ") T ")
	})
	if !p.asBefore() {
		t.Error("a background job made the terminal raw")
	}
	p.types("go on")
	p.begun()
	p.types("exit")
	if _ = p.client.Wait(); p.client.ProcessState.ExitCode() != 7 {
		t.Error(p.client.ProcessState)
	}
}

// Whichever of the two is killed, the terminal is as it was.
func TestKilledAtTerminal(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		p := sit(t)
		must(t, p.client.Process.Kill())
		_ = p.client.Wait()
		p.until("modes as before", p.asBefore)
		p.until("the runner's end", func() bool { _, err := os.Stat("/proc/" + p.runner); return err != nil })
	})
	t.Run("runner", func(t *testing.T) {
		p := sit(t)
		must(t, exec.Command("kill", "-KILL", p.runner).Run())
		if _ = p.client.Wait(); p.client.ProcessState.ExitCode() != 125 || !p.asBefore() {
			t.Errorf("%s; modes as before: %v", p.client.ProcessState, p.asBefore())
		}
	})
}
