package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/hcl"
)

func validateCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the files, all of them, without looking at the host",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			set, diags := hcl.Load(a.Dir, a.options())
			var err error
			if asJSON {
				err = writeJSON(a.stdout, diags)
			} else {
				err = diags.WriteText(a.stderr, a.color(a.stderr))
			}
			switch {
			case err != nil:
				return err
			case diags.HasErrors():
				return exitError{1}
			case !asJSON:
				fmt.Fprintf(a.stdout, "Valid: %d sandboxes, %d networks, %d projects, %d databases.\n",
					len(set.Sandboxes), len(set.Networks), len(set.Projects), len(set.Databases))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(*cobra.Command, []string) { fmt.Fprintln(a.stdout, "cordon", version) },
	}
}
