// Package run starts commands of the host and tells, when one fails, what was
// run and what it said.
package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Error is a command that could not be started or did not exit with 0.
type Error struct {
	Argv   []string
	Stderr string // trimmed, at most 4 KiB
	Err    error  // as os/exec gives it: *exec.Error or *exec.ExitError
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %v", strings.Join(e.Argv, " "), e.Err)
	if e.Stderr != "" {
		s += ": " + e.Stderr
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode returns the exit status in err, and -1 when err holds none.
func ExitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// Output runs argv with an empty standard input in a C locale and returns
// its standard output. The arguments must hold no secret: they stand in the
// error and in the host's process list.
func Output(ctx context.Context, argv ...string) ([]byte, error) {
	return Input(ctx, nil, argv...)
}

// patience is how long what a command has started may hold its output open when it
// has ended itself, or was killed with ctx.
const patience = 3 * time.Second

// Input is Output with a standard input. The command is killed when this process
// is: what it was about to change must not come after what the next one does.
func Input(ctx context.Context, stdin []byte, argv ...string) ([]byte, error) {
	// The kernel kills it when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = patience
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		msg := strings.TrimSpace(errOut.String())
		if len(msg) > 4096 {
			msg = msg[:4096]
		}
		return out.Bytes(), &Error{Argv: argv, Stderr: msg, Err: err}
	}
	return out.Bytes(), nil
}
