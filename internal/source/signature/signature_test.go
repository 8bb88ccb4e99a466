package signature

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

// bench is a repository and keys that git, ssh-keygen and gpg made.
type bench struct {
	t   *testing.T
	dir string
	env []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	kerneltest.Program(t, "git", "ssh-keygen")
	dir := t.TempDir()
	b := &bench{t: t, dir: dir, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GNUPGHOME=" + filepath.Join(dir, "gpg"),
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_COMMITTER_DATE=2024-06-01T12:00:00Z",
	}}
	b.run("git", "init", "-q", "-b", "main", "repo")
	return b
}

func (b *bench) run(argv ...string) []byte {
	b.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = b.dir, b.env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%q: %v\n%s%s", argv, err, out, said.Bytes())
	}
	return out
}

// key makes an SSH key and returns its public half.
func (b *bench) key(name string, how ...string) string {
	b.t.Helper()
	b.run(append([]string{"ssh-keygen", "-q", "-N", "", "-C", name, "-f", name}, how...)...)
	return strings.TrimSpace(string(b.read(name + ".pub")))
}

func (b *bench) read(name string) []byte {
	b.t.Helper()
	out, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) git(args ...string) []byte {
	b.t.Helper()
	return b.run(append([]string{"git", "-C", "repo"}, args...)...)
}

// sshCommit returns a commit signed by an SSH key.
func (b *bench) sshCommit(key string) []byte {
	b.t.Helper()
	b.git("-c", "gpg.format=ssh", "-c", "user.signingkey="+filepath.Join(b.dir, key), "commit", "-q", "--allow-empty", "-S", "-m", "signed\n\nby "+key+"\n")
	return b.git("cat-file", "commit", "HEAD")
}

func (b *bench) sshTag(key, name string) []byte {
	b.t.Helper()
	b.git("-c", "gpg.format=ssh", "-c", "user.signingkey="+filepath.Join(b.dir, key), "tag", "-s", "-m", "a tag", name)
	return b.git("cat-file", "tag", name)
}

// verify is [Keys.Verify] by an allowed_signers file.
func verify(t *testing.T, kind Kind, object []byte, allowedSigners string) (string, error) {
	t.Helper()
	k, err := Parse([]byte(allowedSigners), nil)
	if err != nil {
		t.Fatal(err)
	}
	return k.Verify(kind, object)
}

