package token

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/specs"
)

func TestMint(t *testing.T) {
	dir := t.TempDir()
	p := specs.Proxy{Name: "llm", Token: &specs.Token{Prefix: "cc-sess-", TTL: time.Hour}}
	first, err := Mint(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Mint(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	if first == second || !strings.HasPrefix(second, "cc-sess-") || len(second) != len("cc-sess-")+43 { // 256 bits, 6 a letter
		t.Errorf("%s %s", first, second)
	}
	path := filepath.Join(dir, "token.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), second[len("cc-sess-"):]) {
		t.Error("the token itself is kept")
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	got, err := Read(dir)
	if err != nil || !got.Is(second) || got.Is(first) || got.Is("") || got.Proxy != "llm" || got.Expires.Sub(got.Issued) != time.Hour {
		t.Errorf("%+v %v", got, err)
	}
	if age := got.Age(got.Issued.Add(time.Minute)); age != time.Minute {
		t.Error(age)
	}
	for range 2 { // again is fine
		if err := Revoke(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Mint(filepath.Join(dir, "gone"), p); err == nil {
		t.Error("a session that is gone gets a token")
	}
	if (Token{}).Is("") {
		t.Error("no token is the record of none")
	}
}
