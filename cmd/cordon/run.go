package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/specs"
)

func runCommand(a *app) *cobra.Command {
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
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && cmd.ArgsLenAtDash() != 1 {
				return a.failed(fmt.Errorf("put -- before the command: cordon run %s -- %s", args[0], strings.Join(args[1:], " ")))
			}
			code, err := a.start(cmd.Context(), session.Request{Sandbox: args[0], Project: project, Command: args[1:]})
			if code != 0 && errors.As(err, new(exitError)) {
				return exitError{code} // it was shown
			}
			if err != nil {
				fmt.Fprintf(a.stderr, "cordon: %v\n", err)
			}
			if code != 0 {
				return exitError{code}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&project, "project", "p", "", "project that the session belongs to")
	return cmd
}

// hurry keeps the collector from running while a session starts: all that a
// start needs is a few megabytes. Within its limit memory is never short, and
// a second later all is as usual.
func hurry() {
	const limit = 256 << 20
	percent, old := debug.SetGCPercent(-1), debug.SetMemoryLimit(limit)
	time.AfterFunc(time.Second, func() {
		debug.SetMemoryLimit(old)
		debug.SetGCPercent(percent)
	})
}

// failed shows why run itself failed, which has a code of its own.
func (a *app) failed(err error) error {
	fmt.Fprintf(a.stderr, "cordon: %v\n", err)
	return exitError{session.Failed}
}

// start runs a session to its end, by the daemon for who is not root. The code
// counts with an error too.
func (a *app) start(ctx context.Context, q session.Request) (code int, err error) {
	if os.Geteuid() == 0 {
		code, err = a.startHere(ctx, q)
	} else {
		c := broker.Client{Socket: a.run().Socket(), Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr, Environ: a.environ}
		code, err = c.Run(ctx, q)
		err = orNeedRoot(err, "starting a session")
	}
	var early interruptedError
	if errors.As(err, &early) { // before the session listened
		code = 128 + int(early.signal)
	}
	return code, err
}

func (a *app) startHere(ctx context.Context, q session.Request) (code int, err error) {
	hurry()
	set, asked, err := a.enforced(ctx)
	if err != nil {
		return session.Failed, err
	}
	r := a.runner(set, q.Sandbox)
	if asked {
		r.Reload = a.askSet
	}
	r.Admit = func(context.Context) error { return context.Cause(ctx) }
	events := a.recorder()
	defer events.close(ctx)
	r.Told = events.session()
	// Signals are the session's to deal with.
	return r.Run(context.WithoutCancel(ctx), q)
}

func (a *app) runner(set specs.Set, sandbox string) *session.Runner {
	h := a.host(set)
	if s := specs.Find(set.Sandboxes, sandbox); s != nil {
		for _, e := range h.Enforcers {
			if filters, ok := e.Enforcer.(*seccomp.Enforcer); ok {
				go filters.Prepare(set, *s)
			}
		}
	}
	return &session.Runner{
		Set: set, Reconciler: h.Reconciler, RunDir: a.run(), Groups: h.cgroup, Log: h.Log,
		StateDir: a.StateDir, Tokens: tokens{}, Scrub: a.scrubber(set),
		Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr, Environ: a.environ,
		Reload: func(context.Context) (specs.Set, error) {
			set, diags := hcl.Load(a.Dir, a.options())
			return set, diags.Err()
		},
	}
}

func psCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the sessions that run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.listSessions(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, map[string]any{"format_version": "1.0", "sessions": list})
			}
			return a.showSessions(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listSessions are all that run; for who is not root, those of projects that
// the user is an operator of.
func (a *app) listSessions(ctx context.Context) ([]broker.Session, error) {
	if os.Geteuid() != 0 {
		list, err := broker.Sessions(ctx, a.run().Socket())
		return list, orNeedRoot(err, "listing sessions")
	}
	set, _, err := a.enforced(ctx)
	if err != nil {
		return nil, err
	}
	list, err := a.sessions().List(ctx, set)
	return a.withTokens(list), err
}

func (a *app) sessions() *session.Enforcer {
	return session.New(session.Options{RunDir: a.run(), Log: a.log()})
}

func (a *app) showSessions(list []broker.Session) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tPROJECT\tSANDBOX\tUSER\tADDRESS\tPID\tAGE\tTOKEN\tSTATE")
	for _, s := range list {
		state := "current"
		if s.Stale {
			state = "stale"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.ID, dash(s.Project), s.Sandbox, s.User, dash(s.Address), s.PID,
			time.Since(s.Started).Round(time.Second), s.Token, state)
	}
	return w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func stopCommand(a *app) *cobra.Command {
	var order session.Order
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "stop ID…",
		Short: "End sessions, and wait until they have ended",
		Long: `End sessions, and wait until they have ended. Each gets its sandbox's
stop_signal and grace period, unless told otherwise; then all its processes
are killed.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			if cmd.Flags().Changed("grace") {
				order.Grace = &grace
			}
			stop := a.sessions().Stop
			if os.Geteuid() != 0 {
				stop = a.askStop
			}
			var failed error
			for _, id := range ids {
				failed = errors.Join(failed, stop(cmd.Context(), id, order))
			}
			return failed
		},
	}
	cmd.Flags().StringVar(&order.Signal, "signal", "", "signal that asks it to end, instead of the sandbox's")
	cmd.Flags().DurationVar(&grace, "grace", 0, "how long it has to end, instead of the sandbox's")
	return cmd
}
