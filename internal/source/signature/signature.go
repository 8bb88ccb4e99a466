// Package signature decides whether a git commit or tag was signed by somebody
// who may: by an SSH key of an allowed_signers file, or by an OpenPGP key of a
// keyring.
//
// What is verified is the object's own bytes less the signature, as git does
// (gitformat-signature(5)). An SSH key's valid-after and valid-before are
// compared to the time that the commit or tag itself claims, as git does too:
// whoever must not sign any more is taken out of the file. An OpenPGP key must
// be valid today.
package signature

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

const (
	namespace = "git"   // of signatures that git makes, see PROTOCOL.sshsig
	maxObject = 1 << 20 // bytes
)

// Keys are those who may sign.
type Keys struct {
	allowed []allowed
	pgp     openpgp.EntityList
	now     func() time.Time
}

// Parse reads an allowed_signers file and an armored OpenPGP keyring, of which
// one may be empty. Keys that allow nobody are an error.
func Parse(allowedSigners, keyring []byte) (*Keys, error) {
	k := &Keys{now: time.Now}
	var err error
	if k.allowed, err = parseAllowed(allowedSigners); err != nil {
		return nil, fmt.Errorf("allowed signers: %w", err)
	}
	if len(bytes.TrimSpace(keyring)) > 0 {
		if k.pgp, err = openpgp.ReadArmoredKeyRing(bytes.NewReader(keyring)); err != nil {
			return nil, fmt.Errorf("OpenPGP keys: %w", err)
		}
	}
	if len(k.allowed) == 0 && len(k.pgp) == 0 {
		return nil, errors.New("no key is allowed to sign, so that nothing could ever be accepted")
	}
	return k, nil
}

// Verify returns who signed the object, for people: principals or user ID, and
// the key's fingerprint.
func (k *Keys) Verify(kind Kind, object []byte) (signer string, err error) {
	if len(object) > maxObject {
		return "", fmt.Errorf("a %s of %d bytes is too large", kind, len(object))
	}
	payload, armored, err := split(kind, object)
	if err != nil {
		return "", err
	}
	switch {
	case strings.HasPrefix(armored, sshBegin):
		return k.verifySSH(kind, payload, armored)
	case strings.HasPrefix(armored, pgpBegin):
		return k.verifyPGP(payload, armored)
	}
	return "", errors.New("its signature is neither of SSH nor of OpenPGP")
}

func (k *Keys) verifySSH(kind Kind, payload []byte, armored string) (string, error) {
	s, err := parseSSH(armored)
	if err != nil {
		return "", err
	}
	fingerprint := ssh.FingerprintSHA256(s.key)
	if s.namespace != namespace {
		return "", fmt.Errorf("its signature by %s is for %q, not for %q", fingerprint, s.namespace, namespace)
	}
	at, err := signedAt(kind, payload)
	if err != nil {
		return "", err
	}
	line, err := k.find(s.key, at)
	if err != nil {
		return "", err
	}
	if err := s.verify(payload); err != nil {
		return "", fmt.Errorf("the signature by %s does not fit: %w", fingerprint, err)
	}
	return line.principals + " " + fingerprint, nil
}

// find returns the first line that allows the key to sign at a time.
func (k *Keys) find(key ssh.PublicKey, at time.Time) (allowed, error) {
	var why error
	for _, a := range k.allowed {
		if !bytes.Equal(a.key.Marshal(), key.Marshal()) {
			continue
		}
		err := a.accepts(namespace, at)
		if err == nil {
			return a, nil
		}
		why = errors.Join(why, err)
	}
	if why == nil {
		why = fmt.Errorf("it is signed by %s, which is not an allowed signer", ssh.FingerprintSHA256(key))
	}
	return allowed{}, why
}

func (k *Keys) verifyPGP(payload []byte, armored string) (string, error) {
	config := &packet.Config{Time: k.now}
	by, err := openpgp.CheckArmoredDetachedSignature(k.pgp, bytes.NewReader(payload), strings.NewReader(armored), config)
	if err != nil {
		return "", fmt.Errorf("its OpenPGP signature is not one of an allowed key: %w", err)
	}
	name := "unnamed"
	if id := by.PrimaryIdentity(); id != nil {
		name = id.Name
	}
	return fmt.Sprintf("%s %X", name, by.PrimaryKey.Fingerprint), nil
}
