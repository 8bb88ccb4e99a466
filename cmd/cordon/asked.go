package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/internal/secret/vault"
)

// vaultCommand is what the front asks, which has no HTTP.
func vaultCommand(a *app) *cobra.Command {
	return asked(a, cli.VaultCommand, "Read a secret from a Vault", func(_ context.Context, q cli.VaultQuestion) ([]byte, error) {
		value, err := vault.Read(q.Secret, q.Token)
		return []byte(value), err
	})
}

// filterCommand is what the front asks, which has no libseccomp.
func filterCommand(a *app) *cobra.Command {
	return asked(a, cli.FilterCommand, "Compile a system call filter", func(ctx context.Context, r seccomp.Resource) ([]byte, error) {
		if err := seccomp.CheckBase(r); err != nil {
			return nil, err
		}
		return a.Compiler.Program(ctx, r)
	})
}

// asked is a command for the front: its question is JSON on standard input, and it
// says the answer and nothing else.
func asked[Q any](a *app, use, short string, answer func(context.Context, Q) ([]byte, error)) *cobra.Command {
	return &cobra.Command{
		Use:    use,
		Short:  short + ", as standard input says",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var q Q
			d := json.NewDecoder(a.Stdin)
			d.DisallowUnknownFields()
			if err := d.Decode(&q); err != nil {
				return fmt.Errorf("the question: %w", err)
			}
			out, err := answer(cmd.Context(), q)
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(out)
			return err
		},
	}
}
