package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/aicodesit/cordon/internal/killtest"
	"github.com/aicodesit/cordon/internal/source"
)

// What happens to a repository, by each way there is to it, with servers that
// can leave trees out of an answer and others.
func TestFollows(t *testing.T) {
	for _, filter := range []string{"false", "true"} {
		for name, way := range map[string]func(*repo) func(*Options){
			"file": func(*repo) func(*Options) { return func(*Options) {} },
			"https": func(r *repo) func(*Options) {
				w := r.serveWeb()
				return func(o *Options) { o.URL, o.CA = w.url, w.ca }
			},
			"ssh": func(r *repo) func(*Options) { return r.serveSSH().options },
		} {
			t.Run(name+" filter "+filter, func(t *testing.T) {
				r := newRepo(t)
				r.run("git", "-C", r.bare, "config", "uploadpack.allowFilter", filter)
				life(t, r, way(r))
			})
		}
	}
}

func life(t *testing.T, r *repo, way func(*Options)) {
	r.write("other/big.txt", strings.Repeat("x", 1000))
	first := r.commit("1")
	s := r.follow(way)
	got := fetch1(t, s, first, "1")
	if got.Author != "Ann <ann@example.com>" || got.Title != "change" || got.Ref != "refs/heads/main" || got.Files[0].Name != "specs/a.hcl" || time.Since(got.Time) > time.Hour {
		t.Errorf("got %+v", got)
	}
	fetch1(t, s, first, "1")
	for i := range 3 {
		text := fmt.Sprint("more ", i)
		fetch1(t, s, r.commit(text), text)
	}
	// Rewritten: another root, another history, and back and forth.
	replaced := r.git("rev-parse", "HEAD")
	r.git("checkout", "-q", "--orphan", "rewritten")
	rewritten := r.push()
	r.git("push", "-q", "-f", "origin", "rewritten:main")
	fetch1(t, s, rewritten, "more 2")
	old := r.git("rev-parse", first)
	r.git("push", "-q", "-f", "origin", old+":main")
	refused := fails(t, s, "is an ancestor of one that was enforced already")
	r.git("push", "-q", "-f", "origin", replaced+":main")
	fails(t, s, "is an ancestor of one that was enforced already")
	r.git("push", "-q", "-f", "origin", old+":main")
	if err := refused; !errors.Is(err, source.ErrRefused) {
		t.Errorf("%v is not a refusal", err)
	}
	// After a restart too.
	s = r.follow(way)
	fails(t, s, "is an ancestor")
	kept, err := s.Last()
	must(t, err)
	if kept.ID != rewritten || textsOf(kept) != "more 2" {
		t.Errorf("kept %s %q", kept.ID, textsOf(kept))
	}
	// Forward again, several commits at once.
	r.commit("skipped")
	r.git("branch", "-f", "main")
	next := r.commit("next")
	r.git("push", "-q", "-f", "origin", "HEAD:main")
	fetch1(t, s, next, "next")
	r.git("push", "-q", "-f", "origin", "HEAD~1:main")
	fails(t, s, "is an ancestor")
	// And back on purpose, and forward from there.
	s = r.follow(way, func(o *Options) { o.AllowRollback = true })
	fetch1(t, s, r.git("rev-parse", "HEAD~1"), "skipped")
	s = r.follow(way)
	fetch1(t, s, r.git("rev-parse", "HEAD~1"), "skipped")
	r.git("push", "-q", "-f", "origin", "HEAD:main")
	fetch1(t, s, next, "next")
	if _, err := os.Stat(filepath.Join(r.dir, "state", "repo", "objects", "pack")); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Join(r.dir, "state"))
	must(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) || strings.HasSuffix(e.Name(), ".old") {
			t.Errorf("%s was left", e.Name())
		}
	}
}

