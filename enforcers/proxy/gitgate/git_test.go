package gitgate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/specs"
)

func TestCloneFetchPush(t *testing.T) {
	for hash, digits := range map[string]int{"sha1": 40, "sha256": 64} {
		t.Run(hash, func(t *testing.T) {
			t.Setenv("GIT_DEFAULT_HASH", hash)
			cloneFetchPush(t, digits)
		})
	}
}

func cloneFetchPush(t *testing.T, digits int) {
	r := newRig(t)
	dir := r.clone()
	if got := r.git(dir, "remote", "get-url", "--no-push", "origin"); !strings.HasPrefix(got, r.down.URL) {
		t.Errorf("the remote is %s", got)
	}
	if got := r.git(dir, "config", "remote.origin.url"); got != r.up.URL+"/u/shop.git" {
		t.Errorf("in the configuration there is %s", got)
	}
	head := r.commit(dir, "b.txt", "b")
	if len(head) != digits {
		t.Fatalf("a commit is called %s", head)
	}
	out := r.git(dir, "push", "origin", "HEAD:refs/heads/agent/one", "HEAD:refs/heads/wip")
	if r.at("refs/heads/agent/one") != head || r.at("refs/heads/wip") != head {
		t.Errorf("not pushed: %s", out)
	}
	// A forced update and a deletion of what is the session's own.
	r.git(dir, "commit", "-q", "--amend", "-m", "another")
	r.refused(dir, []string{"push", "origin", "HEAD:refs/heads/wip"}, "rejected")
	r.git(dir, "push", "-f", "--atomic", "origin", "HEAD:refs/heads/wip", ":refs/heads/agent/one")
	if r.at("refs/heads/wip") != r.git(dir, "rev-parse", "HEAD") || r.at("refs/heads/agent/one") != "" {
		t.Error("not forced, or not deleted")
	}
	seed := r.dir + "/seed"
	pushed := r.commit(seed, "c.txt", "c")
	r.git(seed, "push", "-q", r.dir+"/srv/u/shop.git", "HEAD:trunk")
	r.git(dir, "fetch", "origin")
	if got := r.git(dir, "rev-parse", "origin/trunk"); got != pushed {
		t.Errorf("fetched %s", got)
	}
	requests := fmt.Sprint(r.host.Requests())
	if !strings.Contains(requests, "version=2") || !strings.Contains(requests, "git/2.") {
		t.Errorf("neither protocol 2 nor git's name: %s", requests)
	}
}

func TestShallowAndPartial(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.commit(r.dir+"/seed", fmt.Sprint("f", i), strings.Repeat("x", 1000))
	}
	r.git(r.dir+"/seed", "push", "-q", r.dir+"/srv/u/shop.git", "HEAD:trunk")
	for _, version := range []string{"0", "1", "2"} {
		dir := r.t.TempDir() + "/shallow"
		r.git(r.dir, "-c", "protocol.version="+version, "clone", "-q", "--depth=1", r.up.URL+"/u/shop.git", dir)
		if got := r.git(dir, "rev-list", "--count", "HEAD"); got != "1" {
			t.Errorf("version %s: %s commits", version, got)
		}
		r.commit(dir, "new", version)
		r.git(dir, "-c", "protocol.version="+version, "push", "-q", "origin", "HEAD:agent/shallow-"+version)
		r.git(dir, "-c", "protocol.version="+version, "fetch", "-q", "--unshallow")
		if got := r.git(dir, "rev-list", "--count", "HEAD"); got != "7" {
			t.Errorf("version %s: %s commits", version, got)
		}
	}
	partial := r.clone("--filter=blob:none", "--no-checkout")
	if missing := r.git(partial, "rev-list", "--objects", "--all", "--missing=print"); !strings.Contains(missing, "?") {
		t.Error("all is there: not a partial clone")
	}
	r.git(partial, "checkout", "-q", "trunk") // fetches what is missing
	if _, err := os.Stat(partial + "/f4"); err != nil {
		t.Error(err)
	}
}

