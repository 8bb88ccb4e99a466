package agent

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// screen is what a program in a terminal wrote.
type screen struct {
	t   *testing.T
	tty *os.File
	out buffer
}

// escapes are control sequences of terminals, ECMA-48.
func escapes() *regexp.Regexp {
	return regexp.MustCompile(`\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]`)
}

// said is the text so far, without any space: words are placed by moving.
func (s *screen) said() string {
	return strings.Join(strings.Fields(escapes().ReplaceAllString(s.out.String(), "")), "")
}

func (s *screen) await(text string) {
	s.t.Helper()
	want := strings.Join(strings.Fields(text), "")
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the screen: %s", tail(s.said()))
		}
	}()
	until(s.t, "the screen shows "+text, func() bool { return strings.Contains(s.said(), want) })
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

func (s *screen) enter(keys string) {
	s.t.Helper()
	_, err := s.tty.WriteString(keys)
	must(s.t, err)
}

// tui: it opens at the prompt, answers, asks before it runs a tool, runs it.
func (r *rig) tui(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "cordon", "run", "-p", "shop", "claude-code", "--", "claude", "--permission-mode", "default")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LANG=C.UTF-8")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	must(t, err)
	s := &screen{t: t, tty: tty}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 1<<16)
		for {
			n, err := tty.Read(buf)
			_, _ = s.out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = tty.Close()
		<-read
	}()
	s.await("for shortcuts")
	s.enter("hello")
	s.await("hello")
	s.enter("\r")
	s.await("hello from the model")
	s.enter("RUN<<echo $((40+2)) > tui-note && cat tui-note>>")
	s.await("cat tui-note>>")
	s.enter("\r")
	s.await("Do you want to proceed?")
	if _, err := os.Stat("/srv/projects/shop/tui-note"); err == nil {
		t.Error("it ran before it was allowed")
	}
	// A question takes no answer in its first moment.
	until(t, "the answer is taken", func() bool {
		s.enter("\r")
		time.Sleep(time.Second)
		return strings.Contains(s.said(), "Theshellsaid:42")
	})
	if b, err := os.ReadFile("/srv/projects/shop/tui-note"); err != nil || string(b) != "42\n" {
		t.Errorf("%q (%v)", b, err)
	}
}
