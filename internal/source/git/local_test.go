package git

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// local is a repository with a history, made by git itself.
type local struct {
	t   *testing.T
	dir string
}

func newLocal(t *testing.T) *local {
	t.Helper()
	l := &local{t, filepath.Join(t.TempDir(), "repo")}
	must(t, os.Mkdir(l.dir, 0o755))
	l.git("init", "-q", "-b", "main")
	l.commit("specs/a.hcl", "one")
	l.git("tag", "-a", "-m", "first", "v1")
	l.commit("specs/a.hcl", "two")
	l.git("branch", "feature")
	l.commit("specs/a.hcl", "three")
	return l
}

func (l *local) git(args ...string) string {
	l.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	out, err := cmd.Output()
	if err != nil {
		l.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (l *local) write(name, text string) {
	l.t.Helper()
	must(l.t, os.MkdirAll(filepath.Dir(filepath.Join(l.dir, name)), 0o755))
	must(l.t, os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o644))
}

func (l *local) commit(name, text string) string {
	l.t.Helper()
	l.write(name, text)
	l.git("add", "-A")
	l.git("commit", "-q", "-m", text)
	return l.git("rev-parse", "HEAD")
}

func revision(dir, rev string) (text, id string, err error) {
	l, err := OpenLocal(dir)
	if err != nil {
		return "", "", err
	}
	defer l.Close() //nolint:errcheck // was read
	r, err := l.Revision(rev)
	return textsOf(r), r.ID, err
}

func TestLocalRevisions(t *testing.T) {
	l := newLocal(t)
	l.git("checkout", "-q", "-b", "side", "v1")
	l.commit("specs/b.hcl", "b")
	l.git("checkout", "-q", "main")
	l.git("merge", "-q", "--no-edit", "side")
	l.git("update-ref", "refs/remotes/origin/main", "HEAD~1")
	l.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	head := l.git("rev-parse", "HEAD")
	l.git("branch", head[:6], "v1") // git prefers a reference to a shortened hash
	l.git("tag", "both", "main")
	l.git("branch", "both", "v1") // and a tag to a branch
	for _, packed := range []bool{false, true} {
		if packed {
			l.git("gc", "-q")
		}
		for _, rev := range []string{
			"main", "HEAD", "@", "v1", "v1~0", "v1^0", "feature", "origin/main", "origin", "refs/heads/feature", "heads/feature", "remotes/origin/main", "tags/v1",
			head, head[:12], strings.ToUpper(head[:9]), head[:6], "both", "HEAD~1", "HEAD~2", "HEAD^", "HEAD^2", "HEAD^2~1", "HEAD~1^1~", "main^0~~", "feature~", "side^",
		} {
			want := l.git("rev-parse", rev+"^{commit}")
			if _, got, err := revision(filepath.Join(l.dir, "specs"), rev); err != nil || got != want {
				t.Errorf("packed %v: %s is %s (%v), git says %s", packed, rev, got, err, want)
			}
		}
	}
	for rev, want := range map[string]string{
		"nowhere": "fetch-depth: 0", "": "not understood", "main@{yesterday}": "not understood", ":/three": "not understood", "main:specs": "not understood",
		"--all": "not understood", "main^{tree}": "not understood", "HEAD~40": "parents", "HEAD^3": "2 parents", "~1": "not understood",
		"../../x": "no such", "config": "no such", "1234567890123456789012345678901234567890": "missing", "abcd": "no such", "main~x": "not understood",
		"main^{/x}": "not understood",
	} {
		if _, _, err := revision(filepath.Join(l.dir, "specs"), rev); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", rev, err, want)
		}
	}
}

