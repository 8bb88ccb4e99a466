package run

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOutput(t *testing.T) {
	out, err := Output(context.Background(), "sh", "-c", `printf '%s' "$LC_ALL"`)
	if err != nil || string(out) != "C" {
		t.Errorf("got %q, %v", out, err)
	}
	out, err = Input(context.Background(), []byte("in"), "cat")
	if err != nil || string(out) != "in" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestErrorTellsCommandAndStderr(t *testing.T) {
	out, err := Output(context.Background(), "sh", "-c", "echo half; echo why >&2; exit 7")
	if string(out) != "half\n" {
		t.Errorf("output %q is lost", out)
	}
	if ExitCode(err) != 7 {
		t.Errorf("exit code %d", ExitCode(err))
	}
	var e *Error
	if !errors.As(err, &e) || e.Stderr != "why" || !strings.Contains(err.Error(), "sh -c echo half") || !strings.HasSuffix(err.Error(), "exit status 7: why") {
		t.Errorf("error %q", err)
	}
	_, err = Output(context.Background(), "sh", "-c", "head -c 9999 /dev/zero | tr '\\0' x >&2; exit 1")
	if len(err.Error()) > 5000 {
		t.Errorf("%d bytes of stderr", len(err.Error()))
	}
}

func TestNotFound(t *testing.T) {
	_, err := Output(context.Background(), "/no/such/program")
	if ExitCode(err) != -1 || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got %v", err)
	}
	if _, err := Output(context.Background(), "no-such-program-on-path"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// What a process has started that is then killed changes nothing after that.
func TestKilledWithUs(t *testing.T) {
	const fifo = "CORDON_RUN_TEST_FIFO"
	if path := os.Getenv(fifo); path != "" {
		_, err := Output(t.Context(), "sh", "-c", `exec >"$1"; echo begun; exec sleep 30`, "sh", path)
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), fifo+"="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := make([]byte, len("begun\n"))
	if _, err := io.ReadFull(f, line); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := f.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(f); err != nil || len(rest) > 0 {
		t.Errorf("it lives on: %q, %v", rest, err)
	}
}

// What a command that takes too long has started is not waited for.
func TestTakesTooLong(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	out, err := Output(ctx, "sh", "-c", "(sleep 10; echo late) & wait")
	if err == nil || len(out) > 0 {
		t.Errorf("%q, %v", out, err)
	}
}
