package git

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

const (
	remote   = "https://git.example.com/u/shop.git"
	password = "hunter2-secret"
)

func project(t testing.TB, dir, name, remote string) specs.Project {
	t.Helper()
	p := specs.Project{Name: name, Directory: filepath.Join(dir, name), Git: &specs.Git{Remote: remote}}
	if err := os.MkdirAll(p.Directory, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// git runs the real one, without configuration but the repository's.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	kerneltest.Program(t, "git")
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}

// bad are configurations that must not stay, each with what is said of it.
func bad() map[string]string {
	return map[string]string{
		"[remote \"origin\"]\n\turl = https://u:" + password + "@git.example.com/u/shop.git\n":         "remote.origin.url more than once",
		"[http]\n\textraHeader = \"PRIVATE-TOKEN: " + password + "\"\n":                                "http.extraheader (may hold a credential)",
		"[http \"https://u:" + password + "@git.example.com\"]\n\tsslVerify = false\n":                 "http.*.sslverify (may hold a credential)",
		"[credential]\n\thelper = store\n":                                                             "credential.helper (may hold a credential)",
		"[credential \"https://git.example.com\"]\n\thelper = \"!f() { echo " + password + "; }\"\n":   "credential.*.helper (may hold a credential)",
		"[remote \"origin\"]\n\tpushurl = https://evil.example.com/x\n":                                "remote.origin.pushurl",
		"[url \"https://evil.example.com/\"]\n\tinsteadOf = https://git.example.com/\n":                "url.*.insteadof",
		"[core]\n\thooksPath = /tmp/x\n":                                                               "core.hookspath",
		"[core]\n\tfsmonitor = /tmp/x\n":                                                               "core.fsmonitor",
		"[core]\n\tsshCommand = /tmp/x\n":                                                              "core.sshcommand",
		"[core]\n\tgitProxy = /tmp/x\n\taskPass = /tmp/y\n\teditor = z\n\tpager = p\n":                 "core.gitproxy",
		"[core]\n\tworktree = /etc\n":                                                                  "core.worktree",
		"[CORE] fsMonitor = x\n":                                                                       "core.fsmonitor",
		"[include]\n\tpath = /tmp/x\n":                                                                 "include.path",
		"[includeIf \"gitdir:/\"]\n\tpath = /tmp/x\n":                                                  "includeif.*.path",
		"[filter \"x\"]\n\tclean = sh\n\tsmudge = sh\n\tprocess = sh\n":                                "filter.*.clean",
		"[diff]\n\texternal = sh\n":                                                                    "diff.external",
		"[diff \"x\"]\n\ttextconv = sh\n\tcommand = sh\n":                                              "diff.*.textconv",
		"[merge \"x\"]\n\tdriver = sh\n":                                                               "merge.*.driver",
		"[alias]\n\tfetch = !sh\n":                                                                     "alias.fetch",
		"[remote \"x\"]\n\turl = ext::sh -c id\n":                                                      "remote.x.url",
		"[remote \"x\"]\n\turl = /etc\n":                                                               "remote.x.url",
		"[remote \"x\"]\n\tuploadpack = sh\n\treceivepack = sh\n\tvcs = x\n\tproxy = x\n":              "remote.x.uploadpack",
		"[branch \"main\"]\n\tremote = https://u:" + password + "@evil.example.com/\n":                 "branch.main.remote (may hold a credential)",
		"[branch \"main\"]\n\tpushRemote = ext::sh\n":                                                  "branch.main.pushremote",
		"[submodule \"x\"]\n\tupdate = !sh\n":                                                          "submodule.x.update",
		"[submodule \"x\"]\n\turl = ext::sh\n":                                                         "submodule.x.url",
		"[extensions]\n\tworktreeConfig = true\n":                                                      "extensions.worktreeconfig",
		"[gpg]\n\tprogram = sh\n[gpg \"ssh\"]\n\tprogram = sh\n":                                       "gpg.program",
		"[protocol]\n\tallow = always\n":                                                               "protocol.allow",
		"[trailer \"x\"]\n\tcommand = sh\n":                                                            "trailer.*.command",
		"[uploadpack]\n\tpackObjectsHook = sh\n":                                                       "uploadpack.packobjectshook",
		"[core.fsmonitor]\n\tx = y\n":                                                                  "core.*.x",
		"[lfs \"https://u:" + password + "@git.example.com/\"]\n\tlocksverify = false\n":               "lfs.*.locksverify (may hold a credential)",
		"[lfs \"https://git.example.com/\"]\n\tlocksverify = !sh\n\turl = https://evil.example.com/\n": "lfs.*.locksverify",
		"[future]\n\trunsAProgram = sh\n":                                                              "future.runsaprogram",
	}
}

// What git and Git LFS note down by themselves is no drift.
func TestWhatGitNotesStays(t *testing.T) {
	const text = "[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n[lfs]\n\trepositoryformatversion = 0\n" +
		"[lfs \"http://proxy.internal:3000/git/git.example.com/u/shop.git/info/lfs\"]\n\tlocksverify = false\n"
	settings, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if st := examine(settings, "shop"); len(st.drift) > 0 || len(st.keep) != len(settings) {
		t.Errorf("%+v", st)
	}
}

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	all := []specs.Project{project(t, dir, "shop", remote), project(t, dir, "blog", "git@git.example.com:u/blog.git"), project(t, dir, "none", "ssh://git@git.example.com:2222/none.git")}
	changed := slices.Clone(all)
	changed[0].Git = &specs.Git{Remote: "https://other.example.com/shop.git"}
	without := slices.Clone(all)
	without[1].Git = nil
	config := filepath.Join(dir, "shop", ".git", "config")
	h := enforcertest.Harness{
		Name: "git",
		New: func(*testing.T) reconciler.Enforcer {
			return New(Options{Projects: all})
		},
		Sets: []specs.Set{{Projects: all}, {Projects: changed}, {Projects: without}, {Projects: all[2:]}},
		Foreign: func(t *testing.T) func(*testing.T) {
			other := filepath.Join(dir, "other", ".git")
			if err := os.MkdirAll(other, 0o755); err != nil {
				t.Fatal(err)
			}
			const text = "[cordon]\n\tproject = shop\n[core]\n\tfsmonitor = sh\n"
			put(t, other+"/config", text)
			return func(t *testing.T) {
				if got := get(t, other+"/config"); got != text {
					t.Errorf("became %q", got)
				}
			}
		},
	}
	for text, what := range bad() {
		h.Damage = append(h.Damage, enforcertest.Damage{Name: what, Do: func(t *testing.T) { put(t, config, get(t, config)+text) }})
	}
	replaced := func(name, text string) {
		h.Damage = append(h.Damage, enforcertest.Damage{Name: name, Do: func(t *testing.T) { put(t, config, text) }})
	}
	replaced("another remote", "[remote \"origin\"]\n\turl = https://evil.example.com/x\n[cordon]\n\tproject = shop\n")
	replaced("a credential in the remote", "[remote \"origin\"]\n\turl = https://u:"+password+"@git.example.com/u/shop.git\n")
	replaced("a token in the remote", "[remote \"origin\"]\n\turl = https://"+password+"@git.example.com/u/shop.git\n[cordon]\n\tproject = shop\n")
	replaced("no remote", "[cordon]\n\tproject = shop\n")
	replaced("no mark", "[remote \"origin\"]\n\turl = "+remote+"\n")
	replaced("another's mark", "[remote \"origin\"]\n\turl = "+remote+"\n[cordon]\n\tproject = blog\n")
	replaced("nothing", "")
	replaced("nonsense", "[remote \"origin\n")
	replaced("NUL", "[core]\n\tbare = false\x00\n")
	replaced("too much", strings.Repeat("# \n", maxConfig/3+1))
	files := func(name string, do func() error) {
		h.Damage = append(h.Damage, enforcertest.Damage{Name: name, Do: func(t *testing.T) {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}})
	}
	files("no config", func() error { return os.Remove(config) })
	files("no .git", func() error { return os.RemoveAll(filepath.Dir(config)) })
	files("a link", func() error { _ = os.Remove(config); return os.Symlink("/etc/passwd", config) })
	files("a hard link", func() error { return os.Link(config, filepath.Join(dir, fmt.Sprint("hard", os.Getpid()))) })
	files("a FIFO", func() error { _ = os.Remove(config); return unix.Mkfifo(config, 0o644) })
	files("a common directory", func() error {
		return os.WriteFile(filepath.Dir(config)+"/commondir", []byte("/tmp"), 0o644)
	})
	files("a configuration of the work tree", func() error {
		return os.WriteFile(filepath.Dir(config)+"/config.worktree", []byte("[core]\nfsmonitor = sh\n"), 0o644)
	})
	enforcertest.Run(t, h)
}

