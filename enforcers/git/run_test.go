package git

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/specs"
)

const tokenValue = "glpat-Zm9vYmFyc2VjcmV0"

// rig is a host of repositories behind TLS that wants a credential, another
// host that must never be asked, and a project of a user of its own.
type rig struct {
	t       *testing.T
	dir     string
	server  *httptest.Server
	evil    *httptest.Server
	project specs.Project
	runner  Runner
	out     bytes.Buffer

	mu      sync.Mutex
	asked   []string                                          // of evil, headers included
	during  func()                                            // called in each request with the right credential
	instead func(w http.ResponseWriter, r *http.Request) bool // answers in place of git
}

const uid = 12345

func newRig(t *testing.T) *rig {
	t.Helper()
	kerneltest.Host(t)
	kerneltest.Program(t, "git")
	dir, err := os.MkdirTemp("/run", "git")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir}
	backend := &cgi.Handler{
		Path: strings.TrimSpace(git(t, "/", "--exec-path")) + "/git-http-backend",
		Env:  []string{"GIT_PROJECT_ROOT=" + dir + "/srv", "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=shop", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	r.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, password, _ := req.BasicAuth(); password != tokenValue {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		if r.during != nil {
			r.during()
		}
		if r.instead != nil && r.instead(w, req) {
			return
		}
		backend.ServeHTTP(w, req)
	}))
	t.Cleanup(r.server.Close)
	r.evil = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.asked = append(r.asked, fmt.Sprint(req.URL, req.Header))
		r.mu.Unlock()
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "give it to me", http.StatusUnauthorized)
	}))
	t.Cleanup(r.evil.Close)
	ca := dir + "/ca.pem"
	put(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})))

	seed := dir + "/seed"
	git(t, dir, "init", "-q", "-b", "trunk", seed)
	put(t, seed+"/a.txt", "hello\n")
	put(t, seed+"/.gitattributes", "* filter=x diff=x merge=x\n")
	put(t, seed+"/.gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = "+r.evil.URL+"/s.git\n")
	git(t, seed, "add", ".")
	git(t, seed, "update-index", "--add", "--cacheinfo", "160000,1111111111111111111111111111111111111111,s")
	git(t, seed, "commit", "-q", "-m", "one")
	git(t, dir, "clone", "-q", "--bare", seed, dir+"/srv/u/shop.git")
	git(t, dir+"/srv/u/shop.git", "config", "http.receivepack", "true")

	r.project = project(t, dir, "shop", r.server.URL+"/u/shop.git")
	r.project.Git.Credential = "gitea"
	r.own(r.project.Directory)
	r.runner = Runner{Dir: dir + "/own", CAFile: ca, Stdout: &r.out, Stderr: &r.out, Secret: func(name string) (string, error) {
		if name != "gitea" {
			return "", errors.New("no such secret")
		}
		return tokenValue, nil
	}}
	return r
}

func (r *rig) own(path string) {
	r.t.Helper()
	err := filepath.WalkDir(path, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, uid, uid))
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) run(args ...string) error {
	return r.runner.Run(context.Background(), r.project, args...)
}

func (r *rig) must(args ...string) {
	r.t.Helper()
	if err := r.run(args...); err != nil {
		r.t.Fatal(err)
	}
}

// user runs git in the project as its user.
func (r *rig) user(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.project.Directory
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	who, err := identity(r.project)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd.SysProcAttr = sysProcAttr(who)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}

// clean checks that nothing is left, nobody else was asked, and the secret is
// nowhere on disk and in nothing that was said.
func (r *rig) clean(said ...string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.asked) > 0 {
		r.t.Errorf("the other host was asked: %q", r.asked)
	}
	if left, _ := filepath.Glob(r.dir + "/own/*"); len(left) > 0 {
		r.t.Errorf("left behind: %q", left)
	}
	forms := []string{tokenValue, base64.StdEncoding.EncodeToString([]byte("x-access-token:" + tokenValue))}
	for _, f := range forms {
		for _, s := range append(said, r.out.String()) {
			if strings.Contains(s, f) {
				r.t.Errorf("the secret is said: %s", s)
			}
		}
		err := filepath.WalkDir(r.dir, func(p string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(p)
			if bytes.Contains(b, []byte(f)) {
				r.t.Errorf("the secret is in %s", p)
			}
			return err
		})
		if err != nil {
			r.t.Error(err)
		}
	}
}