func TestRefs(t *testing.T) {
	r := newRepo(t)
	one := r.commit("1")
	r.git("tag", "light")
	r.git("tag", "-a", "-m", "x", "noted")
	r.git("tag", "-a", "-m", "of a tag", "nested", "noted")
	r.git("tag", "both")
	middle := r.commit("middle")
	r.git("branch", "both")
	r.git("tag", "file", r.git("rev-parse", "HEAD:specs/a.hcl"))
	two := r.commit("2")
	r.git("push", "-q", "origin", "--all")
	r.git("push", "-q", "origin", "--tags")
	for _, tt := range []struct{ ref, id, err string }{
		{"", two, ""},
		{"main", two, ""},
		{"refs/heads/main", two, ""},
		{"light", one, ""},
		{"noted", one, ""},
		{"refs/tags/noted", one, ""},
		{one, one, ""},
		{middle, middle, ""},
		{two, two, ""},
		{"both", "", "is a branch and a tag"},
		{"refs/heads/both", middle, ""},
		{"refs/tags/both", one, ""},
		{"nested", "", "of a tag, not of a commit"},
		{"gone", "", `no branch or tag "gone"; the server has both, `},
		{"mai", "", "no branch or tag"},
		{"file", "", "the repository is damaged"},
		{strings.Repeat("1", 40), "", ""},
	} {
		t.Run(tt.ref, func(t *testing.T) {
			s := r.follow(func(o *Options) { o.Ref, o.StateDir = tt.ref, t.TempDir() })
			if tt.id == "" {
				fails(t, s, tt.err)
				return
			}
			fetch1(t, s, tt.id, map[string]string{one: "1", middle: "middle", two: "2"}[tt.id])
		})
	}
}

// A tag that is moved is a change as any.
func TestMovedTag(t *testing.T) {
	r := newRepo(t)
	one := r.commit("1")
	r.git("tag", "-a", "-m", "x", "v1")
	r.git("push", "-q", "origin", "v1")
	s := r.follow(func(o *Options) { o.Ref = "v1" })
	fetch1(t, s, one, "1")
	two := r.commit("2")
	r.git("tag", "-f", "-a", "-m", "x", "v1")
	r.git("push", "-q", "-f", "origin", "v1")
	fetch1(t, s, two, "2")
}

func TestTree(t *testing.T) {
	link := func(r *repo, to, name string) {
		must(r.t, os.MkdirAll(filepath.Dir(filepath.Join(r.work, name)), 0o755))
		must(r.t, os.Symlink(to, filepath.Join(r.work, name)))
	}
	for _, tt := range []struct {
		name string
		path string
		make func(r *repo)
		want string
		err  string
	}{
		{"only this directory", "specs", func(r *repo) {
			r.write("specs/b.hcl", "b")
			r.write("specs/.hidden.hcl", "h")
			r.write("specs/readme.md", "m")
			r.write("specs/deeper/c.hcl", "c")
			r.write("d.hcl", "d")
		}, "ab", ""},
		{"the root", "", func(r *repo) { r.write("d.hcl", "d") }, "d", ""},
		{"path from above", "/x/../specs/", func(*repo) {}, "a", ""},
		{"deeper", "specs/deeper", func(r *repo) { r.write("specs/deeper/c.hcl", "c") }, "c", ""},
		{"executable", "specs", func(r *repo) { must(r.t, os.Chmod(filepath.Join(r.work, "specs/a.hcl"), 0o755)) }, "a", ""},
		{"no such path", "gone/x", func(*repo) {}, "", "gone does not exist"},
		{"path of a file", "specs/a.hcl", func(*repo) {}, "", "a.hcl is not a directory"},
		{"path along a link", "link", func(r *repo) { link(r, "specs", "link") }, "", "link is not a directory"},
		{"no file", "other", func(r *repo) { r.write("other/x.txt", "") }, "", "no *.hcl file"},
		{"link within", "specs", func(r *repo) { r.write("specs/deeper/c", "c"); link(r, "deeper/../deeper/c", "specs/c.hcl") }, "ac", ""},
		{"link to a link", "specs", func(r *repo) {
			r.write("specs/deeper/c", "c")
			link(r, "c", "specs/deeper/d")
			link(r, "deeper/d", "specs/c.hcl")
		}, "ac", ""},
		{"link from below", "specs", func(r *repo) { link(r, "../a.hcl", "specs/deeper/d"); link(r, "deeper/d", "specs/c.hcl") }, "aa", ""},
		{"link out", "specs", func(r *repo) { r.write("secret", "s"); link(r, "../secret", "specs/c.hcl") }, "", "specs/c.hcl: the symbolic link to \"../secret\" leads out"},
		{"link out from below", "specs", func(r *repo) {
			r.write("secret", "s")
			link(r, "../../secret", "specs/deeper/d")
			link(r, "deeper/d", "specs/c.hcl")
		}, "", "leads out"},
		{"absolute link", "specs", func(r *repo) { link(r, "/etc/passwd", "specs/c.hcl") }, "", "leads out"},
		{"link to nothing", "specs", func(r *repo) { link(r, "gone", "specs/c.hcl") }, "", "leads to nothing"},
		{"link to a directory", "specs", func(r *repo) { r.write("specs/deeper/c", "c"); link(r, "deeper", "specs/c.hcl") }, "", "must be a file"},
		{"links in a circle", "specs", func(r *repo) { link(r, "d.hcl", "specs/c.hcl"); link(r, "c.hcl", "specs/d.hcl") }, "", "too many symbolic links"},
		{"a directory", "specs", func(r *repo) { r.write("specs/c.hcl/x", "") }, "", "must be a file"},
		{"LFS", "specs", func(r *repo) {
			r.write("specs/c.hcl", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
		}, "", "specs/c.hcl: it is kept in Git LFS"},
		{"LFS elsewhere", "specs", func(r *repo) { r.write("x.hcl", "version https://git-lfs.github.com/spec/v1\n") }, "a", ""},
		{"large", "specs", func(r *repo) { r.write("specs/c.hcl", strings.Repeat("x", source.MaxFile+1)) }, "", "specs/c.hcl: it has 10000001 bytes"},
		{"large elsewhere", "specs", func(r *repo) { r.write("specs/c.bin", strings.Repeat("x", source.MaxFile+1)) }, "a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRepo(t)
			r.write("specs/a.hcl", "a")
			tt.make(r)
			id := r.push()
			s := r.follow(func(o *Options) { o.Path = tt.path })
			if tt.err != "" {
				for range 2 {
					if r, err := s.Fetch(t.Context()); !errors.Is(err, source.ErrRefused) || !strings.Contains(err.Error(), tt.err) || r.ID != id {
						t.Errorf("%q, %v, want %s refused with %q", r.ID, err, id, tt.err)
					}
				}
				return
			}
			fetch1(t, s, id, tt.want)
		})
	}
}

