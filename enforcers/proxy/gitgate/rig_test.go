package gitgate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aicodesit/cordon/internal/gittest"
	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/specs"
)

const (
	password   = "glpat-Zm9vYmFyc2VjcmV0"
	credential = "session-user:" + password
	basic      = "c2Vzc2lvbi11c2VyOmdscGF0LVptOXZZbUZ5YzJWamNtVjA="
)

// rig is a host of repositories behind TLS, a gate before it and a client of
// git that knows no credential. The repository is u/shop.git.
type rig struct {
	t    testing.TB
	dir  string
	host *gittest.Host
	up   *httptest.Server
	gate *Gate
	down *httptest.Server
	end  context.CancelFunc // of the session
	log  *buffer

	mu      sync.Mutex
	reports []string // "status reason"
}

// passed orders what a test changes before what its next request sees, and
// that before the test goes on: of a connection the race detector knows
// nothing.
func (r *rig) passed() {
	r.mu.Lock()
	defer r.mu.Unlock()
}

type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func newRig(t testing.TB, change ...func(*specs.Git)) *rig {
	t.Helper()
	kerneltest.Program(t, "git")
	r := &rig{t: t, dir: t.TempDir(), log: &buffer{}}
	r.host = &gittest.Host{Dir: r.dir + "/srv", Password: password}
	r.up = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.passed()
		r.host.ServeHTTP(w, req)
	}))
	t.Cleanup(r.up.Close)
	r.git(r.dir, "init", "-q", "-b", "trunk", "seed")
	r.write("seed/a.txt", "hello\n")
	r.git(r.dir+"/seed", "add", ".")
	r.git(r.dir+"/seed", "commit", "-q", "-m", "one")
	for _, name := range []string{"shop", "other"} {
		r.git(r.dir, "clone", "-q", "--bare", "seed", "srv/u/"+name+".git")
	}
	g := &specs.Git{Remote: r.up.URL + "/u/shop.git", Credential: "gitea", Push: []string{"refs/heads/agent/*", "refs/heads/wip"}}
	for _, c := range change {
		c(g)
	}
	var err error
	r.gate, err = New(Options{
		Projects: []specs.Project{{Name: "shop", Git: g}}, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Secret:    func(string) (string, error) { return credential, nil },
		Transport: r.up.Client().Transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	alive, end := context.WithCancel(context.Background())
	r.end = end
	t.Cleanup(end)
	r.serve(Caller{Session: "aaaaaaaa", Project: "shop", Alive: alive})
	t.Cleanup(r.secretless)
	return r
}

func (r *rig) serve(c Caller) {
	r.down = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.passed()
		r.gate.Serve(w, req, c, func(status int, reason string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reports = append(r.reports, fmt.Sprint(status, " ", reason))
		})
	}))
	r.t.Cleanup(r.down.Close)
}

func (r *rig) reported(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, have := range r.reports {
		if have == what {
			return true
		}
	}
	return false
}

// base is what the gate puts in the place of https://HOST/.
func (r *rig) base() string {
	return r.down.URL + specs.GitPrefix + strings.TrimPrefix(r.up.URL, "https://") + "/"
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// try runs git as a session would, and returns all that it says.
func (r *rig) try(dir string, args ...string) (string, error) {
	r.passed()
	defer r.passed()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_DEFAULT_HASH=" + cmp.Or(os.Getenv("GIT_DEFAULT_HASH"), "sha1"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	if r.down != nil {
		cmd.Env = append(cmd.Env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+r.base()+".insteadOf", "GIT_CONFIG_VALUE_0="+r.up.URL+"/")
	}
	out, err := cmd.CombinedOutput()
	if s := string(out); strings.Contains(s, password) || strings.Contains(s, basic) {
		r.t.Errorf("git says the secret: %s", s)
	}
	return string(out), err
}

func (r *rig) git(dir string, args ...string) string {
	r.t.Helper()
	out, err := r.try(dir, args...)
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// refused runs git, which must fail and say each of want.
func (r *rig) refused(dir string, args []string, want ...string) {
	r.t.Helper()
	out, err := r.try(dir, args...)
	if err == nil {
		r.t.Errorf("git %s: succeeded\n%s", strings.Join(args, " "), out)
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			r.t.Errorf("git %s: says nothing of %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
}

// clone clones the declared remote into dir.
func (r *rig) clone(args ...string) string {
	r.t.Helper()
	dir := r.t.TempDir() + "/w"
	r.git(r.dir, append(append([]string{"clone", "-q"}, args...), r.up.URL+"/u/shop.git", dir)...)
	return dir
}

// at is what the host has for a ref; "" when there is none.
func (r *rig) at(ref string) string {
	out, _ := r.try(r.dir+"/srv/u/shop.git", "rev-parse", "-q", "--verify", ref)
	return strings.TrimSpace(out)
}

func (r *rig) commit(dir, name, text string) string {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.git(dir, "add", ".")
	r.git(dir, "commit", "-q", "-m", name)
	return r.git(dir, "rev-parse", "HEAD")
}

// do sends a request to the gate and returns status and body.
func (r *rig) do(method, path, body string, header ...string) (int, string) {
	r.t.Helper()
	r.passed()
	defer r.passed()
	req, err := http.NewRequest(method, r.down.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	text := fmt.Sprint(resp.Header, string(b))
	if strings.Contains(text, password) || strings.Contains(text, basic) {
		r.t.Errorf("%s %s: the secret comes back: %s", method, path, text)
	}
	return resp.StatusCode, string(b)
}

// path is the gate's path of a service of the repository.
func (r *rig) path(service string) string {
	return specs.GitPrefix + strings.TrimPrefix(r.up.URL, "https://") + "/u/shop.git" + service
}

// secretless checks what was logged and what lies below the rig's folder.
func (r *rig) secretless() {
	if s := r.log.String(); strings.Contains(s, password) || strings.Contains(s, basic) {
		r.t.Errorf("the secret is logged: %s", s)
	}
	out, _ := exec.Command("grep", "-rlaF", "-e", password, "-e", basic, r.dir).Output()
	if len(out) > 0 {
		r.t.Errorf("the secret is in %s", out)
	}
}
