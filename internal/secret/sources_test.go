package secret

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/secret/vault"
	"github.com/aicodesit/cordon/specs"
)

func TestCommand(t *testing.T) {
	r := Reader{Secrets: []specs.Secret{
		{Name: "bad", Command: []string{"/bin/sh", "-c", "echo hush; echo locked >&2; exit 3"}},
		{Name: "good", Command: []string{"/bin/sh", "-c", "echo value"}},
		{Name: "silent", Command: []string{"/bin/true"}},
	}}
	if v, err := r.Read("good"); v != "value" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
	_, err := r.Read("bad")
	if err == nil || !strings.Contains(err.Error(), "locked") || strings.Contains(strings.ReplaceAll(err.Error(), "echo hush", ""), "hush") {
		t.Errorf("error %v", err)
	}
	if _, err := r.Read("silent"); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("error %v", err)
	}
}

func TestSystemd(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("value\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	r := Reader{Secrets: []specs.Secret{{Name: "key", Systemd: "key"}, {Name: "out", Systemd: "../key"}}}
	if _, err := r.Read("key"); err == nil || !strings.Contains(err.Error(), "CREDENTIALS_DIRECTORY") {
		t.Errorf("without the directory: %v", err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if v, err := r.Read("key"); v != "value" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
	if _, err := r.Read("out"); err == nil || !strings.Contains(err.Error(), "not the name") {
		t.Errorf("error %v", err)
	}
}

// standIn answers as a Vault does, by its documented HTTP API.
func standIn(t *testing.T, asked *atomic.Int32) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch {
		case r.Header.Get("X-Vault-Token") != "login" || r.Header.Get("X-Vault-Request") != "true":
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"errors":["permission denied"]}`))
		case r.URL.Path == "/v1/kv/data/moved":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusTemporaryRedirect)
		case r.URL.Path == "/v1/kv/data/odd":
			_, _ = w.Write([]byte(`<html>hush</html>`))
		case r.URL.Path == "/v1/kv/data/llm/key" && r.Header.Get("X-Vault-Namespace") == "team":
			_, _ = w.Write([]byte(`{"request_id":"1","data":{"data":{"key":"value","n":1},"metadata":{"version":2}}}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"errors":[]}`))
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestVault(t *testing.T) {
	var asked atomic.Int32
	server := standIn(t, &asked)
	t.Setenv("VAULT_LOGIN", "login")
	t.Setenv("VAULT_WRONG", "wrong")
	at := func(path, field, token string) *specs.VaultSecret {
		return &specs.VaultSecret{Address: server.URL, Mount: "kv", Path: path, Field: field, Token: token, Namespace: "team"}
	}
	plain := at("llm/key", "key", "login")
	plain.Address = "http://vault.example"
	r := Reader{Vault: vault.Read, Secrets: []specs.Secret{
		{Name: "cycle", Vault: at("llm/key", "key", "cycle")},
		{Name: "denied", Vault: at("llm/key", "key", "wrong")},
		{Name: "field", Vault: at("llm/key", "other", "login")},
		{Name: "gone", Vault: at("llm/none", "key", "login")},
		{Name: "good", Vault: at("llm/key", "key", "login")},
		{Name: "login", Env: "VAULT_LOGIN"},
		{Name: "moved", Vault: at("moved", "key", "login")},
		{Name: "number", Vault: at("llm/key", "n", "login")},
		{Name: "odd", Vault: at("odd", "key", "login")},
		{Name: "plain", Vault: plain},
		{Name: "wrong", Env: "VAULT_WRONG"},
	}}
	if v, err := r.Read("good"); v != "value" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
	for name, want := range map[string]string{
		"cycle": "can't be in a Vault", "denied": "permission denied", "field": "no text called", "gone": "404",
		"moved": "307", "number": "no text called", "odd": "not the answer", "plain": "must be https",
	} {
		_, err := r.Read(name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "wrong") && !strings.Contains(err.Error(), "secret.wrong")) {
			t.Errorf("%s: the error tells: %v", name, err)
		}
	}
}

func TestCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	command := []string{"/bin/sh", "-c", "echo x >>" + path + "; wc -l <" + path}
	c := NewCache(Reader{Secrets: []specs.Secret{{Name: "cmd", Command: command, TTL: time.Minute}, {Name: "file", File: path}}})
	now := time.Now()
	c.now = func() time.Time { return now }
	want := func(n string) {
		t.Helper()
		if v, err := c.Read("cmd"); strings.TrimSpace(v) != n || err != nil {
			t.Errorf("got %q, %v, want %q", v, err, n)
		}
	}
	want("1")
	want("1")
	now = now.Add(time.Minute)
	want("2")
	c.Forget("cmd")
	want("3")
}

// A file is read again when it changed, in place or by a rename, and not otherwise.
func TestCacheOfFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	old := time.Now().Add(-time.Hour)
	write := func(to, value string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(to, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(to, at, at); err != nil {
			t.Fatal(err)
		}
	}
	c := NewCache(Reader{Secrets: []specs.Secret{{Name: "key", File: path}}})
	begin, later := time.Now(), time.Duration(0)
	c.now = func() time.Time { return begin.Add(later) }
	want := func(value string) {
		t.Helper()
		later += lookAgain
		if v, err := c.Read("key"); v != value || err != nil {
			t.Errorf("got %q, %v, want %q", v, err, value)
		}
	}
	write(path, "one", old)
	want("one")
	write(path, "two", old.Add(time.Second))
	want("two")
	write(path, "six", old.Add(time.Second)) // as if nothing had changed: it is not read
	want("two")
	write(path+".new", "ten", old.Add(time.Second))
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	want("ten")
	for _, v := range []string{"now", "new"} { // within one tick of the clock
		write(path, v, time.Now())
		want(v)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read("key"); err == nil {
		t.Error("a file that is gone is read")
	}
}
