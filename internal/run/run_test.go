package run

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
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
