package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/view"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

func statusCommand(a *app) *cobra.Command {
	var watch, asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the host stands, by the daemon that keeps it",
		Long: `Show how the host stands, by the daemon that keeps it: the revision that is
enforced, each part with since when and why it is as it is, what is to be
changed, sessions, the last drift and its repair.

The exit code is 0 when all is as the newest revision declares, and 1 in every
other case: something differs or fails, a revision is refused, the daemon is
paused, or none runs. Projects' operators may ask too; what differs and why is
root's to know.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := &statusView{app: a, asJSON: asJSON, ask: a.askState}
			if watch {
				return v.watch(cmd.Context())
			}
			s, err := v.ask(cmd.Context())
			if err != nil {
				return err
			}
			return errors.Join(v.show(s), unlessConverged(s))
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on showing it until interrupted; elsewhere than on a terminal, a line for each change")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; with --watch, a line a second")
	return cmd
}

// askState asks the daemon.
func (a *app) askState(ctx context.Context) (loop.State, error) {
	var s loop.State
	err := a.request(ctx, broker.KindState, nil, &s)
	return s, err
}

// request asks the daemon for something that it can do at once.
func (a *app) request(ctx context.Context, kind string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	socket := a.Rundir().Socket()
	err := broker.Call(ctx, socket, kind, body, result)
	switch {
	case errors.As(err, new(*broker.NoDaemonError)):
		return fmt.Errorf("%w: cordon daemon starts one, cordon plan looks at the host without", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the daemon does not answer (socket %s): %w", socket, err)
	}
	return err
}

// askTimeout is how long the daemon may take to answer what it knows already.
const askTimeout = 10 * time.Second

func unlessConverged(s loop.State) error {
	if s.Converged() {
		return nil
	}
	return cli.Exit(1)
}

// statusView shows states.
type statusView struct {
	*app
	asJSON bool
	ask    func(context.Context) (loop.State, error)
	last   string // what the last line said
}

func (v *statusView) show(s loop.State) error {
	if v.asJSON {
		return cli.WriteJSON(v.Stdout, s)
	}
	_, err := fmt.Fprint(v.Stdout, statusText(s, reconciler.Style{Color: v.Color(v.Stdout)}))
	return err
}

// watch shows the state again and again until ctx ends. A daemon that is away
// may come back.
func (v *statusView) watch(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		s, err := v.ask(ctx)
		if ctx.Err() == nil {
			if err := v.again(s, err); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, unlessConverged(s))
		case <-tick.C:
		}
	}
}

// again shows a state in the place of the one before.
func (v *statusView) again(s loop.State, failed error) error {
	switch {
	case v.asJSON && failed != nil:
		return failed
	case v.asJSON:
		return json.NewEncoder(v.Stdout).Encode(s)
	}
	h := view.Of(s)
	line := h.Word + ": " + h.Why
	if failed != nil {
		line = "Unknown: " + failed.Error()
	}
	if !term.IsTerminal(int(v.Stdout.Fd())) {
		if line == v.last {
			return nil
		}
		v.last = line
		_, err := fmt.Fprintf(v.Stdout, "%s %s\n", time.Now().Format(time.DateTime), reconciler.Line(line))
		return err
	}
	text := line + "\n"
	if failed == nil {
		text = statusText(s, reconciler.Style{Color: v.Color(v.Stdout)})
	}
	// Each line replaces what stood there, so that nothing flickers.
	_, err := fmt.Fprint(v.Stdout, "\x1b[H"+strings.ReplaceAll(text, "\n", "\x1b[K\n")+"\x1b[J")
	return err
}
