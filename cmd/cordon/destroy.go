package main

import (
	"github.com/spf13/cobra"

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
rules, their links, and their tables with all rows.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NeedRoot("destroy"); err != nil {
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