func TestSubmodulesAreLeftOut(t *testing.T) {
	r := newRepo(t)
	id := r.commit("a")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+id+",specs/module")
	r.git("commit", "-q", "-m", "module")
	r.git("push", "-q", "origin", "HEAD")
	got := fetch1(t, r.follow(), r.git("rev-parse", "HEAD"), "a")
	if len(got.Notes) != 1 || got.Notes[0] != "the submodule specs/module was left out" {
		t.Errorf("notes %q", got.Notes)
	}
	fails(t, r.follow(func(o *Options) { o.Path = "specs/module" }), "module is a submodule")
}

// A message of megabytes does not go to logs, pages and whoever is told.
func TestLongMessage(t *testing.T) {
	r := newRepo(t)
	for text, want := range map[string]string{
		"short\n\nmore":             "short",
		strings.Repeat("ä", 200):    strings.Repeat("ä", 200),
		strings.Repeat("ä", 100000): strings.Repeat("ä", 200) + "…",
	} {
		r.write("specs/a.hcl", text)
		message := filepath.Join(r.dir, "message")
		must(t, os.WriteFile(message, []byte(text), 0o600))
		r.git("add", ".")
		r.git("commit", "-q", "-F", message)
		r.git("push", "-q", "-f", "origin", "HEAD:main")
		got, err := r.follow().Fetch(t.Context())
		must(t, err)
		if got.Title != want {
			t.Errorf("%d characters, want %d", len(got.Title), len(want))
		}
	}
}

