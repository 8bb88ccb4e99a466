// Package secret reads credentials at the moment of use. What it returns goes
// to the peer that needs it and nowhere else.
package secret

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// maxSize bounds a secret's file, in bytes.
const maxSize = 64 << 10

// Reader looks secrets up by name.
type Reader struct {
	Secrets []specs.Secret
	// Vault reads a secret that is in a Vault, with the token that opens it:
	// [vault.Read], or what has another process do that. Without it those
	// can't be read.
	Vault func(v specs.VaultSecret, token string) (string, error)
}

// Read returns the value of the secret called name, without one trailing
// newline. Its errors name the place, never the value.
func (r Reader) Read(name string) (string, error) {
	s := specs.Find(r.Secrets, name)
	if s == nil {
		return "", fmt.Errorf("secret.%s: not declared", name)
	}
	value, err := r.read(*s)
	if err != nil {
		return "", fmt.Errorf("secret.%s: %w", name, err)
	}
	return value, nil
}

func (r Reader) read(s specs.Secret) (string, error) {
	switch {
	case s.Env != "":
		v, ok := os.LookupEnv(s.Env)
		if !ok || v == "" {
			return "", fmt.Errorf("the environment variable %s is not set", s.Env)
		}
		return v, nil
	case len(s.Command) > 0:
		return output(s.Command)
	case s.Systemd != "":
		return credential(s.Systemd)
	case s.Vault != nil:
		return r.vault(*s.Vault)
	}
	return file(s.File)
}

func file(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return "", err
	}
	return clean(path, b)
}

// clean takes one trailing newline off what a place held.
func clean(place string, b []byte) (string, error) {
	if len(b) > maxSize {
		return "", fmt.Errorf("%s is larger than %d bytes", place, maxSize)
	}
	v := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if v == "" {
		return "", errors.New(place + " is empty")
	}
	return v, nil
}
