package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/enforcers/session"
)

func psCommand(a *App) *cobra.Command {
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
				return WriteJSON(a.Stdout, map[string]any{"format_version": "1.0", "sessions": list})
			}
			return a.showSessions(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listSessions are all that run; for who is not root, those of projects that
// the user is an operator of.
func (a *App) listSessions(ctx context.Context) ([]broker.Session, error) {
	if os.Geteuid() != 0 {
		list, err := broker.Sessions(ctx, a.Rundir().Socket())
		return list, orNeedRoot(err, "listing sessions")
	}
	set, _, err := a.enforced(ctx)
	if err != nil {
		return nil, err
	}
	list, err := a.Sessions().List(ctx, set)
	return a.WithTokens(list), err
}

func (a *App) Sessions() *session.Enforcer {
	return session.New(session.Options{RunDir: a.Rundir(), Log: a.Log()})
}

func (a *App) showSessions(list []broker.Session) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
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

func stopCommand(a *App) *cobra.Command {
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
			stop := a.Sessions().Stop
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