// Whatever is wrong with the cache, the next fetch mends it; what was kept is
// never made of it.
func TestDamagedCache(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, repo string){
		"gone":    func(t *testing.T, repo string) { must(t, os.RemoveAll(repo)) },
		"no refs": func(t *testing.T, repo string) { must(t, os.RemoveAll(filepath.Join(repo, "refs"))) },
		"no packs": func(t *testing.T, repo string) {
			must(t, os.RemoveAll(filepath.Join(repo, "objects")))
		},
		"a bit of each pack": func(t *testing.T, repo string) {
			each(t, filepath.Join(repo, "objects/pack/*.pack"), func(b []byte) []byte {
				for i := 12; i < len(b); i += 7 {
					b[i] ^= 4
				}
				return b
			})
		},
		"packs cut off": func(t *testing.T, repo string) {
			each(t, filepath.Join(repo, "objects/pack/*.pack"), func(b []byte) []byte { return b[:len(b)/2] })
		},
		"an index of noughts": func(t *testing.T, repo string) {
			each(t, filepath.Join(repo, "objects/pack/*.idx"), func(b []byte) []byte { return make([]byte, len(b)) })
		},
		"empty indexes": func(t *testing.T, repo string) {
			each(t, filepath.Join(repo, "objects/pack/*.idx"), func([]byte) []byte { return nil })
		},
		"head of nothing": func(t *testing.T, repo string) {
			must(t, os.WriteFile(filepath.Join(repo, "refs/cordon/head"), []byte(strings.Repeat("1", 40)+"\n"), 0o600))
		},
		"a file in its place": func(t *testing.T, repo string) {
			must(t, os.RemoveAll(repo))
			must(t, os.WriteFile(repo, nil, 0o600))
		},
	} {
		for _, when := range []string{"same", "new"} {
			t.Run(name+", "+when, func(t *testing.T) {
				r := newRepo(t)
				r.write("specs/b.hcl", strings.Repeat("much of the same ", 1000))
				id := r.commit("1")
				_, err := r.follow().Fetch(t.Context())
				must(t, err)
				spoil(t, filepath.Join(r.dir, "state", "repo"))
				if when == "new" {
					id = r.commit("2")
				}
				got, err := r.follow().Fetch(t.Context())
				must(t, err)
				if got.ID != id || len(got.Files) != 2 {
					t.Errorf("got %s with %d files", got.ID, len(got.Files))
				}
			})
		}
	}
}

func each(t *testing.T, pattern string, change func([]byte) []byte) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	must(t, err)
	if len(names) == 0 {
		t.Fatalf("no %s", pattern)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		must(t, err)
		must(t, os.Chmod(n, 0o600))
		must(t, os.WriteFile(n, change(b), 0o600))
	}
}

// The cache doesn't grow for ever.
func TestManyFetches(t *testing.T) {
	r := newRepo(t)
	s := r.follow()
	for i := range maxPacks + 3 {
		fetch1(t, s, r.commit(fmt.Sprint(i)), fmt.Sprint(i))
		packs, err := filepath.Glob(filepath.Join(r.dir, "state/repo/objects/pack/*.pack"))
		must(t, err)
		if len(packs) > maxPacks {
			t.Fatalf("%d packs", len(packs))
		}
	}
}

// With the server away what was kept is there at once.
func TestServerAway(t *testing.T) {
	r := newRepo(t)
	id := r.commit("1")
	s := r.follow()
	if _, err := s.Last(); !errors.Is(err, source.ErrNothingKept) {
		t.Errorf("before the first: %v", err)
	}
	fetch1(t, s, id, "1")
	must(t, os.Rename(r.bare, r.bare+".away"))
	fails(t, s, r.fileURL())
	s = r.follow()
	fails(t, s, "does not appear to be a git repository")
	got, err := s.Last()
	if err != nil || got.ID != id || textsOf(got) != "1" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := r.follow(func(o *Options) { o.Ref = "other" }).Last(); err == nil {
		t.Errorf("of another ref: %+v", got)
	}
	must(t, os.WriteFile(filepath.Join(r.dir, "state/revision"), []byte("cordon-revision 1 x"), 0o600))
	if got, err := r.follow().Last(); err == nil || !strings.Contains(err.Error(), "is damaged") || got.ID != "" {
		t.Errorf("damaged: %+v, %v", got, err)
	}
	must(t, os.Rename(r.bare+".away", r.bare))
	fetch1(t, r.follow(), id, "1")
}

