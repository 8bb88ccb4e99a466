package token

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	if sum := sha256.Sum256([]byte(second)); !strings.Contains(string(b), `"hash":"`+hex.EncodeToString(sum[:])+`"`) {
		t.Errorf("without its hash: %s", b)
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

// What was written down by hand or cut short is the record of no token.
func TestReadHash(t *testing.T) {
	dir := t.TempDir()
	sum := sha256.Sum256([]byte("token"))
	digits := hex.EncodeToString(sum[:])
	for written, want := range map[string]struct{ ok, is bool }{
		digits:                  {true, true},
		"":                      {true, false},
		digits[:62]:             {false, false},
		digits[:63]:             {false, false},
		digits + "00":           {false, false},
		"zz" + digits[2:]:       {false, false},
		strings.Repeat("0", 64): {true, false},
	} {
		if err := os.WriteFile(filepath.Join(dir, File), []byte(`{"hash":"`+written+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(dir)
		if (err == nil) != want.ok || got.Is("token") != want.is || got.Is("") || got.Is(digits) || got.Is(string(sum[:])) {
			t.Errorf("%q: %v %v", written, got.Is("token"), err)
		}
	}
	none, err := json.Marshal(Token{})
	if err != nil || !strings.Contains(string(none), `"hash":""`) {
		t.Errorf("%s %v", none, err)
	}
}

// To ask whether a token is the one allocates nothing.
func TestIsAllocations(t *testing.T) {
	token := "cc-sess-" + strings.Repeat("x", 43)
	other, record := token+"x", Token{Hash: hash(token)}
	if n := testing.AllocsPerRun(100, func() {
		if !record.Is(token) || record.Is(other) {
			t.Error("wrong")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
