package terminal

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// caller is a terminal as a caller has one: far is where a person sits.
func caller(t *testing.T) (far, near *os.File) {
	t.Helper()
	far, near, err := pty.Open()
	must(t, err)
	t.Cleanup(func() { far.Close(); near.Close() })
	must(t, pty.Setsize(near, &pty.Winsize{Rows: 24, Cols: 80}))
	return far, near
}

func start(t *testing.T, r *Relay, command ...string) *exec.Cmd {
	t.Helper()
	files, tty := r.Files()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: tty >= 0, Ctty: max(tty, 0)}
	must(t, cmd.Start())
	return cmd
}

func TestRelay(t *testing.T) {
	far, near := caller(t)
	before, err := unix.IoctlGetTermios(int(near.Fd()), unix.TCGETS)
	must(t, err)
	r, err := New(Self{}, near, near, near)
	must(t, err)
	cmd := start(t, r, "sh", "-c", `stty size; read x; echo "got $x"; trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done`)
	must(t, r.Start(near))
	lines := bufio.NewReader(far)
	expect := func(want string) {
		t.Helper()
		far.SetReadDeadline(time.Now().Add(10 * time.Second))
		for {
			line, err := lines.ReadString('\n')
			must(t, err)
			if strings.TrimRight(line, "\r\n") == want {
				return
			}
		}
	}
	expect("24 80")
	raw, err := unix.IoctlGetTermios(int(near.Fd()), unix.TCGETS)
	must(t, err)
	if raw.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Error("the caller's terminal is not raw")
	}
	_, err = far.WriteString("hello\n")
	must(t, err)
	expect("got hello")
	expect("ready")
	must(t, pty.Setsize(near, &pty.Winsize{Rows: 50, Cols: 132}))
	must(t, unix.Kill(os.Getpid(), unix.SIGWINCH)) // the kernel's signal goes to a foreground group we are not in
	expect("50 132")
	must(t, cmd.Wait())
	r.Close()
	r.Close()
	after, err := unix.IoctlGetTermios(int(near.Fd()), unix.TCGETS)
	must(t, err)
	if *after != *before {
		t.Errorf("the caller's terminal was left changed: %+v, was %+v", after, before)
	}
}

// All that is written right before the end is shown.
func TestLastOutput(t *testing.T) {
	far, near := caller(t)
	r, err := New(Self{}, near, near, near)
	must(t, err)
	cmd := start(t, r, "sh", "-c", "seq 1 2000; echo last")
	must(t, r.Start(near))
	seen := make(chan bool)
	go func() {
		s := bufio.NewScanner(far)
		n := 0
		for s.Scan() {
			n++
			if s.Text() == "last" {
				seen <- n == 2001
				return
			}
		}
		seen <- false
	}()
	must(t, cmd.Wait())
	r.Close()
	if !<-seen {
		t.Error("output is missing")
	}
}

// What is no terminal is passed as it is.
func TestPassThrough(t *testing.T) {
	_, near := caller(t)
	in, err := os.Open("/dev/null")
	must(t, err)
	defer in.Close()
	r, err := New(Self{}, in, near, in)
	must(t, err)
	defer r.Close()
	files, tty := r.Files()
	if files[0] != in || files[2] != in || files[1] == near || tty != 1 {
		t.Errorf("files %v, terminal %d", files, tty)
	}
	must(t, r.Start(in))
	none, err := New(Self{}, in, in, in)
	must(t, err)
	if files, tty := none.Files(); tty != -1 || files != [3]*os.File{in, in, in} {
		t.Errorf("a terminal came from nowhere: %v, %d", files, tty)
	}
	must(t, none.Start(in))
	none.Close()
}

// Typing that comes after the session's end is the caller's.
func TestNothingStolen(t *testing.T) {
	far, near := caller(t)
	r, err := New(Self{}, near, near, near)
	must(t, err)
	cmd := start(t, r, "true")
	must(t, r.Start(near))
	must(t, cmd.Wait())
	r.Close()
	_, err = far.WriteString("mine\n")
	must(t, err)
	near.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 16)
	n, err := near.Read(buf)
	if err != nil || string(buf[:n]) != "mine\n" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

// afar is a caller that is another process.
type afar struct {
	signals chan<- os.Signal
	stopped chan struct{}
}

func (a *afar) Notify(c chan<- os.Signal, _ ...os.Signal) (stop func()) {
	a.signals = c
	return func() {}
}

func (a *afar) Stop() { a.stopped <- struct{}{} }

// While the caller is stopped its terminal is as it was before, and nobody's
// but the others'.
func TestStoppedCaller(t *testing.T) {
	far, near := caller(t)
	before, err := unix.IoctlGetTermios(int(near.Fd()), unix.TCGETS)
	must(t, err)
	a := &afar{stopped: make(chan struct{})}
	r, err := New(a, near, near, near)
	must(t, err)
	cmd := start(t, r, "sh", "-c", `echo ready; read x; echo "got $x"`)
	must(t, r.Start(near))
	defer r.Close()
	lines := bufio.NewReader(far)
	expect := func(want string) {
		t.Helper()
		far.SetReadDeadline(time.Now().Add(10 * time.Second))
		line, err := lines.ReadString('\n')
		if err != nil || strings.TrimRight(line, "\r\n") != want {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
	}
	expect("ready")
	a.signals <- unix.SIGTSTP
	<-a.stopped
	now, err := unix.IoctlGetTermios(int(near.Fd()), unix.TCGETS)
	must(t, err)
	if *now != *before {
		t.Error("the caller stopped with its terminal raw")
	}
	_, err = far.WriteString("shell\n")
	must(t, err)
	expect("shell") // the terminal's own echo
	near.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 16)
	n, err := near.Read(buf)
	if err != nil || string(buf[:n]) != "shell\n" {
		t.Errorf("what was typed for another got lost: %q, %v", buf[:n], err)
	}
	a.signals <- unix.SIGCONT
	_, err = far.WriteString("session\n")
	must(t, err)
	for {
		far.SetReadDeadline(time.Now().Add(10 * time.Second))
		line, err := lines.ReadString('\n')
		must(t, err)
		if strings.TrimRight(line, "\r\n") == "got session" {
			break
		}
	}
	must(t, cmd.Wait())
}