// A revision that nobody kept can be gone back from; one that was, can't.
func TestOnlyWhatWasKeptCounts(t *testing.T) {
	r := newRepo(t)
	one := r.commit("1")
	s := r.follow()
	fetch1(t, s, one, "1")
	two := r.commit("broken")
	broken, err := s.Fetch(t.Context())
	if err != nil || broken.ID != two {
		t.Fatalf("got %s, %v", broken.ID, err)
	}
	r.git("push", "-q", "-f", "origin", one+":main")
	fetch1(t, s, one, "1")
	if err := s.Keep(source.Revision{ID: two}); err == nil {
		t.Error("a revision that is not the last fetched was kept")
	}
	r.git("push", "-q", "-f", "origin", two+":main")
	fetch1(t, s, two, "broken")
}

// History that is not known, from a server that is shallow itself or that has
// a file lost, decides against.
func TestUnknownHistory(t *testing.T) {
	r := newRepo(t)
	zero := r.commit("0")
	r.commit("1")
	two := r.commit("2")
	shallow := filepath.Join(r.dir, "shallow.git")
	r.run("git", "clone", "-q", "--bare", "--depth", "1", r.fileURL(), shallow)
	s := r.follow(func(o *Options) { o.URL = "file://" + shallow })
	fetch1(t, s, two, "2")
	full := r.follow()
	r.git("push", "-q", "-f", "origin", zero+":main")
	fails(t, full, "does not descend from "+two)
	r.git("push", "-q", "-f", "origin", two+":main")
	fetch1(t, full, two, "2")
	must(t, os.WriteFile(filepath.Join(r.dir, "state/history"), []byte("x"), 0o600))
	r.git("push", "-q", "-f", "origin", zero+":main")
	fails(t, r.follow(), "does not descend from "+two)
	must(t, os.RemoveAll(filepath.Join(r.dir, "state/revision")))
	fetch1(t, r.follow(), zero, "0") // nothing is known any more
}

func TestTimeout(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close() //nolint:errcheck // test
	r := newRepo(t)
	known := filepath.Join(r.dir, "known")
	r.run("ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", "k")
	shell{known: known, port: silent.Addr().(*net.TCPAddr).Port}.know(t, filepath.Join(r.dir, "k.pub"))
	for _, scheme := range []string{"ssh", "https"} {
		s := r.follow(func(o *Options) {
			o.URL, o.KnownHosts, o.Timeout = scheme+"://"+silent.Addr().String()+"/x.git", known, 50*time.Millisecond
		})
		start := time.Now()
		fails(t, s, "no answer within 50ms")
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: gave up after %s", scheme, took)
		}
	}
}

func TestTooLargeAnswer(t *testing.T) {
	r := newRepo(t)
	r.commit("1")
	b := make([]byte, 300_000)
	for i := range b {
		b[i] = byte(i * i * 7919 >> 3)
	}
	w := r.serveWeb()
	r.write("noise", fmt.Sprintf("%x", b))
	r.push()
	fails(t, r.follow(func(o *Options) { o.MaxPack = 1000 }), "too large")
	fails(t, r.follow(func(o *Options) { o.MaxPack, o.URL, o.CA = 1000, w.url, w.ca }), "too large")
}

