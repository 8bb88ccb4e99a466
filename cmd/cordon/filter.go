package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/enforcers/seccomp"
)

// filterCommand is what the front asks, which has no libseccomp.
func filterCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    cli.FilterCommand,
		Short:  "Compile a system call filter, as standard input says",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var r seccomp.Resource
			d := json.NewDecoder(a.Stdin)
			d.DisallowUnknownFields()
			if err := d.Decode(&r); err != nil {
				return fmt.Errorf("the policy: %w", err)
			}
			if err := seccomp.CheckBase(r); err != nil {
				return err
			}
			program, err := a.Compiler.Program(cmd.Context(), r)
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(program)
			return err
		},
	}
}
