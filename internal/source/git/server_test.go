package git

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/source"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// repo is a work tree and the bare repository that it pushes to.
type repo struct {
	t               testing.TB
	dir, work, bare string
	env             []string
}

func newRepo(t testing.TB) *repo {
	t.Helper()
	kerneltest.Program(t, "git")
	dir := t.TempDir()
	r := &repo{t: t, dir: dir, work: filepath.Join(dir, "work"), bare: filepath.Join(dir, "it's bare!.git"), env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com",
	}}
	r.run("git", "init", "-q", "--bare", "-b", "main", r.bare)
	r.run("git", "init", "-q", "-b", "main", r.work)
	r.git("remote", "add", "origin", r.bare)
	return r
}

func (r *repo) run(argv ...string) string {
	r.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = r.dir, r.env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%q: %v\n%s%s", argv, err, out, said.Bytes())
	}
	return strings.TrimSpace(string(out))
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	return r.run(append([]string{"git", "-C", r.work}, args...)...)
}

func (r *repo) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.work, name)
	must(r.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

// text is what a file of the work tree holds; "" if there is none.
func (r *repo) text(name string) string {
	b, _ := os.ReadFile(filepath.Join(r.work, name))
	return string(b)
}

// push commits all, pushes by force and returns the commit. Its options go to
// git commit.
func (r *repo) push(options ...string) string {
	r.t.Helper()
	r.git("add", "-A")
	r.git(append([]string{"commit", "-q", "--allow-empty", "-m", "change\n\nbody"}, options...)...)
	r.git("push", "-q", "-f", "origin", "HEAD")
	return r.git("rev-parse", "HEAD")
}

// commit is push after writing specs/a.hcl.
func (r *repo) commit(text string, options ...string) string {
	r.t.Helper()
	r.write("specs/a.hcl", text)
	return r.push(options...)
}

// fileURL is of the bare repository.
func (r *repo) fileURL() string { return "file://" + r.bare }

// options are for following specs over a file URL.
func (r *repo) options() Options {
	return Options{URL: r.fileURL(), Ref: "main", Path: "specs", StateDir: filepath.Join(r.dir, "state")}
}

func (r *repo) follow(change ...func(*Options)) *Source {
	r.t.Helper()
	o := r.options()
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	must(r.t, err)
	return s
}

// fetch expects a revision of this ID and these texts, and keeps it.
func fetch1(t testing.TB, s *Source, id, texts string) source.Revision {
	t.Helper()
	r, err := s.Fetch(t.Context())
	must(t, err)
	if got := textsOf(r); r.ID != id || got != texts {
		t.Fatalf("got %s %q, want %s %q", r.ID, got, id, texts)
	}
	must(t, s.Keep(r))
	return r
}

func textsOf(r source.Revision) string {
	var b strings.Builder
	for _, f := range r.Files {
		b.Write(f.Bytes)
	}
	return b.String()
}

func fails(t testing.TB, s *Source, want ...string) error {
	t.Helper()
	r, err := s.Fetch(t.Context())
	if err == nil {
		t.Fatalf("got %s, want an error with %q", r.ID, want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %q, want %q in it", err, w)
		}
	}
	return err
}

// web is git http-backend behind TLS.
type web struct {
	url      string
	ca       string // file
	packs    atomic.Int64
	password atomic.Pointer[string]
	seen     atomic.Pointer[string] // the last user
}

func (r *repo) serveWeb() *web {
	r.t.Helper()
	w := &web{ca: filepath.Join(r.dir, "ca.pem")}
	backend := &cgi.Handler{
		Path: "/usr/lib/git-core/git-http-backend", Dir: r.dir,
		Env: []string{"GIT_PROJECT_ROOT=" + r.dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + r.dir, "REMOTE_USER=x"},
	}
	if _, err := os.Stat(backend.Path); err != nil {
		kerneltest.Missing(r.t, backend.Path)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		w.seen.Store(&user)
		if want := w.password.Load(); want != nil && password != *want {
			rw.Header().Set("WWW-Authenticate", "Basic")
			// What some servers do with what they are told.
			http.Error(rw, "no access with "+password, http.StatusUnauthorized)
			return
		}
		if req.Method == http.MethodPost {
			w.packs.Add(1)
		}
		backend.ServeHTTP(rw, req)
	}))
	r.t.Cleanup(server.Close)
	must(r.t, os.WriteFile(w.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	w.url = server.URL + "/it's%20bare!.git"
	return w
}

// shell is an sshd on loopback.
type shell struct {
	url, known, key string
	port            int
}

func (r *repo) serveSSH() shell {
	r.t.Helper()
	kerneltest.Host(r.t)
	kerneltest.Program(r.t, "ssh-keygen")
	const sshd = "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		kerneltest.Missing(r.t, sshd)
	}
	must(r.t, os.MkdirAll("/run/sshd", 0o755))
	plainShell(r.t, filepath.Join(r.dir, "passwd"))
	for name, kind := range map[string]string{"host": "ed25519", "host2": "ecdsa", "user": "ed25519"} {
		r.run("ssh-keygen", "-q", "-N", "", "-t", kind, "-f", name)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	must(r.t, listener.Close())
	at := func(name string) string { return filepath.Join(r.dir, name) }
	must(r.t, os.WriteFile(at("sshd_config"), fmt.Appendf(nil, `
ListenAddress 127.0.0.1
Port %d
HostKey %s
HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
`, port, at("host"), at("host2"), at("user.pub")), 0o600))
	var said bytes.Buffer
	cmd := exec.Command(sshd, "-D", "-e", "-f", at("sshd_config"))
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // whatever becomes of the test
	must(r.t, cmd.Start())
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			r.t.Fatalf("sshd: %s", said.Bytes())
		}
	}
	s := shell{url: fmt.Sprintf("ssh://root@%s%s", address, strings.ReplaceAll(r.bare, " ", "%20")), known: at("known_hosts"), key: at("user"), port: port}
	s.know(r.t, at("host.pub"))
	return s
}

// plainShell gives root, in this test's mounts alone, a shell that reads none of
// its files: who knows what they wait for.
func plainShell(t testing.TB, path string) {
	t.Helper()
	b, err := os.ReadFile("/etc/passwd")
	must(t, err)
	b = regexp.MustCompile(`(?m)^(root:.*:)[^:]*$`).ReplaceAll(b, []byte("${1}/bin/sh"))
	must(t, os.WriteFile(path, b, 0o644))
	must(t, unix.Mount(path, "/etc/passwd", "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount("/etc/passwd", unix.MNT_DETACH)) })
}

// know writes the known_hosts file.
func (s shell) know(t testing.TB, pub string) {
	t.Helper()
	b, err := os.ReadFile(pub)
	must(t, err)
	must(t, os.WriteFile(s.known, fmt.Appendf(nil, "[127.0.0.1]:%d %s", s.port, b), 0o600))
}

func (s shell) options(o *Options) {
	o.URL, o.KnownHosts = s.url, s.known
	o.Credentials = func(context.Context) (Credentials, error) {
		key, err := os.ReadFile(s.key)
		return Credentials{Key: key}, err
	}
}
