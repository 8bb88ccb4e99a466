package signature

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

const (
	sshBegin = "-----BEGIN SSH SIGNATURE-----"
	sshEnd   = "-----END SSH SIGNATURE-----"
	sshMagic = "SSHSIG"
	minRSA   = 2048 // bits
)

// sshSignature is what OpenSSH's PROTOCOL.sshsig calls a signature blob.
type sshSignature struct {
	key       ssh.PublicKey
	namespace string
	reserved  string
	hash      string
	signature ssh.Signature
}

// blob is the wire format after the magic.
type blob struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// signedBlob is what is signed, after the magic.
type signedBlob struct {
	Namespace string
	Reserved  string
	Hash      string
	Digest    []byte
}

// parseSSH reads an armored signature and nothing beside it.
func parseSSH(armored string) (sshSignature, error) {
	var s sshSignature
	text := strings.TrimSpace(armored)
	text, begins := strings.CutPrefix(text, sshBegin)
	text, ends := strings.CutSuffix(text, sshEnd)
	if !begins || !ends {
		return s, errors.New("not an armored SSH signature")
	}
	raw, err := base64.StdEncoding.DecodeString(strings.NewReplacer("\n", "", "\r", "", " ", "").Replace(text))
	if err != nil {
		return s, fmt.Errorf("SSH signature: %w", err)
	}
	rest, ok := strings.CutPrefix(string(raw), sshMagic)
	if !ok {
		return s, errors.New("SSH signature: the magic is missing")
	}
	var b blob
	if err := ssh.Unmarshal([]byte(rest), &b); err != nil {
		return s, fmt.Errorf("SSH signature: %w", err)
	}
	if b.Version != 1 {
		return s, fmt.Errorf("SSH signature: version %d is not known", b.Version)
	}
	if s.key, err = ssh.ParsePublicKey(b.PublicKey); err != nil {
		return s, fmt.Errorf("SSH signature: its key: %w", err)
	}
	s.namespace, s.reserved, s.hash = b.Namespace, b.Reserved, b.Hash
	// The rest of security-key signatures is flags and a counter.
	if err := ssh.Unmarshal(b.Signature, &s.signature); err != nil {
		return s, fmt.Errorf("SSH signature: %w", err)
	}
	return s, nil
}

// verify checks that the signature is the key's, of this message.
func (s sshSignature) verify(message []byte) error {
	var digest []byte
	switch s.hash {
	case "sha256":
		d := sha256.Sum256(message)
		digest = d[:]
	case "sha512":
		d := sha512.Sum512(message)
		digest = d[:]
	default:
		return fmt.Errorf("SSH signature: the hash %q is not allowed", s.hash)
	}
	if err := strong(s.key); err != nil {
		return err
	}
	if s.key.Type() == ssh.KeyAlgoRSA && s.signature.Format != ssh.KeyAlgoRSASHA256 && s.signature.Format != ssh.KeyAlgoRSASHA512 {
		return fmt.Errorf("SSH signature: the algorithm %q is not allowed", s.signature.Format)
	}
	signed := ssh.Marshal(signedBlob{s.namespace, s.reserved, s.hash, digest})
	return s.key.Verify(append([]byte(sshMagic), signed...), &s.signature)
}

// strong refuses keys that are too weak, and kinds nobody should sign with.
func strong(key ssh.PublicKey) error {
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256:
		return nil
	case ssh.KeyAlgoRSA:
		c, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			return errors.New("an RSA key that can't be looked at")
		}
		k, ok := c.CryptoPublicKey().(*rsa.PublicKey)
		if !ok || k.N.BitLen() < minRSA {
			return fmt.Errorf("an RSA key must have %d bits at least", minRSA)
		}
		return nil
	}
	return fmt.Errorf("keys of type %s are not allowed", key.Type())
}
