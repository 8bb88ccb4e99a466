package main

import (
	"github.com/spf13/cobra"

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
			if err := needRoot("destroy"); err != nil {
				return err
			}
			set, err := a.load()
			if err != nil {
				return err
			}
			// The databases stay, to be looked into; nothing is desired in them.
			nothing := specs.Set{Secrets: set.Secrets, Databases: set.Databases}
			return a.apply(cmd.Context(), a.host(nothing), nothing, c, nil)
		},
	}
	cmd.Flags().BoolVar(&c.autoApprove, "auto-approve", false, "do not ask")
	return cmd
}