// What is wrong is named, and never shown.
func TestDriftIsNamedWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	p := project(t, dir, "shop", remote)
	var log bytes.Buffer
	e := New(Options{Projects: []specs.Project{p}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	git(t, p.Directory, "init", "-q")
	for text, what := range bad() {
		put(t, p.Directory+"/.git/config", "[remote \"origin\"]\n\turl = "+remote+"\n"+text)
		got, err := e.Read(context.Background())
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %v %v", what, got, err)
		}
		r := got[0].(Repository)
		if !slices.Contains(r.Drift, what) {
			t.Errorf("%q: drift is %q", what, r.Drift)
		}
		log.Reset()
		if err := e.Apply(context.Background(), reconciler.Change{Before: r, After: Repository{project: "shop", Remote: remote}}); err != nil {
			t.Fatal(err)
		}
		exposed := strings.Contains(text, password) || strings.Contains(text, "[credential")
		if strings.Contains(log.String(), "credential") != exposed {
			t.Errorf("%q: log is %q", what, log.String())
		}
		if strings.Contains(fmt.Sprint(r)+log.String(), password) {
			t.Errorf("%q: the secret is shown: %v %s", what, r, log.String())
		}
		// As the real git sees it.
		listed := git(t, p.Directory, "config", "--local", "--list")
		if want := "core.repositoryformatversion=0\nremote.origin.url=" + remote + "\nremote.origin.fetch=+refs/heads/*:refs/remotes/origin/*\ncordon.project=shop\n"; listed != want {
			t.Errorf("%q: what is left: %s", what, listed)
		}
	}
}

