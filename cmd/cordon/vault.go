package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/internal/secret/vault"
)

// vaultCommand is what the front asks, which has no HTTP.
func vaultCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    cli.VaultCommand,
		Short:  "Read a secret from a Vault, as standard input says",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var q cli.VaultQuestion
			d := json.NewDecoder(a.Stdin)
			d.DisallowUnknownFields()
			if err := d.Decode(&q); err != nil {
				return fmt.Errorf("the question: %w", err)
			}
			value, err := vault.Read(q.Secret, q.Token)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.Stdout, value)
			return err
		},
	}
}
