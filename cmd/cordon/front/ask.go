package main

import (
	"context"
	"encoding/json"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/pair"
	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/specs"
)

// ask runs a command of the complete program, which takes some 30 ms to begin,
// and returns what it says. The question goes through a pipe, as JSON: it may be
// secret.
func ask(ctx context.Context, command string, question any) ([]byte, error) {
	path, err := pair.Beside()
	if err != nil {
		return nil, err
	}
	q, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	return run.Input(ctx, q, path, command)
}

// askVault reads a secret that is in a Vault.
func askVault(v specs.VaultSecret, token string) (string, error) {
	value, err := ask(context.Background(), cli.VaultCommand, cli.VaultQuestion{Secret: v, Token: token})
	return string(value), err
}

// complete compiles filters: it implements [seccomp.Compiler].
type complete struct{}

// Program implements [seccomp.Compiler].
func (complete) Program(ctx context.Context, r seccomp.Resource) ([]byte, error) {
	return ask(ctx, cli.FilterCommand, r)
}
