// Command cordon keeps untrusted work inside what HCL files declare: it plans
// and applies sandbox profiles, networks and database access, and starts
// sessions in them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// version is set at build time.
var version = "devel"

func main() {
	// What cordon makes has the modes that it says, whatever its caller's are;
	// sessions begin with the usual ones too.
	unix.Umask(0o022)
	// A closed terminal or pipe ends an apply as an interrupt does: after the
	// change in hand.
	ctx, stop := interrupts()
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	code := a.main(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// interrupts returns a context that a signal ends, as an [interruptedError].
func interrupts() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	go func() {
		if sig, ok := (<-c).(unix.Signal); ok {
			cancel(interruptedError{sig})
		}
	}()
	return ctx, func() { signal.Stop(c) }
}

// interruptedError is the signal that ended a command.
type interruptedError struct{ signal unix.Signal }

func (e interruptedError) Error() string { return "ended by " + unix.SignalName(e.signal) }

// app is one invocation.
type app struct {
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	environ []string
	settings
}

// exitError ends with a code of its own; its message was shown already.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// main returns the exit code: 0, or 1 for an error that it has shown on
// stderr, or what the subcommand documents.
func (a *app) main(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	}
	fmt.Fprintf(a.stderr, "Error: %v\n", err)
	return 1
}

// root is the command table.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "cordon",
		Short:         "Keep agents, terminals and dev servers inside what HCL files declare",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	a.settings.register(root)
	root.AddCommand(
		validateCommand(a), fmtCommand(a),
		planCommand(a), accessCommand(a), importCommand(a), applyCommand(a), destroyCommand(a), snapshotCommand(a),
		runCommand(a), runnerCommand(a), psCommand(a), stopCommand(a),
		statusCommand(a), eventsCommand(a), pauseCommand(a), resumeCommand(a),
		gitCommand(a), proxyCommand(a), tokensCommand(a), scrubCommand(a),
		daemonCommand(a), installCommand(a),
		doctorCommand(a), versionCommand(a),
	)
	return root
}
