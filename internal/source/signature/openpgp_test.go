package signature

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

func (b *bench) pgp(args ...string) []byte {
	b.t.Helper()
	return b.run(append([]string{"gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""}, args...)...)
}

func (b *bench) pgpCommit(user string) []byte {
	b.t.Helper()
	b.git("-c", "user.signingkey="+user, "commit", "-q", "--allow-empty", "-S", "-m", "signed")
	return b.git("cat-file", "commit", "HEAD")
}

func TestOpenPGP(t *testing.T) {
	kerneltest.Program(t, "gpg", "gpgconf")
	b := newBench(t)
	// A socket's path must be short.
	home, err := os.MkdirTemp("", "gpg")
	if err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "GNUPGHOME="+home)
	t.Cleanup(func() {
		b.run("gpgconf", "--kill", "all")
		_ = os.RemoveAll(home)
	})
	for _, user := range []string{"good", "other", "revoked"} {
		b.pgp("--quick-gen-key", user+"@example.com", "ed25519", "sign", "0")
	}
	b.pgp("--quick-gen-key", "rsa@example.com", "rsa2048", "sign", "0")
	b.pgp("--quick-gen-key", "short@example.com", "ed25519", "sign", "seconds=1000")
	commits := map[string][]byte{}
	for _, user := range []string{"good", "rsa", "other", "revoked", "short"} {
		commits[user] = b.pgpCommit(user + "@example.com")
	}
	b.git("-c", "user.signingkey=good@example.com", "tag", "-s", "-m", "a tag", "v1")
	tag := b.git("cat-file", "tag", "v1")
	revoke(b, home)
	ring := b.pgp("--armor", "--export", "good@example.com", "rsa@example.com", "revoked@example.com", "short@example.com")
	for _, tt := range []struct {
		name   string
		kind   Kind
		object []byte
		later  time.Duration
		want   string
	}{
		{"good", Commit, commits["good"], 0, "good@example.com "},
		{"RSA", Commit, commits["rsa"], 0, "rsa@example.com "},
		{"tag", Tag, tag, 0, "good@example.com "},
		{"not in the ring", Commit, commits["other"], 0, "error: its OpenPGP signature is not one of an allowed key"},
		{"revoked", Commit, commits["revoked"], 0, "error: "},
		{"before it expires", Commit, commits["short"], 0, "short@example.com "},
		{"expired", Commit, commits["short"], time.Hour, "error: "},
		{"changed", Commit, append(append([]byte{}, commits["good"]...), '!'), 0, "error: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, err := Parse(nil, ring)
			if err != nil {
				t.Fatal(err)
			}
			k.now = func() time.Time { return time.Now().Add(tt.later) }
			signer, err := k.Verify(tt.kind, tt.object)
			expect(t, signer, err, tt.want)
		})
	}
	ssh, err := Parse([]byte("a "+b.key("ssh", "-t", "ed25519")), nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.Verify(Commit, commits["good"])
	expect(t, signer, err, "error: its OpenPGP signature is not one of an allowed key")
}

// revoke imports the revocation that gpg made with the key; it has a colon in
// front so that nobody does by mistake.
func revoke(b *bench, home string) {
	b.t.Helper()
	listed := b.pgp("--list-keys", "--with-colons", "revoked@example.com")
	fingerprint := ""
	for _, line := range lines(listed) {
		if len(line) > 9 && line[0] == "fpr" {
			fingerprint = line[9]
			break
		}
	}
	text, err := os.ReadFile(filepath.Join(home, "openpgp-revocs.d", fingerprint+".rev"))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "rev"), without(text, ":-----"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.pgp("--import", "rev")
}
