// Package token is what a session has to show to its proxy, and what is kept of
// it. It stands apart from the proxy, since it is all that a session's start
// needs of that.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/aicodesit/cordon/internal/atomicfile"
	"github.com/aicodesit/cordon/specs"
)

// File is the name of a record in the session's directory.
const File = "token.json"

// Token is what is kept of a session's token: nothing that lets one make it.
type Token struct {
	Hash    Hash      `json:"hash"`
	Proxy   string    `json:"proxy"` // name of the proxy that it is for
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
}

// Hash is the SHA-256 of a token, and "" that of none. It is written down in
// hexadecimal digits.
type Hash string

// MarshalText returns the digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, []byte(h)), nil }

// UnmarshalText reads the digits, once: they are not what tokens are compared by.
func (h *Hash) UnmarshalText(digits []byte) error {
	sum, err := hex.AppendDecode(nil, digits)
	if err == nil && len(sum) != 0 && len(sum) != sha256.Size {
		err = fmt.Errorf("%d digits", len(digits))
	}
	if err != nil {
		return fmt.Errorf("not a hash: %w", err)
	}
	*h = Hash(sum)
	return nil
}

// Mint makes a token of p for the session whose directory is dir
// ([rundir.Dir.Session]) and writes down its hash, in place of any token that
// the session had. The token is the prefix and 256 random bits.
func Mint(dir string, p specs.Proxy) (string, error) {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	token := p.TokenPrefix() + base64.RawURLEncoding.EncodeToString(random)
	now := time.Now().UTC().Truncate(time.Second)
	record, err := json.Marshal(Token{Hash: hash(token), Proxy: p.Name, Issued: now, Expires: now.Add(p.TokenTTL())})
	if err != nil {
		return "", err
	}
	if err := atomicfile.Write(filepath.Join(dir, File), record, 0o600); err != nil {
		return "", fmt.Errorf("token of the session: %w", err)
	}
	return token, nil
}

// Revoke ends the token of the session whose directory is dir; one that has
// none is fine.
func Revoke(dir string) error {
	err := os.Remove(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Read returns what is kept of the token of the session whose directory
// is dir. The error is fs.ErrNotExist when the session has none.
func Read(dir string) (Token, error) {
	b, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		return Token{}, err
	}
	var t Token
	if err := json.Unmarshal(b, &t); err != nil {
		return Token{}, fmt.Errorf("%s: %w", filepath.Join(dir, File), err)
	}
	return t, nil
}

// Age is how long ago the token was made.
func (t Token) Age(now time.Time) time.Duration { return now.Sub(t.Issued) }

// Is tells whether t is the record of token, in a time that does not depend
// on where they differ.
func (t Token) Is(token string) bool {
	var room [128]byte // or a copy would be allocated
	sum := sha256.Sum256(append(room[:0], token...))
	return subtle.ConstantTimeCompare([]byte(t.Hash), sum[:]) == 1
}

func hash(token string) Hash {
	sum := sha256.Sum256([]byte(token))
	return Hash(sum[:])
}
