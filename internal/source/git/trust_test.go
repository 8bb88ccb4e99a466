package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/source"
	"github.com/aicodesit/cordon/internal/source/signature"
)

// signer makes the repository sign by an SSH key that the function returned
// then allows.
func (r *repo) signer(name string) string {
	r.t.Helper()
	kerneltest.Program(r.t, "ssh-keygen")
	r.run("ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-C", name, "-f", name)
	r.git("config", "gpg.format", "ssh")
	r.git("config", "user.signingkey", filepath.Join(r.dir, name))
	b, err := os.ReadFile(filepath.Join(r.dir, name+".pub"))
	must(r.t, err)
	return name + "@example.com " + string(b)
}

func keys(lines ...string) func() (*signature.Keys, error) {
	return func() (*signature.Keys, error) { return signature.Parse([]byte(strings.Join(lines, "")), nil) }
}

func refused(t testing.TB, s *Source, want string) {
	t.Helper()
	if err := fails(t, s, want); !errors.Is(err, source.ErrRefused) {
		t.Errorf("%v is not a refusal", err)
	}
}

func TestVerifyHead(t *testing.T) {
	r := newRepo(t)
	evil := r.signer("evil")
	good := r.signer("good")
	allowed := atomic.Pointer[string]{}
	allowed.Store(&good)
	verify := func(o *Options) {
		o.Verify, o.Keys = VerifyHead, func() (*signature.Keys, error) { return keys(*allowed.Load())() }
	}
	unsigned := r.commit("unsigned")
	s := r.follow(verify)
	refused(t, s, "the commit of "+unsigned+": it is not signed")
	id := r.commit("1", "-S")
	got := fetch1(t, s, id, "1")
	if !strings.HasPrefix(got.Signer, "good@example.com SHA256:") {
		t.Errorf("signer %q", got.Signer)
	}
	// The last good one stays while others come.
	r.commit("2")
	refused(t, s, "it is not signed")
	r.git("config", "user.signingkey", filepath.Join(r.dir, "evil"))
	third := r.commit("3", "-S")
	refused(t, s, "which is not an allowed signer")
	if last, err := r.follow(verify).Last(); err != nil || last.ID != id || last.Signer != got.Signer {
		t.Errorf("last is %s by %q, %v", last.ID, last.Signer, err)
	}
	// The keys are asked for each time: for what comes, what stays, and what
	// was kept.
	both := good + evil
	allowed.Store(&both)
	fetch1(t, s, third, "3")
	allowed.Store(&good)
	refused(t, s, "which is not an allowed signer")
	if last, err := r.follow(verify).Last(); err == nil || !errors.Is(err, source.ErrRefused) || last.ID != "" {
		t.Errorf("kept from somebody who must not sign any more: %s, %v", last.ID, err)
	}
}

// What was kept without a signature is not enforced where one is needed, nor
// what was signed for another.
func TestVerifyWhatWasKept(t *testing.T) {
	r := newRepo(t)
	good := r.signer("good")
	verify := func(o *Options) { o.Verify, o.Keys = VerifyHead, keys(good) }
	fetch1(t, r.follow(), r.commit("unsigned"), "unsigned")
	if last, err := r.follow(verify).Last(); err == nil {
		t.Errorf("got %s", last.ID)
	}
	got := fetch1(t, r.follow(verify), r.commit("1", "-S"), "1")
	got.ID = strings.Repeat("1", 40)
	must(t, r.follow(verify).store.Save(got))
	if last, err := r.follow(verify).Last(); err == nil || !strings.Contains(err.Error(), "another commit") {
		t.Errorf("got %s, %v", last.ID, err)
	}
}

func TestVerifyTag(t *testing.T) {
	r := newRepo(t)
	good := r.signer("good")
	follow := func(ref string) *Source {
		return r.follow(func(o *Options) { o.Ref, o.Verify, o.Keys, o.StateDir = ref, VerifyTag, keys(good), t.TempDir() })
	}
	one := r.commit("1", "-S")
	r.git("tag", "-s", "-m", "x", "signed")
	r.git("tag", "-a", "-m", "x", "noted")
	r.git("tag", "light")
	// A signed tag under another name, as a server could show it.
	r.git("update-ref", "refs/tags/passed-off", r.git("rev-parse", "signed"))
	r.git("push", "-q", "origin", "--tags")
	got := fetch1(t, follow("signed"), one, "1")
	if !strings.HasPrefix(got.Signer, "good@example.com SHA256:") {
		t.Errorf("signer %q", got.Signer)
	}
	refused(t, follow("noted"), "the tag of "+one+": it is not signed")
	refused(t, follow("light"), "is not an annotated tag")
	refused(t, follow("main"), "is not an annotated tag")
	refused(t, follow("passed-off"), "what is signed is not the tag passed-off")
}

