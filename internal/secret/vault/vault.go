// Package vault reads secrets that are in a Vault. It stands apart from the
// other places of secrets for what it costs: HTTP and TLS are more than all
// else that a session's start initialises.
package vault

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aicodesit/cordon/specs"
)

// patience is how long a Vault may take.
const patience = 10 * time.Second

// maxAnswer bounds what it says, in bytes.
const maxAnswer = 1 << 20

// Read reads a field by GET /v1/MOUNT/data/PATH, as the HTTP API of the
// key/value store version 2 has it.
func Read(v specs.VaultSecret, token string) (string, error) {
	req, err := request(v)
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
	return field(v, resp)
}

func request(v specs.VaultSecret) (*http.Request, error) {
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

func field(v specs.VaultSecret, resp *http.Response) (string, error) {
	var body struct {
		Data struct {
			Data map[string]any `json:"data"`
		} `json:"data"`
		Errors []string `json:"errors"`
	}
	err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&body)
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
	return value, nil
}
