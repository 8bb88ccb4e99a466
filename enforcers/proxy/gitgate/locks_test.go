package gitgate

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/specs"
)

// With the real client: it knows who has locked what, does not push over that,
// and can neither make a lock nor break one.
func TestLocks(t *testing.T) {
	kerneltest.Program(t, "git-lfs")
	r := newRig(t)
	r.host.Locked = map[string]string{"a.bin": "bob", "b.bin": "session"}
	dir := r.clone()
	r.git(dir, "lfs", "install", "--local")
	r.git(dir, "lfs", "track", "--lockable", "*.bin")
	r.git(dir, "config", "lfs.locksverify", "true")
	r.commit(dir, "b.bin", "mine")
	r.git(dir, "push", "origin", "HEAD:agent/lfs")
	if out := r.git(dir, "lfs", "locks"); !strings.Contains(out, "bob") || !strings.Contains(out, "b.bin") {
		t.Errorf("locks: %s", out)
	}
	r.commit(dir, "a.bin", "bob's")
	r.refused(dir, []string{"push", "origin", "HEAD:agent/lfs"}, "a.bin - bob")
	before := len(r.host.Requests())
	const refused = "cordon: a session neither makes nor breaks locks"
	r.refused(dir, []string{"lfs", "lock", "c.bin"}, refused)
	r.refused(dir, []string{"lfs", "unlock", "--force", "--id=1"}, refused)
	for _, asked := range r.host.Requests()[before:] {
		if !strings.HasPrefix(asked, "GET ") {
			t.Errorf("the host was asked: %s", asked)
		}
	}
}

// What is asked of a host, and what it answers, is what the API has.
func TestLocksAreMadeAnew(t *testing.T) {
	r := newRig(t)
	r.host.Instead = func(w http.ResponseWriter, req *http.Request) bool {
		fmt.Fprintf(w, `{"locks":[{"id":"1","path":"a.bin","owner":{"name":%q}}],"next_cursor":"2","other":{}}`, req.Header.Get("Authorization"))
		return true
	}
	status, body := r.do("GET", r.path("/info/lfs/locks?limit=2&other=1&path=a%26b"), "")
	if want := `{"locks":[{"id":"1","path":"a.bin","owner":{"name":"Basic ` + strings.Repeat("x", len(basic)) + `"}}],"ours":null,"theirs":null,"next_cursor":"2"}`; status != http.StatusOK || body != want {
		t.Errorf("%d %s", status, body)
	}
	if asked := fmt.Sprint(r.host.Requests()); !strings.Contains(asked, "GET /u/shop.git/info/lfs/locks?limit=2&path=a%26b ") {
		t.Error(asked)
	}
	// A credential is masked in the form that JSON gives it.
	const odd = `pass<word>"1`
	r.gate.Secret = func(string) (string, error) { return "u:" + odd, nil }
	r.host.Instead = func(w http.ResponseWriter, req *http.Request) bool {
		_, p, _ := req.BasicAuth()
		fmt.Fprintf(w, `{"locks":[{"id":"1","path":%q}]}`, p)
		return true
	}
	if status, body := r.do("GET", r.path("/info/lfs/locks"), ""); status != http.StatusOK || !strings.Contains(body, `"path":"xxx`) {
		t.Errorf("%d %s", status, body)
	}
	r.host.Instead = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusNotImplemented)
		return true
	}
	if status, body := r.do("POST", r.path("/info/lfs/locks/verify"), "{}"); status != http.StatusNotImplemented {
		t.Errorf("a host without locks: %d %s", status, body)
	}
	before := len(r.host.Requests())
	r.gate.Projects = []specs.Project{{Name: "shop", Git: &specs.Git{Remote: r.gate.Projects[0].Git.Remote, Credential: "gitea"}}}
	if status, body := r.do("POST", r.path("/info/lfs/locks/verify"), "{}"); status != http.StatusForbidden || len(r.host.Requests()) > before {
		t.Errorf("of who only fetches: %d %s", status, body)
	}
}