func TestCloneFetchPush(t *testing.T) {
	r := newRig(t)
	r.must("clone")
	if got := get(t, r.project.Directory+"/a.txt"); got != "hello\n" {
		t.Errorf("checked out %q", got)
	}
	if got := r.user("status", "--short", "--branch", "--ignore-submodules"); got != "## trunk\n" {
		t.Errorf("status: %q", got)
	}
	put(t, r.project.Directory+"/b.txt", "new")
	r.own(r.project.Directory)
	r.user("add", "b.txt")
	r.user("commit", "-q", "-m", "two")
	r.must("push", "origin", "trunk")
	if got := git(t, r.dir+"/srv/u/shop.git", "log", "--format=%s", "trunk"); got != "two\none\n" {
		t.Errorf("pushed: %q", got)
	}
	// Another's commit comes in, pruned and tagged.
	git(t, r.dir+"/seed", "fetch", "-q", r.dir+"/srv/u/shop.git", "trunk")
	git(t, r.dir+"/seed", "reset", "-q", "--hard", "FETCH_HEAD")
	git(t, r.dir+"/seed", "commit", "-q", "--allow-empty", "-m", "three")
	git(t, r.dir+"/seed", "tag", "v1")
	git(t, r.dir+"/seed", "push", "-q", r.dir+"/srv/u/shop.git", "trunk", "v1")
	r.must("fetch", "--prune", "--tags")
	if got := r.user("log", "--format=%s", "-1", "origin/trunk"); got != "three\n" {
		t.Errorf("fetched: %q", got)
	}
	if got := r.user("tag"); got != "v1\n" {
		t.Errorf("tags: %q", got)
	}
	r.out.Reset()
	r.must("ls-remote", "--heads")
	if !strings.Contains(r.out.String(), "refs/heads/trunk") {
		t.Errorf("ls-remote: %q", r.out.String())
	}
	r.user("fsck", "--strict")
	if err := r.run("clone"); err == nil || !strings.Contains(err.Error(), "fetch instead") {
		t.Errorf("cloned over a repository: %v", err)
	}
	r.clean()
}