func TestForbiddenBranch(t *testing.T) {
	r := newRig(t)
	dir := r.clone()
	before := r.at("refs/heads/trunk")
	r.commit(dir, "b.txt", "b")
	r.refused(dir, []string{"push", "origin", "HEAD:trunk"}, "[remote rejected]", "cordon: not among refs/heads/agent/* refs/heads/wip")
	r.refused(dir, []string{"push", "origin", ":trunk"}, "cordon: not among")
	r.refused(dir, []string{"push", "-f", "origin", "HEAD~:refs/tags/v1"}, "cordon: not among")
	r.refused(dir, []string{"push", "origin", "HEAD:trunk", "HEAD:agent/x"}, "cordon: not among", "cordon: not pushed, for another")
	r.refused(dir, []string{"push", "--mirror", "origin"}, "cordon: not among")
	r.refused(dir, []string{"push", "origin", "HEAD:refs/heads/agent"}, "cordon: not among")
	r.refused(dir, []string{"push", "origin", "HEAD:refs/heads/wip2"}, "cordon: not among")
	for _, ref := range []string{"refs/for/agent/x", "refs/for/trunk/x", "refs/pull/1/head"} { // to a host these may be more than names
		r.refused(dir, []string{"push", "origin", "HEAD:" + ref}, "cordon: not among")
	}
	if r.at("refs/heads/trunk") != before || r.at("refs/heads/agent/x") != "" {
		t.Error("something was pushed")
	}
	if i := slices.IndexFunc(r.host.Requests(), func(s string) bool { return strings.HasPrefix(s, "POST") && strings.Contains(s, "receive-pack") }); i >= 0 {
		t.Error("the host was sent a push")
	}
	// What is large is sent in chunks, after a probe.
	r.commit(dir, "large", random(3<<20))
	r.refused(dir, []string{"push", "origin", "HEAD:trunk"}, "cordon: not among")
	if r.at("refs/heads/trunk") != before || !r.reported("200 push") {
		t.Error("a large push went on, or was not reported")
	}
}

