package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("SECRET_TEST", "from-env")
	t.Setenv("SECRET_EMPTY", "")
	r := Reader{Secrets: []specs.Secret{
		{Name: "crlf", File: write("crlf", "v\r\n")},
		{Name: "empty", File: write("empty", "\n")},
		{Name: "env", Env: "SECRET_TEST"},
		{Name: "envempty", Env: "SECRET_EMPTY"},
		{Name: "file", File: write("file", "v\n")},
		{Name: "gone", File: filepath.Join(dir, "gone")},
		{Name: "huge", File: write("huge", strings.Repeat("x", maxSize+1))},
		{Name: "lines", File: write("lines", "a\nb\n\n")},
	}}
	for _, tt := range []struct{ name, want, err string }{
		{"file", "v", ""},
		{"crlf", "v", ""},
		{"lines", "a\nb\n", ""},
		{"env", "from-env", ""},
		{"envempty", "", "secret.envempty: the environment variable SECRET_EMPTY is not set"},
		{"empty", "", "is empty"},
		{"gone", "", "secret.gone: open"},
		{"huge", "", "larger than 65536 bytes"},
		{"other", "", "secret.other: not declared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.Read(tt.name)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// A file replaced later is read anew: secrets are rotated under a running cordon.
func TestReadIsAtTheMomentOfUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	r := Reader{Secrets: []specs.Secret{{Name: "s", File: path}}}
	for _, v := range []string{"one", "two"} {
		if err := os.WriteFile(path, []byte(v), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Read("s"); got != v || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, v)
		}
	}
}
