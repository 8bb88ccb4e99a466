package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/enforcers/cgroup"
	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

func runCommand(a *App) *cobra.Command {
	var project string
	cmd := &cobra.Command{
		Use:   "run [--project P] SANDBOX [-- COMMAND…]",
		Short: "Start a session in a sandbox",
		Long: `Start a session in a sandbox, in the foreground, with the sandbox's command
or the one given.

What the session needs is brought to what the files declare before its
command begins: its root, filter, cgroup, slot and the firewall around it.

Who is not root asks the daemon of the run directory, which starts the session
for operators of its project. Root needs no daemon; where there are no files,
the session is as the daemon's say.

The exit code is the command's own; 128+N when signal N ended it; 127 when it
is not found, 126 when it can't be executed; 125 for all that cordon itself
could not do.`,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := cmd.Root().PersistentPreRunE(cmd, args); err != nil {
				return a.failed(err) // in its settings
			}
			return nil
		},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.failed(misused(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && cmd.ArgsLenAtDash() != 1 {
				return a.failed(fmt.Errorf("put -- before the command: cordon run %s -- %s", args[0], strings.Join(args[1:], " ")))
			}
			code, err := a.start(cmd.Context(), session.Request{Sandbox: args[0], Project: project, Command: args[1:]})
			if code != 0 && errors.As(err, new(ExitError)) {
				return Exit(code) // it was shown
			}
			if err != nil {
				fmt.Fprintf(a.Stderr, "cordon: %v\n", err)
			}
			if code != 0 {
				return Exit(code)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&project, "project", "p", "", "project that the session belongs to")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return a.failed(err) })
	return cmd
}

// hurry keeps the collector from running while a session starts: all that a
// start needs is a few megabytes. Within its limit memory is never short, and
// a second later all is as usual. And it has package os find out, by a process
// that it starts, what the kernel knows of pidfds: the first to start or to find
// a process waits for that, so it shall be while the files are read.
func hurry() {
	go func() {
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Release()
		}
	}()
	const limit = 256 << 20
	percent, old := debug.SetGCPercent(-1), debug.SetMemoryLimit(limit)
	time.AfterFunc(time.Second, func() {
		debug.SetMemoryLimit(old)
		debug.SetGCPercent(percent)
	})
}

// failed shows why run itself failed, which has a code of its own.
func (a *App) failed(err error) error {
	fmt.Fprintf(a.Stderr, "cordon: %v\n", err)
	return Exit(session.Failed)
}

// start runs a session to its end, by the daemon for who is not root. The code
// counts with an error too.
func (a *App) start(ctx context.Context, q session.Request) (code int, err error) {
	if os.Geteuid() == 0 {
		code, err = a.startHere(ctx, q)
	} else {
		c := broker.Client{Socket: a.Rundir().Socket(), Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Environ: a.Environ}
		code, err = c.Run(ctx, q)
		err = orNeedRoot(err, "starting a session")
	}
	var early interruptedError
	if errors.As(err, &early) { // before the session listened
		code = 128 + int(early.signal)
	}
	return code, err
}

func (a *App) startHere(ctx context.Context, q session.Request) (code int, err error) {
	hurry()
	groups := a.Cgroups()
	go groups.Look() // while the files are read
	set, asked, err := a.enforced(ctx)
	if err != nil {
		return session.Failed, err
	}
	r := a.runner(set, groups)
	if asked {
		r.Reload = a.askSet
	}
	r.Admit = func(context.Context) error { return context.Cause(ctx) }
	events := a.Recorder()
	defer events.Close(ctx)
	r.Told = events.session()
	// Signals are the session's to deal with.
	return r.Run(context.WithoutCancel(ctx), q)
}

func (a *App) runner(set specs.Set, groups *cgroup.Enforcer) *session.Runner {
	h := &reconciler.Reconciler{Log: a.Log(), Enforcers: a.Kernel(set, groups)}
	return &session.Runner{
		Set: set, Reconciler: h, RunDir: a.Rundir(), Groups: groups, Log: h.Log,
		StateDir: a.StateDir, Tokens: tokens{}, Scrub: a.Scrubber(set),
		Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Environ: a.Environ,
		Reload: func(context.Context) (specs.Set, error) {
			set, diags := hcl.Load(a.Dir, a.LoadOptions())
			return set, diags.Err()
		},
	}
}