func TestShallowAndPacked(t *testing.T) {
	r := newRig(t)
	git(t, r.dir+"/seed", "commit", "-q", "--allow-empty", "-m", "two")
	git(t, r.dir+"/seed", "push", "-q", r.dir+"/srv/u/shop.git", "trunk")
	e := New(Options{Projects: []specs.Project{r.project}})
	d, err := e.Desired(specs.Set{Projects: []specs.Project{r.project}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.apply(&r.project, d[0]); err != nil {
		t.Fatal(err)
	}
	r.must("fetch", "--depth=1")
	if got := r.user("log", "--format=%s", "origin/trunk"); got != "two\n" {
		t.Errorf("shallow: %q", got)
	}
	r.user("pack-refs", "--all")
	r.must("fetch", "--unshallow")
	if got := r.user("log", "--format=%s", "origin/trunk"); got != "two\none\n" {
		t.Errorf("whole: %q", got)
	}
	git(t, r.dir+"/srv/u/shop.git", "branch", "side", "trunk")
	r.must("fetch")
	git(t, r.dir+"/srv/u/shop.git", "branch", "-D", "side")
	r.user("pack-refs", "--all")
	r.must("fetch", "-p")
	if got := r.user("branch", "-r"); got != "  origin/trunk\n" {
		t.Errorf("pruned: %q", got)
	}
	r.clean()
}

// While git runs, the credential is in no process's arguments or environment,
// and git is the project's user.
func TestNothingInArgumentsOrEnvironment(t *testing.T) {
	r := newRig(t)
	r.must("clone")
	seen := 0
	r.during = func() {
		procs, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range procs {
			for _, f := range []string{"/cmdline", "/environ"} {
				b, _ := os.ReadFile(p + f)
				if bytes.Contains(b, []byte(tokenValue)) {
					t.Errorf("in %s%s: %q", p, f, b)
				}
			}
			name, _ := os.ReadFile(p + "/comm")
			status, _ := os.ReadFile(p + "/status")
			env, _ := os.ReadFile(p + "/environ")
			if strings.HasPrefix(string(name), "git-remote-http") && bytes.Contains(env, []byte(r.dir)) {
				seen++
				if !strings.Contains(string(status), fmt.Sprintf("Uid:\t%d\t%d\t%d\t%d\n", uid, uid, uid, uid)) || !strings.Contains(string(status), "Groups:\t \n") {
					t.Errorf("git runs as %s", status)
				}
			}
		}
	}
	t.Setenv("CORDON_TEST_SECRET", "of cordon's own environment")
	r.must("fetch")
	if seen == 0 {
		t.Error("no git was seen")
	}
	r.clean()
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	r := newRig(t)
	r.instead = func(w http.ResponseWriter, req *http.Request) bool {
		http.Redirect(w, req, r.evil.URL+req.URL.Path, http.StatusFound)
		return true
	}
	for _, args := range [][]string{{"fetch"}, {"clone"}, {"ls-remote"}} {
		if args[0] == "fetch" {
			if g, err := initGit(r.project.Directory); err != nil {
				t.Fatal(err)
			} else {
				g.close()
			}
		}
		err := r.run(args...)
		if err == nil || !strings.Contains(err.Error(), "302") || !strings.Contains(err.Error(), "was the repository renamed?") {
			t.Errorf("%q: %v", args, err)
		}
		r.clean(fmt.Sprint(err))
	}
}

// A server that says what it was told is not repeated.
func TestErrorsDoNotEchoTheSecret(t *testing.T) {
	r := newRig(t)
	r.instead = func(w http.ResponseWriter, req *http.Request) bool {
		user, password, _ := req.BasicAuth()
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "no, %s, not with %s\n%s", user, password, strings.TrimPrefix(req.Header.Get("Authorization"), "Basic "))
		return true
	}
	err := r.run("clone")
	var failed *run.Error
	if !errors.As(err, &failed) || run.ExitCode(err) != 128 || !strings.Contains(failed.Stderr, "[redacted]") {
		t.Errorf("error: %v", err)
	}
	r.clean(err.Error())

	r.instead = nil
	r.runner.Secret = func(string) (string, error) { return "user:wrong-password", nil }
	if err = r.run("clone"); err == nil || strings.Contains(err.Error(), "wrong-password") {
		t.Errorf("error: %v", err)
	}
	r.runner.Secret = func(string) (string, error) { return "", errors.New("secret.gitea: is empty") }
	if err = r.run("clone"); err == nil || !strings.Contains(err.Error(), "secret.gitea: is empty") {
		t.Errorf("error: %v", err)
	}
	r.runner.Secret = func(string) (string, error) { return "two\nlines", nil }
	if err = r.run("clone"); err == nil || strings.Contains(err.Error(), "two\n") {
		t.Errorf("error: %v", err)
	}
}

// hostile is all that a session can put into its repository to have it run, or
// to have what goes to the remote go elsewhere. marker is made when it does.
func (r *rig) hostile(marker string) {
	r.t.Helper()
	g := r.project.Directory + "/.git/"
	script := "#!/bin/sh\nenv >> " + marker + "\ncat <&3 >> " + marker + "\n"
	put(r.t, g+"x", script)
	sh := g + "x"
	put(r.t, g+"config", fmt.Sprintf(`[core]
	fsmonitor = %[1]s
	sshCommand = %[1]s
	gitProxy = %[1]s
	askPass = %[1]s
	hooksPath = %[2]shooks
	pager = %[1]s
	editor = %[1]s
	alternateRefsCommand = %[1]s
	attributesFile = %[2]sattributes
[remote "origin"]
	url = %[3]s/u/shop.git
	pushurl = %[3]s/u/shop.git
	fetch = +refs/heads/*:refs/remotes/origin/*
	uploadpack = %[1]s
	receivepack = %[1]s
	proxy = %[3]s
[url "%[3]s/"]
	insteadOf = %[4]s/
	pushInsteadOf = %[4]s/
[credential]
	helper = !%[1]s
[credential "%[4]s"]
	helper = !%[1]s
	username = x
[http]
	proxy = %[3]s
	extraHeader = X: y
	sslVerify = false
	followRedirects = true
[filter "x"]
	smudge = %[1]s
	clean = %[1]s
	process = %[1]s
	required = true
[diff "x"]
	command = %[1]s
	textconv = %[1]s
[diff]
	external = %[1]s
[merge "x"]
	driver = %[1]s
[alias]
	fetch = !%[1]s
	push = !%[1]s
	checkout = !%[1]s
	ls-remote = !%[1]s
[include]
	path = %[2]sincluded
[gpg]
	program = %[1]s
[push]
	gpgSign = true
	recurseSubmodules = on-demand
[fetch]
	recurseSubmodules = true
[submodule]
	recurse = true
[submodule "s"]
	url = %[3]s/s.git
	active = true
	update = !%[1]s
[protocol]
	allow = always
[branch "trunk"]
	remote = %[3]s/u/shop.git
	pushRemote = %[3]s/u/shop.git
[remote]
	pushDefault = %[3]s/u/shop.git
[extensions]
	worktreeConfig = true
`, sh, g, r.evil.URL, r.server.URL))
	put(r.t, g+"config.worktree", "[core]\n\tfsmonitor = "+sh+"\n")
	put(r.t, g+"included", "[core]\n\tfsmonitor = "+sh+"\n")
	put(r.t, g+"attributes", "* filter=x\n")
	for _, d := range []string{"hooks", "info"} {
		if err := os.MkdirAll(g+d, 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	put(r.t, g+"info/attributes", "* filter=x diff=x merge=x\n")
	for _, h := range []string{"pre-push", "reference-transaction", "post-checkout", "post-merge", "post-update", "update", "pre-auto-gc", "post-index-change", "fsmonitor-watchman", "proc-receive", "pre-receive", "post-receive"} {
		put(r.t, g+"hooks/"+h, script)
	}
	r.own(r.project.Directory)
	for _, f := range []string{g + "x"} {
		if err := os.Chmod(f, 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	hooks, _ := filepath.Glob(g + "hooks/*")
	for _, h := range hooks {
		if err := os.Chmod(h, 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestHostileRepository(t *testing.T) {
	r := newRig(t)
	r.must("clone")
	shared := r.dir + "/marks"
	if err := os.Mkdir(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	marker := shared + "/ran"
	put(t, r.project.Directory+"/b.txt", "new")
	r.own(r.project.Directory)
	r.user("add", "b.txt")
	r.user("commit", "-q", "-m", "two")
	r.hostile(marker)
	// It would run, were it not for the repository of cordon's own.
	bad := exec.Command("git", "status")
	bad.Dir = r.project.Directory
	bad.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}
	bad.ExtraFiles = []*os.File{devNull(t)}
	_ = bad.Run()
	if _, err := os.Stat(marker); err != nil {
		t.Fatalf("the trap does not work: %v", err)
	}
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	// The session may do so at any time, in the middle of a request too.
	r.during = func() { r.hostile(marker) }
	for _, args := range [][]string{{"fetch"}, {"fetch", "--prune", "--tags"}, {"push", "origin", "trunk"}, {"ls-remote"}, {"clone"}} {
		if err := r.run(args...); err != nil && args[0] != "clone" {
			t.Errorf("%q: %v", args, err)
		}
		if b, err := os.ReadFile(marker); err == nil {
			t.Fatalf("%q ran the session's code: %s", args, b)
		}
	}
	if got := git(t, r.dir+"/srv/u/shop.git", "log", "--format=%s", "trunk"); got != "two\none\n" {
		t.Errorf("pushed: %q", got)
	}
	r.clean()
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestLeftoversAreRemoved(t *testing.T) {
	r := newRig(t)
	old := time.Now().Add(-time.Hour)
	if err := os.MkdirAll(r.dir+"/own", 0o711); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"git-killed", "git-running", "other"} {
		if err := os.MkdirAll(r.dir+"/own/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(r.dir+"/own/"+name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	f, err := lockDir(r.dir + "/own/git-running")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r.must("clone")
	left, _ := filepath.Glob(r.dir + "/own/*")
	if got := strings.Join(left, " "); got != r.dir+"/own/git-running "+r.dir+"/own/other" {
		t.Errorf("left: %s", got)
	}
}

// A server that does not answer is left when the context ends, with all that
// was started.
func TestCancelled(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	r.instead = func(_ http.ResponseWriter, req *http.Request) bool {
		cancel()
		<-req.Context().Done() // the client hangs up
		return true
	}
	if err := r.runner.Run(ctx, r.project, "clone"); err == nil {
		t.Error("no error")
	}
	r.clean()
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"gc"},
		{"-c", "x=y", "fetch"},
		{"fetch", "--upload-pack=sh"},
		{"push", "--receive-pack", "sh"},
		{"push", "--exec=sh"},
		{"fetch", "https://evil.example.com/x"},
		{"fetch", "origin", "ext::sh://"},
		{"fetch", "--", "upstream"},
		{"fetch", "--", "origin", "--upload-pack=sh"},
		{"fetch", "--recurse-submodules"},
		{"fetch", "--multiple"},
		{"fetch", "--all"},
		{"push", "--repo=https://evil.example.com"},
		{"push", "--mirror=x", "evil"},
		{"ls-remote", "--upload-pack=sh"},
		{"ls-remote", "-u"},
		{"clone", "https://evil.example.com/x"},
		{"clone", "-c", "x=y"},
		{"fetch", "-o", "x"},
		{"fetch", "-qx"},
	} {
		if got, err := arguments(args); err == nil {
			t.Errorf("%q became %q", args, got)
		}
	}
	for _, args := range [][]string{{"fetch"}, {"fetch", "origin"}, {"fetch", "-p", "--depth=1", "origin", "+refs/heads/*:refs/remotes/origin/*"}, {"push", "origin", "HEAD:main", "--force-with-lease"}, {"push", "--", "origin", "main"}} {
		got, err := arguments(args)
		if err != nil || got[0] != args[0] || !strings.Contains(strings.Join(got, " "), " -- origin") {
			t.Errorf("%q became %q, %v", args, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	r := newRig(t)
	theirs := r.dir + "/root"
	if err := os.MkdirAll(theirs+"/.git", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		change func(p *specs.Project)
		want   string
	}{
		{func(p *specs.Project) { p.Git = nil }, "no git block"},
		{func(p *specs.Project) { p.Git.Remote = "http://git.example.com/x" }, "only sent over https"},
		{func(p *specs.Project) { p.Git.Remote = "ssh://git@git.example.com/x" }, "only sent over https"},
		{func(p *specs.Project) { p.Git.Remote = "git@git.example.com:x" }, "only sent over https"},
		{func(p *specs.Project) { p.Git.Remote = "/etc" }, "must be an https"},
		{func(p *specs.Project) { p.Git.Remote = "ext::sh -c id" }, "must be an https"},
		{func(p *specs.Project) { p.Git.Remote = "https://u:p@git.example.com/x" }, "must be an https"},
		{func(p *specs.Project) { p.Directory = theirs }, "belongs to root"},
		{func(p *specs.Project) { p.Directory = r.dir + "/none" }, "no such file"},
		{func(p *specs.Project) { p.User = "nobody-there" }, "nobody-there"},
		{func(*specs.Project) {}, "no such file"},
	} {
		p := r.project
		g := *r.project.Git
		p.Git = &g
		tt.change(&p)
		if err := r.runner.Run(context.Background(), p, "fetch"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v", tt.want, err)
		}
	}
	if err := os.Symlink(r.dir, r.project.Directory+"/.git"); err != nil {
		t.Fatal(err)
	}
	if err := r.run("fetch"); err == nil || !strings.Contains(err.Error(), ".git is a file or a link") {
		t.Errorf("error: %v", err)
	}
	r.clean()
}

func TestHelperAnswersForTheDeclaredPlaceOnly(t *testing.T) {
	asked := 0
	h, err := newHelper(&specs.Git{Remote: "https://git.example.com:8443/u/shop.git", Credential: "gitea"}, func(string) (string, error) {
		asked++
		return "shop:" + tokenValue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	for _, q := range []string{
		"", "protocol=https\n", "protocol=http\nhost=git.example.com:8443\npath=u/shop.git\n", "protocol=https\nhost=git.example.com\npath=u/shop.git\n",
		"protocol=https\nhost=evil.example.com:8443\npath=u/shop.git\n", "protocol=https\nhost=git.example.com:8443\npath=u/other.git\n", "protocol=https\nhost=git.example.com:8443\n",
		"protocol=https\nhost=git.example.com:8443\npath=u/shop.git/../other.git\n", "protocol=https\nhost=git.example.com:8443\npath=u/shop.git\nhost=evil\n\n",
	} {
		if got, _ := h.answer(strings.NewReader(q)); got != "" || asked != 0 {
			t.Errorf("%q: %q, read %d times", q, got, asked)
		}
	}
	const good = "protocol=https\nhost=git.example.com:8443\npath=u/shop.git\nwwwauth[]=Basic\n\n"
	if got, err := h.answer(strings.NewReader(good)); err != nil || got != "username=shop\npassword="+tokenValue+"\n" {
		t.Errorf("%q, %v", got, err)
	}
	// Once over the socket, and then nothing more.
	go h.serve()
	if _, err := io.WriteString(h.theirs, good); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(h.theirs)
	if err != nil || !strings.Contains(string(b), tokenValue) {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := io.WriteString(h.theirs, good); err == nil {
		t.Error("a second question was taken")
	}
}

// One git's helper must not end the next one's conversation, which may have its
// descriptor by then. Under the race detector once is enough to show it; without
// it was 1 of 300,000 times.
func TestHelperEndsItsOwnConversationOnly(t *testing.T) {
	for range 2000 {
		first, err := newHelper(&specs.Git{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		_ = first.theirs.Close() // git has ended
		served.Go(first.serve)
		first.close()
		next, err := newHelper(&specs.Git{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		served.Wait()
		if _, err := next.theirs.WriteString("protocol=https\n"); err != nil {
			t.Error(err)
		}
		next.close()
	}
}

func TestRedactor(t *testing.T) {
	for n := 1; n < 40; n++ {
		var out bytes.Buffer
		r := &redactor{to: &out, secrets: func() []string { return []string{tokenValue} }}
		in := "a\r" + tokenValue + "\n" + strings.Repeat("x", maxHeld+10) + tokenValue + strings.Repeat("y", maxHeld) + tokenValue
		for i := 0; i < len(in); i += n * 1000 / 7 {
			if _, err := r.Write([]byte(in[i:min(len(in), i+n*1000/7)])); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.flush(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != strings.ReplaceAll(in, tokenValue, "[redacted]") {
			t.Errorf("in pieces of %d: %d bytes", n, len(got))
		}
	}
}

func sysProcAttr(who *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: who}
}