func expect(t *testing.T, signer string, err error, want string) {
	t.Helper()
	got := signer
	if err != nil {
		got = "error: " + err.Error()
	}
	if want == "" || !strings.Contains(got, want) || err != nil && !strings.HasPrefix(want, "error: ") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKindsOfKeys(t *testing.T) {
	b := newBench(t)
	for i, how := range [][]string{
		{"-t", "ed25519"},
		{"-t", "ecdsa", "-b", "256"},
		{"-t", "ecdsa", "-b", "384"},
		{"-t", "ecdsa", "-b", "521"},
		{"-t", "rsa", "-b", "2048"},
	} {
		name := fmt.Sprint("key", i)
		pub := b.key(name, how...)
		for kind, object := range map[Kind][]byte{Commit: b.sshCommit(name), Tag: b.sshTag(name, "v"+name)} {
			signer, err := verify(t, kind, object, "a@example.com "+pub)
			expect(t, signer, err, "a@example.com SHA256:")
			// Each byte of what is signed counts.
			for _, old := range []string{"A <a@", "signed", "a tag", "tree ", "object "} {
				if changed := bytes.Replace(object, []byte(old), []byte("B"+old[1:]), 1); !bytes.Equal(changed, object) {
					signer, err := verify(t, kind, changed, "a@example.com "+pub)
					expect(t, signer, err, "error: ")
				}
			}
		}
	}
}

func TestAllowedSigners(t *testing.T) {
	b := newBench(t)
	pub, other := b.key("good", "-t", "ed25519"), b.key("other", "-t", "ed25519")
	commit := b.sshCommit("good") // of 2024-06-01 12:00:00 UTC
	for _, tt := range []struct{ name, file, want string }{
		{"listed", "a@example.com " + pub, "a@example.com SHA256:"},
		{"without a comment", "a@example.com " + strings.TrimSuffix(pub, " good"), "a@example.com SHA256:"},
		{"among others", "# us\n\n b@example.com " + other + "\n\ta@example.com,*@example.org " + pub + "\n", "a@example.com,*@example.org SHA256:"},
		{"quoted principals", `"a@example.com" ` + pub, "a@example.com SHA256:"},
		{"not listed", "b@example.com " + other, "error: it is signed by SHA256:"},
		{"namespace git", `a namespaces="git" ` + pub, "a SHA256:"},
		{"one of the namespaces", `a namespaces="file,git" ` + pub, "a SHA256:"},
		{"pattern", `a namespaces="g*" ` + pub, "a SHA256:"},
		{"another namespace", `a namespaces="file" ` + pub, `error: the key of a may not sign in the namespace "git"`},
		{"all but this one", `a namespaces="*,!git" ` + pub, "error: the key of a may not sign"},
		{"valid since", `a valid-after="20240601Z" ` + pub, "a SHA256:"},
		{"valid later", `a valid-after="20240602Z" ` + pub, "error: the key of a is valid only from 2024-06-02T00:00:00Z on"},
		{"valid to the second", `a valid-after="20240601120000Z",valid-before="20240601120000Z" ` + pub, ""},
		{"valid until then", `a valid-before="20240601120000Z" ` + pub, "a SHA256:"},
		{"no longer valid", `a valid-before="202406011159Z" ` + pub, "error: the key of a was valid only until 2024-06-01T11:59:00Z"},
		{"both", `a Valid-After="20240101",VALID-BEFORE="20250101",namespaces="git" ` + pub, "a SHA256:"},
		{"a second line allows", `a valid-before="2023" ` + pub, ""},
		{"expired there, valid here", "a valid-before=\"20230101\" " + pub + "\nb " + pub, "b SHA256:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				if _, err := Parse([]byte(tt.file), nil); err == nil {
					t.Error("accepted")
				}
				return
			}
			signer, err := verify(t, Commit, commit, tt.file)
			expect(t, signer, err, tt.want)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJW0PAjaSjFFxPNgPkVyVMVYdZyEBCpGkNzjDz6HJAWp"
	if _, err := Parse([]byte("a "+key), nil); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	for name, tt := range map[string]struct{ file, want string }{
		"empty":                  {"", "no key is allowed to sign"},
		"comments":               {"# nobody\n", "no key is allowed to sign"},
		"no principal":           {key, "line 1"},
		"no key":                 {"\na namespaces=\"git\"", "line 2: want"},
		"not base64":             {"a ssh-ed25519 !!!", "want"},
		"another type":           {"a " + strings.Replace(key, "ssh-ed25519", "ssh-rsa", 1), "want"},
		"unknown option":         {"a touch-required " + key, "option touch-required: unknown"},
		"authority":              {"a cert-authority " + key, "certificates are not supported"},
		"open quote":             {`a namespaces="git ` + key, "not closed"},
		"no quotes":              {`a namespaces=git ` + key, "must be in quotation marks"},
		"no time":                {`a valid-after="soon" ` + key, "is not a time"},
		"no such day":            {`a valid-after="20240230" ` + key, "is not a time"},
		"never valid":            {`a valid-after="20250101",valid-before="20240101" ` + key, "valid-before is not after"},
		"no namespace":           {`a namespaces="" ` + key, "is empty"},
		"options of another key": {`a namespaces="git" no-pty ` + key, "want"},
		"weak":                   {"a " + b.key("weak", "-t", "rsa", "-b", "1024"), "2048 bits"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(tt.file), nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Parse(nil, []byte("not a keyring")); err == nil {
		t.Error("a keyring that is none was accepted")
	}
}

func TestForgeries(t *testing.T) {
	b := newBench(t)
	pub := b.key("good", "-t", "ed25519")
	b.key("evil", "-t", "ed25519")
	good, evil := b.sshCommit("good"), b.sshCommit("evil")
	goodTag := b.sshTag("good", "v1")
	payload, sig, err := split(Commit, good)
	if err != nil {
		t.Fatal(err)
	}
	evilPayload, evilSig, _ := split(Commit, evil)
	with := func(payload []byte, sig string) []byte {
		head, rest, _ := bytes.Cut(payload, []byte("\n\n"))
		folded := strings.ReplaceAll(strings.TrimSuffix(sig, "\n"), "\n", "\n ")
		return fmt.Appendf(nil, "%s\ngpgsig %s\n\n%s", head, folded, rest)
	}
	if !bytes.Equal(with(payload, sig), good) {
		t.Fatal("the test puts commits together otherwise than git")
	}
	// Signed by the good key, but as something else than git's.
	other := filepath.Join(b.dir, "payload")
	if err := os.WriteFile(other, payload, 0o600); err != nil {
		t.Fatal(err)
	}
	b.run("ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", "good", "payload")
	for name, tt := range map[string]struct {
		kind   Kind
		object []byte
		want   string
	}{
		"unsigned":                 {Commit, payload, "it is not signed"},
		"unsigned tag":             {Tag, bytes.Split(goodTag, []byte(sshBegin))[0], "it is not signed"},
		"another's signature":      {Commit, evil, "which is not an allowed signer"},
		"the signature of another": {Commit, with(evilPayload, sig), "does not fit"},
		"another namespace":        {Commit, with(payload, string(b.read("payload.sig"))), `is for "file", not for "git"`},
		"two signatures":           {Commit, with(with(evilPayload, evilSig), sig), "two signatures"},
		"in the message only":      {Commit, append(bytes.Clone(evilPayload), "\ngpgsig "+sig...), "it is not signed"},
		"in another header":        {Commit, bytes.Replace(good, []byte("gpgsig "), []byte("gpgsig-sha256 "), 1), "is not known"},
		"of the tag":               {Commit, goodTag, ""},
		"a commit as a tag":        {Tag, good, "not signed"},
		"text after the signature": {Tag, append(bytes.Clone(goodTag), "more"...), "not an armored"},
		"cut off":                  {Commit, bytes.Replace(good, []byte(" -----END SSH SIGNATURE-----\n"), nil, 1), "not an armored"},
		"empty signature":          {Commit, with(payload, sshBegin+"\n"+sshEnd+"\n"), "magic"},
		"no signature at all":      {Commit, with(payload, "hello\n"), "neither of SSH nor of OpenPGP"},
		"no headers":               {Commit, []byte("hello"), "end of its headers"},
		"X.509":                    {Commit, with(payload, "-----BEGIN SIGNED MESSAGE-----\n"), "neither of SSH nor of OpenPGP"},
		"huge":                     {Commit, append(bytes.Clone(good), make([]byte, maxObject)...), "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			signer, err := verify(t, tt.kind, tt.object, "a@example.com "+pub)
			expect(t, signer, err, "error: ")
			if err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Whatever bit of the signature is turned, it does not fit any more.
func TestEachBitOfASignatureCounts(t *testing.T) {
	b := newBench(t)
	k, err := Parse([]byte("a "+b.key("good", "-t", "ed25519")), nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, armored, err := split(Commit, b.sshCommit("good"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.verifySSH(Commit, payload, armored); err != nil {
		t.Fatal(err)
	}
	for i := len(sshBegin) + 1; i < len(armored)-len(sshEnd)-2; i++ {
		changed := []byte(armored)
		if changed[i] == '\n' || changed[i] == '=' {
			continue
		}
		changed[i] = map[bool]byte{true: 'B', false: 'A'}[changed[i] == 'A']
		// The last letter before "=" may have bits that stand for nothing.
		if s, err := k.verifySSH(Commit, payload, string(changed)); err == nil && armored[i+1] != '=' {
			t.Errorf("with byte %d changed it is accepted, of %s", i, s)
		}
	}
}

// SHA-1 is not for signatures any more, whoever makes them.
func TestRSAWithSHA1(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("message")
	digest := sha512.Sum512(message)
	signed := append([]byte(sshMagic), ssh.Marshal(signedBlob{"git", "", "sha512", digest[:]})...)
	for algorithm, good := range map[string]bool{ssh.KeyAlgoRSA: false, ssh.KeyAlgoRSASHA256: true, ssh.KeyAlgoRSASHA512: true} {
		sig, err := signer.(ssh.AlgorithmSigner).SignWithAlgorithm(rand.Reader, signed, algorithm)
		if err != nil {
			t.Fatal(err)
		}
		s := sshSignature{key: signer.PublicKey(), namespace: "git", hash: "sha512", signature: *sig}
		if err := s.verify(message); (err == nil) != good {
			t.Errorf("%s: %v", algorithm, err)
		}
		s.hash = "sha1"
		if err := s.verify(message); err == nil {
			t.Error("a digest by SHA-1 was accepted")
		}
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		list, s string
		want    bool
	}{
		{"git", "git", true},
		{"git", "gi", false},
		{"g?t", "git", true},
		{"*", "", true},
		{"*t", "git", true},
		{"g*i*t*", "git", true},
		{"a,b, git", "git", true},
		{"!git,*", "git", false},
		{"*,!gif", "git", true},
		{"!gif", "git", false},
		{"", "git", false},
		{strings.Repeat("*a", 50) + "b", strings.Repeat("a", 5000), false},
	} {
		if got := matchList(tt.list, tt.s); got != tt.want {
			t.Errorf("matchList(%q, %q) = %t", tt.list, tt.s, got)
		}
	}
}