func TestLocalDirectories(t *testing.T) {
	l := newLocal(t)
	l.commit("root.hcl", "root")
	must(t, os.Symlink("specs", filepath.Join(l.dir, "link")))
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.Symlink(filepath.Join(l.dir, "specs"), outside))
	tree := filepath.Join(t.TempDir(), "tree")
	l.git("worktree", "add", "-q", "-b", "linked", tree, "v1")
	super := newLocal(t)
	super.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", l.dir, "sub")
	super.git("commit", "-q", "-m", "sub")
	shared := filepath.Join(t.TempDir(), "shared")
	l.git("clone", "-q", "--shared", ".", shared)

	for _, tt := range []struct{ dir, rev, want string }{
		{l.dir, "HEAD", "root"},
		{filepath.Join(l.dir, "specs"), "HEAD", "three"},
		{filepath.Join(l.dir, "link"), "HEAD", "three"},
		{outside, "HEAD", "three"},
		{filepath.Join(tree, "specs"), "HEAD", "one"},
		{filepath.Join(tree, "specs"), "main", "three"},
		{filepath.Join(super.dir, "sub", "specs"), "HEAD", "three"},
		{filepath.Join(shared, "specs"), "HEAD", "three"},
	} {
		if got, _, err := revision(tt.dir, tt.rev); err != nil || got != tt.want {
			t.Errorf("%s at %s: got %q, %v; want %q", tt.dir, tt.rev, got, err, tt.want)
		}
	}

	// What is not in the working tree any more can still be read.
	must(t, os.RemoveAll(filepath.Join(l.dir, "specs")))
	if got, _, err := revision(filepath.Join(l.dir, "specs"), "HEAD"); err != nil || got != "three" {
		t.Errorf("got %q, %v", got, err)
	}
	// A directory that a revision lacks declares nothing; a link to nowhere is
	// an error instead.
	if _, _, err := revision(filepath.Join(l.dir, "new"), "HEAD"); !errors.Is(err, ErrNothing) {
		t.Errorf("got %v", err)
	}
	must(t, os.Mkdir(filepath.Join(l.dir, "dangling"), 0o755))
	must(t, os.Symlink("gone/x.hcl", filepath.Join(l.dir, "dangling", "a.hcl")))
	l.git("add", "-A")
	l.git("commit", "-q", "-m", "dangling")
	if _, _, err := revision(filepath.Join(l.dir, "dangling"), "HEAD"); err == nil || errors.Is(err, ErrNothing) {
		t.Errorf("got %v", err)
	}
	if _, _, err := revision(filepath.Join(super.dir, "sub"), "HEAD"); err != nil {
		t.Errorf("the submodule itself: %v", err)
	}
	if _, err := OpenLocal(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not in a git repository") {
		t.Errorf("got %v", err)
	}
}

func TestLocalShallowClone(t *testing.T) {
	l := newLocal(t)
	dir := filepath.Join(t.TempDir(), "shallow")
	l.git("clone", "-q", "--depth=1", "file://"+l.dir, dir)
	if got, _, err := revision(filepath.Join(dir, "specs"), "HEAD"); err != nil || got != "three" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, rev := range []string{"HEAD~1", "v1", "origin/feature", l.git("rev-parse", "v1^0")} {
		if _, _, err := revision(filepath.Join(dir, "specs"), rev); err == nil || !strings.Contains(err.Error(), "fetch-depth: 0") {
			t.Errorf("%s: got %v, want a hint", rev, err)
		}
	}
}

// Whatever a repository's own settings would have git run, nothing is run.
func TestLocalRunsNothing(t *testing.T) {
	l := newLocal(t)
	proof := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "script")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+proof+"\ncat\n"), 0o755))
	l.commit(".gitattributes", "*.hcl filter=bad diff=bad\n")
	for _, c := range [][2]string{
		{"core.fsmonitor", script},
		{"core.sshCommand", script},
		{"core.pager", script},
		{"core.hooksPath", filepath.Dir(script)},
		{"core.gitProxy", script},
		{"filter.bad.smudge", script},
		{"filter.bad.clean", script},
		{"filter.bad.process", script},
		{"diff.bad.textconv", script},
		{"alias.rev-parse", "!" + script},
		{"include.path", script},
		{"core.alternateRefsCommand", script},
		{"gpg.program", script},
		{"extensions.worktreeConfig", "true"},
		{"core.worktree", "/"},
	} {
		must(t, os.WriteFile(filepath.Join(l.dir, ".git", "config"), append(read(t, filepath.Join(l.dir, ".git", "config")),
			[]byte("\n["+section(c[0])+"\n\t"+c[0][strings.LastIndex(c[0], ".")+1:]+" = \""+c[1]+"\"\n")...), 0o644))
	}
	if got, _, err := revision(filepath.Join(l.dir, "specs"), "HEAD~1"); err != nil || got != "three" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := os.Stat(proof); err == nil {
		t.Error("something was run")
	}
}

func section(key string) string {
	parts := strings.Split(key, ".")
	if len(parts) == 3 {
		return parts[0] + " \"" + parts[1] + "\"]"
	}
	return parts[0] + "]"
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return b
}

func TestLocalRefusesOtherFormats(t *testing.T) {
	l := &local{t, t.TempDir()}
	l.git("init", "-q", "--object-format=sha256")
	if _, err := OpenLocal(l.dir); err == nil || !strings.Contains(err.Error(), "objectformat = sha256 is not supported") {
		t.Errorf("got %v", err)
	}
}
