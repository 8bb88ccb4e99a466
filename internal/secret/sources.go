package secret

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/specs"
)

// patience is how long a command or a Vault may take.
const patience = 10 * time.Second

// output is what a command says. Its standard error is in the errors, its
// standard output never.
func output(argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := run.Output(ctx, argv...)
	if err != nil {
		return "", err
	}
	return clean("the output of "+argv[0], b)
}

// credential is one that systemd hands to the service, see systemd.exec(5).
func credential(name string) (string, error) {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return "", errors.New("CREDENTIALS_DIRECTORY is not set: cordon was not started by a systemd unit with LoadCredential= or the like")
	}
	if name != filepath.Base(name) || name == ".." || name == "." {
		return "", fmt.Errorf("%q is not the name of a credential", name)
	}
	return file(filepath.Join(dir, name))
}

// vault reads a field, with the token that it declares.
func (r Reader) vault(v specs.VaultSecret) (string, error) {
	if login := specs.Find(r.Secrets, v.Token); login != nil && login.Vault != nil {
		return "", fmt.Errorf("secret.%s: a Vault's token can't be in a Vault", v.Token)
	}
	if r.Vault == nil {
		return "", errors.New("it is in a Vault, which is not asked here")
	}
	token, err := r.Read(v.Token)
	if err != nil {
		return "", err
	}
	value, err := r.Vault(v, token)
	if err != nil {
		return "", err
	}
	return clean(fmt.Sprintf("%q in %s/%s", v.Field, v.Mount, v.Path), []byte(value))
}
