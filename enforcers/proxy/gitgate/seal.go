package gitgate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// action is what a host says about the transfer of one object: where to, and
// with which headers. A session gets it sealed.
type action struct {
	Kind   string            `json:"kind"` // "download", "upload" or "verify"
	Href   string            `json:"href"`
	Header map[string]string `json:"header,omitempty"`
	Size   int64             `json:"size"` // of the object, in bytes
}

// newSeal is a cipher whose key is nowhere else: what was sealed before the
// proxy was started again is asked for anew.
func newSeal() (cipher.AEAD, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// sealed returns a as a segment of a path, for the caller alone.
func (g *Gate) sealed(a action, c Caller) (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(g.seal.Seal(nil, nil, text, c.bound())), nil
}

func (g *Gate) unsealed(segment string, c Caller) (action, error) {
	b, err := base64.RawURLEncoding.DecodeString(segment)
	if err != nil {
		return action{}, errors.New("not a sealed action")
	}
	text, err := g.seal.Open(nil, nil, b, c.bound())
	if err != nil {
		return action{}, errors.New("not an action of this session, or one of before the proxy was started again")
	}
	var a action
	return a, json.Unmarshal(text, &a)
}

func (c Caller) bound() []byte { return fmt.Appendf(nil, "%q %q", c.Session, c.Project) }