func TestOptions(t *testing.T) {
	keys := func(o *Options) { o.Verify = VerifyHead }
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no URL":             {func(o *Options) { o.URL = "" }, "want https://"},
		"http":               {func(o *Options) { o.URL = "http://example.com/x.git" }, "want https://"},
		"git":                {func(o *Options) { o.URL = "git://example.com/x.git" }, "want https://"},
		"option":             {func(o *Options) { o.URL = "-oProxyCommand=x@example.com:x" }, "want https://"},
		"ext":                {func(o *Options) { o.URL = "ext::sh -c x" }, "want https://"},
		"relative":           {func(o *Options) { o.URL = "repo" }, "want https://"},
		"a path":             {func(o *Options) { o.URL = "/srv/infra" }, `"/srv/infra" is not a git URL: did you mean "file:///srv/infra"?`},
		"a broken password":  {func(o *Options) { o.URL = "https://u:%hunter2@example.com/x.git" }, "not a git URL"},
		"a password":         {func(o *Options) { o.URL = "https://u:hunter2@example.com/x.git" }, "has a password in it"},
		"a token as user":    {func(o *Options) { o.URL = "https://ghp_hunter2@example.com/x.git" }, "has a user in it"},
		"ssh with password":  {func(o *Options) { o.URL, o.KnownHosts = "ssh://u:hunter2@example.com/x.git", "x" }, "has a password in it"},
		"ssh with no hosts":  {func(o *Options) { o.URL = "git@example.com:x.git" }, "a known_hosts file is needed"},
		"verify what":        {func(o *Options) { o.Verify = "all" }, `must be "head" or "tag"`},
		"verify by whom":     {keys, "who may sign: give --allowed-signers FILE or --keyring FILE"},
		"no state directory": {func(o *Options) { o.StateDir = "" }, "no state directory"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{URL: "file:///x", StateDir: t.TempDir(), Host: "h"}
			tt.change(&o)
			_, err := New(o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Clones that a killed process left are removed, and the cache is used on.
func TestLeftovers(t *testing.T) {
	r := newRepo(t)
	id := r.commit("1")
	fetch1(t, r.follow(), id, "1")
	for _, name := range []string{"new-1", "new-2.old"} {
		must(t, os.MkdirAll(filepath.Join(r.dir, "state", name, "objects"), 0o700))
	}
	partial := filepath.Join(r.dir, "state/repo/objects/pack/tmp_pack_1")
	must(t, os.WriteFile(partial, []byte("PACK"), 0o600))
	fetch1(t, r.follow(), id, "1")
	left, err := filepath.Glob(filepath.Join(r.dir, "state", "new-*"))
	must(t, err)
	if _, err := os.Stat(partial); err == nil {
		left = append(left, partial)
	}
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// A clone that fails leaves the cache as it was.
func TestFailedCloneLeavesTheCache(t *testing.T) {
	r := newRepo(t)
	id := r.commit("1")
	fetch1(t, r.follow(), id, "1")
	noise := sha256.Sum256(nil)
	for range 100 {
		noise = sha256.Sum256(noise[:])
		r.write("noise", fmt.Sprintf("%s%x", r.text("noise"), noise))
	}
	r.write("specs/a.hcl", "2")
	r.push()
	fails(t, r.follow(func(o *Options) { o.MaxPack = 900 }), "too large")
	left, err := filepath.Glob(filepath.Join(r.dir, "state/repo/objects/pack/*tmp*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
	store, head, ok := disk{filepath.Join(r.dir, "state")}.current()
	if !ok || head.String() != id {
		t.Fatalf("the cache is at %s, %t", head, ok)
	}
	defer store.Close() //nolint:errcheck // test
	if c, _, err := (objects{store}).commit(head); err != nil || c.Hash.String() != id {
		t.Errorf("it has not %s: %v", id, err)
	}
}

// liar has another object by each hash.
type liar struct {
	storer.EncodedObjectStorer
	text string
}

func (l liar) EncodedObjectSize(plumbing.Hash) (int64, error) { return int64(len(l.text)), nil }

func (l liar) EncodedObject(kind plumbing.ObjectType, _ plumbing.Hash) (plumbing.EncodedObject, error) {
	return memory(kind, []byte(l.text)), nil
}

func TestObjectsAreHashed(t *testing.T) {
	o := objects{liar{text: "good"}}
	if b, err := o.get(plumbing.BlobObject, plumbing.ComputeHash(plumbing.BlobObject, []byte("good")), 10); err != nil || string(b) != "good" {
		t.Errorf("got %q, %v", b, err)
	}
	if b, err := o.get(plumbing.BlobObject, plumbing.ComputeHash(plumbing.BlobObject, []byte("other")), 10); !errors.Is(err, errDamaged) {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestFollowRings(t *testing.T) {
	r := newRepo(t)
	s := r.follow(func(o *Options) { o.Interval = time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Follow(ctx) }()
	<-s.Wake()
	<-s.Wake()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if st := s.Status(); st.How != "polling every 1ms" {
		t.Errorf("status %+v", st)
	}
}

func TestNewTidies(t *testing.T) {
	dir := killtest.Writing(t, "history", func(dir string) error {
		return source.WriteChecked(historyPath(dir), historyMagic, make([]byte, killtest.Large))
	})
	_, err := New(Options{URL: "https://git.example/x", StateDir: dir})
	must(t, err)
	killtest.Left(t, dir)
}