func TestOpenPGPHead(t *testing.T) {
	kerneltest.Program(t, "gpg", "gpgconf")
	r := newRepo(t)
	home, err := os.MkdirTemp("", "gpg") // a socket's path must be short
	must(t, err)
	r.env = append(r.env, "GNUPGHOME="+home)
	t.Cleanup(func() {
		r.run("gpgconf", "--kill", "all")
		_ = os.RemoveAll(home)
	})
	for _, who := range []string{"good", "evil"} {
		r.run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", who+"@example.com", "ed25519", "sign", "0")
	}
	ring := r.run("gpg", "--armor", "--export", "good@example.com")
	s := r.follow(func(o *Options) {
		o.Verify, o.Keys = VerifyHead, func() (*signature.Keys, error) { return signature.Parse(nil, []byte(ring)) }
	})
	got := fetch1(t, s, r.commit("1", "-Sgood@example.com"), "1")
	if !strings.HasPrefix(got.Signer, "good@example.com ") {
		t.Errorf("signer %q", got.Signer)
	}
	r.commit("2", "-Sevil@example.com")
	refused(t, s, "not one of an allowed key")
}

// Credentials are asked for each time, are sent, and are nowhere to be found
// afterwards.
func TestCredentials(t *testing.T) {
	r := newRepo(t)
	id := r.commit("1")
	w := r.serveWeb()
	password := "hunter2-as-the-token"
	w.password.Store(&password)
	now := password
	var said bytes.Buffer
	s := r.follow(func(o *Options) {
		o.URL, o.CA = w.url, w.ca
		o.Credentials = func(context.Context) (Credentials, error) { return Credentials{User: "bot", Password: now}, nil }
		o.Log = slog.New(slog.NewTextHandler(&said, nil))
	})
	fetch1(t, s, id, "1")
	if user := *w.seen.Load(); user != "bot" {
		t.Errorf("user %q", user)
	}
	now = "wrong-hunter2"
	if err := fails(t, s, "authentication required"); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error shows it: %v", err)
	}
	now = password
	fetch1(t, s, r.commit("2"), "2")
	if strings.Contains(said.String(), "hunter2") {
		t.Errorf("the log shows it: %s", &said)
	}
	must(t, filepath.WalkDir(filepath.Join(r.dir, "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("hunter2")) {
			t.Errorf("%s holds it", path)
		}
		return err
	}))
	vault := r.follow(func(o *Options) {
		o.URL, o.CA = w.url, w.ca
		o.Credentials = func(context.Context) (Credentials, error) { return Credentials{}, errors.New("vault is away") }
	})
	fails(t, vault, "vault is away")
	fails(t, r.follow(func(o *Options) { o.URL = w.url }), "certificate")
}

// An unchanged branch costs one answer and no pack.
func TestNothingNewIsNotFetched(t *testing.T) {
	r := newRepo(t)
	id := r.commit("1")
	w := r.serveWeb()
	way := func(o *Options) { o.URL, o.CA = w.url, w.ca }
	s := r.follow(way)
	fetch1(t, s, id, "1")
	before := w.packs.Load()
	for range 3 {
		fetch1(t, s, id, "1")
	}
	fetch1(t, r.follow(way), id, "1") // from the cache
	if got := w.packs.Load(); got != before {
		t.Errorf("%d packs for nothing", got-before)
	}
	// Nor, after the first time, what can't be enforced.
	r.commit("broken")
	_, err := s.Fetch(t.Context())
	must(t, err)
	before = w.packs.Load()
	for range 3 {
		_, err := s.Fetch(t.Context())
		must(t, err)
	}
	if got := w.packs.Load(); got != before {
		t.Errorf("%d packs for what is known", got-before)
	}
}

