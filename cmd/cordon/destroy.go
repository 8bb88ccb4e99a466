package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/specs"
)

func destroyCommand(a *app) *cobra.Command {
	c := consent{allowDeletes: true}
	cmd := &cobra.Command{
		Use:   "destroy",
		Short: "Remove all that bears cordon's mark, and nothing else",
		Long: `Remove all that bears cordon's mark from this host and from the declared
databases, running sessions included. What others made stays: their firewall
rules, their links, and their tables with all rows.

A daemon would make all of it again: destroy refuses while one is at work, and
not while it is paused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NeedRoot("destroy"); err != nil {
				return err
			}
			if err := a.unattended(cmd.Context()); err != nil {
				return err
			}
			set, err := a.Load()
			if err != nil {
				return err
			}
			// The enforcers look where the files say; nothing is desired there.
			return a.apply(cmd.Context(), a.host(set), specs.Set{}, c, nil)
		},
	}
	cmd.Flags().BoolVar(&c.autoApprove, "auto-approve", false, "do not ask")
	return cmd
}

// unattended returns an error while a daemon would undo what is done by hand.
func (a *app) unattended(ctx context.Context) error {
	s, err := a.askState(ctx)
	switch {
	case errors.As(err, new(*broker.NoDaemonError)):
		return nil
	case err != nil || s.Paused != nil:
		return err
	}
	return errors.New("a daemon keeps this host as its files say, and would make all of it again: stop it before, or have it leave things alone by cordon pause")
}
