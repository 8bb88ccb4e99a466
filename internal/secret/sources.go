package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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

// vault reads a field by GET /v1/MOUNT/data/PATH, as the HTTP API of the
// key/value store version 2 has it.
func (r Reader) vault(v specs.VaultSecret) (string, error) {
	if login := specs.Find(r.Secrets, v.Token); login != nil && login.Vault != nil {
		return "", fmt.Errorf("secret.%s: a Vault's token can't be in a Vault", v.Token)
	}
	token, err := r.Read(v.Token)
	if err != nil {
		return "", err
	}
	req, err := vaultRequest(v)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-Vault-Token", token)
	client := http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is for the address that was declared
	}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return vaultField(v, resp)
}

func vaultRequest(v specs.VaultSecret) (*http.Request, error) {
	base, err := url.Parse(v.Address)
	if err != nil {
		return nil, err
	}
	if base.Scheme != "https" && !(base.Scheme == "http" && loopback(base.Hostname())) {
		return nil, fmt.Errorf("%s: must be https", v.Address)
	}
	req, err := http.NewRequest(http.MethodGet, base.JoinPath("v1", v.Mount, "data", v.Path).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Vault-Request", "true")
	if v.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", v.Namespace)
	}
	return req, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func vaultField(v specs.VaultSecret, resp *http.Response) (string, error) {
	var body struct {
		Data struct {
			Data map[string]any `json:"data"`
		} `json:"data"`
		Errors []string `json:"errors"`
	}
	err := json.NewDecoder(io.LimitReader(resp.Body, 16*maxSize)).Decode(&body)
	place := resp.Request.URL.String()
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s: %s: %s", place, resp.Status, strings.Join(body.Errors, "; "))
	case err != nil:
		return "", fmt.Errorf("%s: not the answer of a Vault", place) // the decoder's own error may quote it
	}
	value, ok := body.Data.Data[v.Field].(string)
	if !ok {
		return "", fmt.Errorf("%s: has no text called %q", place, v.Field)
	}
	return clean(place, []byte(value))
}