func TestHostKeys(t *testing.T) {
	r := newRepo(t)
	id := r.commit("1")
	server := r.serveSSH()
	s := r.follow(server.options)
	fetch1(t, s, id, "1")
	// The server would show its ed25519 key first.
	server.know(t, filepath.Join(r.dir, "host2.pub"))
	fetch1(t, s, id, "1")
	server.know(t, filepath.Join(r.dir, "user.pub"))
	fails(t, s, "key mismatch")
	must(t, os.WriteFile(server.known, []byte("example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJW0PAjaSjFFxPNgPkVyVMVYdZyEBCpGkNzjDz6HJAWp\n"), 0o600))
	fails(t, s, fmt.Sprintf("127.0.0.1:%d is not in %s", server.port, server.known))
	must(t, os.Remove(server.known))
	fails(t, s, "known hosts: ")
	server.know(t, filepath.Join(r.dir, "host.pub"))
	fetch1(t, s, id, "1")
	r.run("ssh-keygen", "-q", "-N", "a phrase", "-t", "ed25519", "-f", "locked")
	for name, tt := range map[string]struct {
		c    func() Credentials
		want string
	}{
		"another key":      {func() Credentials { return Credentials{Key: r.file("host")} }, "unable to authenticate"},
		"no key":           {func() Credentials { return Credentials{} }, "unable to authenticate"},
		"not a key":        {func() Credentials { return Credentials{Key: []byte("hunter2")} }, "the private key can't be read"},
		"wrong passphrase": {func() Credentials { return Credentials{Key: r.file("locked"), Password: "hunter2"} }, "the private key can't be read"},
		"right passphrase": {func() Credentials { return Credentials{Key: r.file("locked"), Password: "a phrase"} }, "unable to authenticate"},
	} {
		t.Run(name, func(t *testing.T) {
			s := r.follow(server.options, func(o *Options) {
				o.Credentials = func(context.Context) (Credentials, error) { return tt.c(), nil }
			})
			if err := fails(t, s, tt.want); strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows it: %v", err)
			}
		})
	}
	fails(t, r.follow(server.options, func(o *Options) { o.URL += ".gone" }), "does not appear to be a git repository")
}

func (r *repo) file(name string) []byte {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	must(r.t, err)
	return b
}

// 20,000 files beside ours, 300 MB together, are on disk, but for the 96 MB
// that go-git may hold to resolve the differences in a pack.
func TestMemoryIsBounded(t *testing.T) {
	r := newRepo(t)
	id := r.imported("1", "", 20_000)
	w := r.serveWeb()
	s := r.follow(func(o *Options) { o.URL, o.CA = w.url, w.ca })
	peak := watchHeap(t, func() {
		fetch1(t, s, id, "1")
		fetch1(t, s, r.imported("2", "from refs/heads/main^0\n", 1), "2")
	})
	t.Logf("peak heap: %d MB", peak>>20)
	if peak > 256<<20 {
		t.Errorf("the heap had %d MB", peak>>20)
	}
}

// imported makes a commit of a letter in specs/a.hcl and of many other files.
func (r *repo) imported(letter, from string, files int) string {
	r.t.Helper()
	cmd := exec.Command("git", "-C", r.bare, "fast-import", "--quiet")
	cmd.Env, cmd.Stderr = r.env, os.Stderr
	in, err := cmd.StdinPipe()
	must(r.t, err)
	must(r.t, cmd.Start())
	fmt.Fprintf(in, "commit refs/heads/main\ncommitter Ann <ann@example.com> 1700000000 +0000\ndata 1\nx\n%sM 644 inline specs/a.hcl\ndata 1\n%s\n", from, letter)
	for i := range files {
		text := strings.Repeat(fmt.Sprintf("%s line of file %d\n", letter, i), 800)
		fmt.Fprintf(in, "M 644 inline src/%d/%d.txt\ndata %d\n%s\n", i%200, i, len(text), text)
	}
	must(r.t, errors.Join(in.Close(), cmd.Wait()))
	return r.run("git", "-C", r.bare, "rev-parse", "main")
}

// watchHeap returns the most the heap held while f ran.
func watchHeap(t *testing.T, f func()) (peak uint64) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var m runtime.MemStats
		runtime.GC()
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-done
	return peak
}
