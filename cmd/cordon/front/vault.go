package main

import (
	"context"
	"encoding/json"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/pair"
	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/specs"
)

// askVault has the complete program read a secret that is in a Vault. Where it
// is and what opens it goes through a pipe.
func askVault(v specs.VaultSecret, token string) (string, error) {
	path, err := pair.Beside()
	if err != nil {
		return "", err
	}
	q, err := json.Marshal(cli.VaultQuestion{Secret: v, Token: token})
	if err != nil {
		return "", err
	}
	value, err := run.Input(context.Background(), q, path, cli.VaultCommand)
	return string(value), err
}