// What people set stays, and a repository that git made is one afterwards.
func TestHarmlessStays(t *testing.T) {
	dir := t.TempDir()
	p := project(t, dir, "shop", remote)
	git(t, p.Directory, "init", "-q", "-b", "trunk")
	for _, kv := range []string{"user.name=A \"B\" \\ C; #d", "user.email=a@example.com", "branch.trunk.remote=origin", "branch.trunk.merge=refs/heads/trunk", "branch.fe\"at\\ure.rebase=true", "remote.upstream.url=https://git.example.com/up.git", "pull.rebase=true"} {
		k, v, _ := strings.Cut(kv, "=")
		git(t, p.Directory, "config", k, v)
	}
	before := git(t, p.Directory, "config", "--local", "--list")
	e := New(Options{Projects: []specs.Project{p}})
	if err := e.Apply(context.Background(), reconciler.Change{After: Repository{project: "shop", Remote: remote}}); err != nil {
		t.Fatal(err)
	}
	want := before + "remote.origin.url=" + remote + "\nremote.origin.fetch=+refs/heads/*:refs/remotes/origin/*\ncordon.project=shop\n"
	if got := git(t, p.Directory, "config", "--local", "--list"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	git(t, p.Directory, "commit", "-q", "--allow-empty", "-m", "x")
}

func TestNewRepositoryIsItsOwners(t *testing.T) {
	kerneltest.Host(t)
	dir := t.TempDir()
	p := project(t, dir, "shop", remote)
	if err := os.Chown(p.Directory, 12345, 23456); err != nil {
		t.Fatal(err)
	}
	e := New(Options{Projects: []specs.Project{p}})
	if err := e.Apply(context.Background(), reconciler.Change{After: Repository{project: "shop", Remote: remote}}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(p.Directory, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &st)
		}
		if st.Uid != 12345 || st.Gid != 23456 {
			t.Errorf("%s is of %d:%d", path, st.Uid, st.Gid)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A directory that leads elsewhere is drift of this project, is not written
// to, and does not keep the others from being read.
func TestGitDirThatLeadsElsewhere(t *testing.T) {
	dir := t.TempDir()
	p, other := project(t, dir, "shop", remote), project(t, dir, "blog", remote)
	outside := filepath.Join(dir, "outside")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, outside+"/config", "[core]\n\tfsmonitor = sh\n")
	e := New(Options{Projects: []specs.Project{p, other}})
	if err := e.Apply(context.Background(), reconciler.Change{After: Repository{project: "blog", Remote: remote}}); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func() error{
		"link": func() error { return os.Symlink(outside, p.Directory+"/.git") },
		"file": func() error { return os.WriteFile(p.Directory+"/.git", []byte("gitdir: "+outside), 0o644) },
	} {
		_ = os.Remove(p.Directory + "/.git")
		if err := make(); err != nil {
			t.Fatal(err)
		}
		got, err := e.Read(context.Background())
		if err != nil || len(got) != 2 || len(got[0].(Repository).Drift) != 1 || len(got[1].(Repository).Drift) != 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		for _, after := range []reconciler.Resource{Repository{project: "shop", Remote: remote}, nil} {
			err := e.Apply(context.Background(), reconciler.Change{Before: got[0], After: after})
			if err == nil || !strings.HasPrefix(err.Error(), "git.shop: .git is a file or a link") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if got := get(t, outside+"/config"); got != "[core]\n\tfsmonitor = sh\n" {
		t.Errorf("outside became %q", got)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	p := project(t, dir, "shop", remote)
	e := New(Options{Projects: []specs.Project{p}})
	c := reconciler.Change{After: Repository{project: "shop", Remote: remote}}
	if err := e.Apply(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	lock := p.Directory + "/.git/config.lock"
	put(t, lock, "")
	if err := e.Apply(context.Background(), c); err == nil || !strings.Contains(err.Error(), "another git") {
		t.Errorf("error: %v", err)
	}
	_ = os.Remove(lock)
	if err := os.Symlink(dir+"/victim", lock); err != nil {
		t.Fatal(err)
	}
	if err := e.Apply(context.Background(), c); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir + "/victim"); err == nil {
		t.Error("written through a link")
	}
}

func TestDesiredRefusesRemotes(t *testing.T) {
	for _, r := range []string{"https://u:p@h/x", "https://token@h/x", "ext::sh -c id", "file:///etc", "/srv/x", "-oProxyCommand=x", "https://h/x?token=1", "ssh://u:p@h/x"} {
		if got, err := New(Options{}).Desired(specs.Set{Projects: []specs.Project{{Name: "shop", Git: &specs.Git{Remote: r}}}}); err == nil {
			t.Errorf("%s: %v", r, got)
		} else if strings.Contains(err.Error(), r) {
			t.Errorf("shown: %v", err)
		}
	}
}