// What a host has against a push, its user reads: of a protected branch, as
// Gitea says it.
func TestHostRefusesPush(t *testing.T) {
	r := newRig(t)
	hook := "#!/bin/sh\necho 'error: Not allowed to push to protected branch agent/x' >&2\nexit 1\n"
	if err := os.WriteFile(r.dir+"/srv/u/shop.git/hooks/pre-receive", []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := r.clone()
	r.commit(dir, "b.txt", "b")
	r.refused(dir, []string{"push", "origin", "HEAD:agent/x"}, "remote: error: Not allowed to push to protected branch agent/x", "HEAD -> agent/x (pre-receive hook declined)")
	if r.at("refs/heads/agent/x") != "" {
		t.Error("pushed")
	}
}

func random(n int) string {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return string(b)
}

func TestPushOptions(t *testing.T) {
	r := newRig(t)
	r.git(r.dir+"/srv/u/shop.git", "config", "receive.advertisePushOptions", "true")
	dir := r.clone()
	r.commit(dir, "b.txt", "b")
	r.refused(dir, []string{"push", "-o", "merge_request.create", "origin", "HEAD:agent/x"}, "cordon: options of a push are not passed on")
	if r.at("refs/heads/agent/x") != "" {
		t.Error("pushed")
	}
}

func TestFetchOnly(t *testing.T) {
	r := newRig(t, func(g *specs.Git) { g.Push = nil })
	dir := r.clone()
	r.commit(dir, "b.txt", "b")
	r.refused(dir, []string{"push", "origin", "HEAD:agent/x"}, "remote: cordon: this session may fetch, and not push")
	status, _ := r.do("POST", r.path("/git-receive-pack"), "0000", "Content-Type", "application/x-git-receive-pack-request")
	if status != http.StatusForbidden {
		t.Errorf("a push without asking first: %d", status)
	}
	status, _ = r.do("POST", r.path("/info/lfs/objects/batch"), `{"operation":"upload","objects":[]}`)
	if status != http.StatusForbidden {
		t.Errorf("an upload: %d", status)
	}
}

func TestOtherRepositories(t *testing.T) {
	r := newRig(t)
	r.refused(r.dir, []string{"ls-remote", r.up.URL + "/u/other.git"}, "remote: cordon: this session may use "+r.up.URL+"/u/shop.git only")
	r.refused(r.dir, []string{"ls-remote", r.up.URL + "/u/shop.git-evil"}, "this session may use")
	r.refused(r.dir, []string{"ls-remote", r.up.URL + "/u/shop.git/../other.git"}, "cordon: ")
	before := len(r.host.Requests())
	prefix := strings.TrimSuffix(r.path(""), "/u/shop.git")
	for _, path := range []string{
		prefix + "/u/other.git/info/refs?service=git-upload-pack",
		prefix + "/u/shop.git/../other.git/info/refs?service=git-upload-pack",
		prefix + "/u/shop.git/%2e%2e/other.git/info/refs?service=git-upload-pack",
		prefix + "/u/shop.git%2f..%2fother.git/info/refs?service=git-upload-pack",
		prefix + "//u/shop.git/info/refs?service=git-upload-pack",
		prefix + "/u/%73hop.git/info/refs?service=git-upload-pack",
		prefix + "/u/shop.git/info/refs?service=git-upload-pack&service=git-receive-pack",
		prefix + "/u/shop.git/info/refs?service=git-upload-archive",
		prefix + "/u/shop.git/info/refs", // the dumb protocol
		prefix + "/u/shop.git/HEAD",
		prefix + "/u/shop.git/objects/info/packs",
		prefix + "/u/shop.git/git-upload-archive",
		prefix + "/u/shop.git/settings",
		prefix + "/u/shop.git.git/info/lfs/objects/batch",
		prefix + "/u/shop.git",
		specs.GitPrefix + "example.com/u/shop.git/info/refs?service=git-upload-pack",
		specs.GitPrefix,
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			req, err := http.NewRequest(method, r.down.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.URL.Opaque = path // as it is
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: %d", method, path, resp.StatusCode)
			}
		}
	}
	if more := r.host.Requests()[before:]; len(more) > 0 {
		t.Errorf("the host was asked: %q", more)
	}
}

func TestOtherProjects(t *testing.T) {
	r := newRig(t)
	for _, project := range []string{"", "nosuch"} {
		r.serve(Caller{Session: "b", Project: project, Alive: t.Context()})
		if status, body := r.do("GET", r.path("/info/refs?service=git-upload-pack"), ""); status != http.StatusForbidden {
			t.Errorf("project %q: %d %s", project, status, body)
		}
	}
}

func TestSubmodules(t *testing.T) {
	r := newRig(t)
	seed := r.dir + "/seed"
	r.git(seed, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", r.dir+"/srv/u/other.git", "sub")
	r.git(seed, "config", "-f", ".gitmodules", "submodule.sub.url", "../other.git") // beside the remote: another repository
	r.commit(seed, "x", "x")
	r.git(seed, "push", "-q", r.dir+"/srv/u/shop.git", "HEAD:trunk")
	dir := r.clone()
	r.refused(dir, []string{"submodule", "update", "--init"}, "remote: cordon: this session may use")
	// One that is a branch of the same repository works.
	r.git(dir, "config", "submodule.sub.url", r.up.URL+"/u/shop.git")
	r.git(dir, "submodule", "update", "--init")
}

func TestRedirectIsNotFollowed(t *testing.T) {
	r := newRig(t)
	asked := make(chan string, 10)
	evil := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { asked <- fmt.Sprint(req.URL, req.Header) }))
	defer evil.Close()
	r.host.Instead = func(w http.ResponseWriter, req *http.Request) bool {
		w.Header().Set("Location", evil.URL+req.URL.String()+"&"+req.Header.Get("Authorization"))
		w.WriteHeader(http.StatusFound)
		return true
	}
	r.refused(r.dir, []string{"ls-remote", r.up.URL + "/u/shop.git"}, "remote: cordon: the host of the repository sends elsewhere, which is not followed; if it was renamed")
	status, body := r.do("POST", r.path("/git-upload-pack"), "0000", "Content-Type", "application/x-git-upload-pack-request")
	if status != http.StatusBadGateway {
		t.Errorf("%d %s", status, body)
	}
	if len(asked) > 0 {
		t.Errorf("the other host was asked: %s", <-asked)
	}
}

func TestHostThatQuotes(t *testing.T) {
	r := newRig(t)
	for _, status := range []int{400, 401, 403, 404, 500} {
		r.host.Instead = func(w http.ResponseWriter, req *http.Request) bool {
			_, p, _ := req.BasicAuth()
			w.Header().Set("X-Quote", p)
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(status)
			fmt.Fprint(w, "you are ", req.Header.Get("Authorization"), p)
			return true
		}
		r.refused(r.dir, []string{"ls-remote", r.up.URL + "/u/shop.git"}, "remote: cordon: the host of the repository")
	}
	// In what git itself shows, and across two writes.
	r.host.Instead = func(w http.ResponseWriter, req *http.Request) bool {
		_, p, _ := req.BasicAuth()
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprint(w, "001e# service=git-upload-pack\n0000", string(packet(nil, "ERR you are "+p[:7])))
		_ = http.NewResponseController(w).Flush()
		fmt.Fprint(w, p[7:], " ", req.Header.Get("Authorization"))
		return true
	}
	status, body := r.do("GET", r.path("/info/refs?service=git-upload-pack"), "")
	if status != http.StatusOK || !strings.Contains(body, "you are xxxxxxx") {
		t.Errorf("%d %q", status, body)
	}
}

func TestCertificateIsChecked(t *testing.T) {
	r := newRig(t)
	r.gate.Transport = transport() // which does not know the host's
	r.refused(r.dir, []string{"ls-remote", r.up.URL + "/u/shop.git"}, "remote: cordon: the host of the repository can't be reached")
	if len(r.host.Requests()) > 0 {
		t.Error("it was sent a request")
	}
}

// What is held of a push does not grow with it.
func TestLargePushInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and pushes hundreds of megabytes")
	}
	r := newRig(t)
	dir := r.clone()
	const size = 500 << 20
	f, err := os.Create(dir + "/large")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < size; i += 1 << 20 {
		if _, err := f.WriteString(random(1<<20-8) + fmt.Sprintf("%08d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r.git(dir, "-c", "core.compression=0", "add", ".")
	r.git(dir, "-c", "core.compression=0", "commit", "-q", "-m", "large")
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		var high uint64
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				most <- high
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				high = max(high, m.HeapAlloc)
			}
		}
	}()
	r.git(dir, "-c", "core.compression=0", "push", "-q", "origin", "HEAD:agent/large")
	close(stop)
	if high := <-most; high > 64<<20 {
		t.Errorf("%d MiB held", high>>20)
	}
	if r.at("refs/heads/agent/large") == "" {
		t.Error("not there")
	}
}

func TestEndOfTheSession(t *testing.T) {
	r := newRig(t)
	reached := make(chan struct{})
	r.host.Instead = func(w http.ResponseWriter, req *http.Request) bool {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_ = http.NewResponseController(w).Flush()
		close(reached)
		<-req.Context().Done()
		return true
	}
	done := make(chan error, 1)
	go func() {
		resp, err := http.Post(r.down.URL+r.path("/git-upload-pack"), "application/x-git-upload-pack-request", strings.NewReader("0000"))
		if err == nil {
			_, err = resp.Body.Read(make([]byte, 1))
		}
		done <- err
	}()
	<-reached
	r.end()
	if err := <-done; err == nil {
		t.Error("the stream went on")
	}
}
