package gitgate

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/specs"
)

// With the real client: an object goes up, is verified, and comes back.
func TestLFS(t *testing.T) {
	kerneltest.Program(t, "git-lfs")
	r := newRig(t)
	dir := r.clone()
	r.git(dir, "lfs", "install", "--local")
	r.git(dir, "lfs", "track", "*.bin")
	content := random(3 << 20)
	r.commit(dir, "a.bin", content)
	r.git(dir, "push", "origin", "HEAD:agent/lfs")
	oid := strings.Fields(r.git(dir, "lfs", "ls-files", "--long"))[0]
	if got, ok := r.host.Object(oid); !ok || string(got) != content {
		t.Fatal("the object did not arrive")
	}
	again := r.t.TempDir() + "/again"
	r.git(r.dir, "-c", "filter.lfs.smudge=git-lfs smudge -- %f", "-c", "filter.lfs.process=git-lfs filter-process", "-c", "filter.lfs.required=true",
		"clone", "-q", "--branch=agent/lfs", r.up.URL+"/u/shop.git", again)
	if got, err := os.ReadFile(again + "/a.bin"); err != nil || string(got) != content {
		t.Errorf("it came back otherwise: %v", err)
	}
	requests := fmt.Sprint(r.host.Requests())
	if !strings.Contains(requests, "/info/lfs/verify") || !r.reported("200 ") {
		t.Errorf("not verified: %s", requests)
	}
	// Nothing of the host's own headers, nor a credential, is in the clone.
	if out, err := exec.Command("grep", "-rlaF", "-e", "only-for-the-gate", "-e", password, "-e", basic, dir, again).Output(); err == nil {
		t.Errorf("in %s", out)
	}
}

const someOID = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"

func batchOf(operation string) string {
	return fmt.Sprintf(`{"operation":%q,"transfers":["ssh","multipart-basic"],"objects":[{"oid":%q,"size":3,"actions":{"upload":{"href":"x"}}}]}`, operation, someOID)
}

// action asks for a batch and returns the path of an action in the answer.
func (r *rig) action(operation, kind string) string {
	r.t.Helper()
	status, body := r.do("POST", r.path("/info/lfs/objects/batch"), batchOf(operation), "Content-Type", lfsType)
	var got batched
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || len(got.Objects) != 1 {
		r.t.Fatalf("%d %s", status, body)
	}
	path, ok := strings.CutPrefix(got.Objects[0].Actions[kind].Href, r.down.URL)
	if !ok || strings.Contains(body, "only-for-the-gate") {
		r.t.Fatalf("not through the gate: %s", body)
	}
	return path
}

func TestSealedActions(t *testing.T) {
	r := newRig(t)
	up, verify := r.action("upload", "upload"), r.action("upload", "verify")
	before := len(r.host.Requests())
	for _, bad := range []struct{ method, path, body string }{
		{"GET", up, ""},                                 // another method
		{"PUT", up, "abcd"},                             // another length
		{"PUT", verify, "abc"},                          // another action's method
		{"PUT", up[:len(up)-4] + "AAAA", "abc"},         // changed
		{"PUT", r.path("/info/lfs/sealed/AAAA"), "abc"}, // made up
		{"POST", r.path("/info/lfs/locks"), "{}"},       // another API
		{"POST", r.path("/info/lfs/locks/verify?x"), "{}"},
	} {
		status, body := r.do(bad.method, bad.path, bad.body)
		if status/100 != 4 || !strings.Contains(body, `"message":"cordon: `) {
			t.Errorf("%s %s: %d %s", bad.method, bad.path, status, body)
		}
	}
	if more := r.host.Requests()[before:]; len(more) > 0 {
		t.Fatalf("went on: %q", more)
	}
	// Another session can do nothing with it.
	mine := r.down.URL
	r.serve(Caller{Session: "bbbbbbbb", Project: "shop", Alive: t.Context()})
	if status, body := r.do("PUT", up, "abc"); status != http.StatusForbidden {
		t.Errorf("another session: %d %s", status, body)
	}
	r.down.URL = mine
	if status, body := r.do("PUT", up, "abc"); status != http.StatusOK {
		t.Errorf("its own: %d %s", status, body)
	}
	if status, body := r.do("GET", r.action("download", "download"), ""); status != http.StatusOK || body != "abc" {
		t.Errorf("back: %d %s", status, body)
	}
	status, body := r.do("GET", r.action("download", "download"), "", "Range", "bytes=1-")
	if status != http.StatusPartialContent || body != "bc" {
		t.Errorf("a part: %d %s", status, body)
	}
}

// A remote whose name does not end in .git is one that does, to Git LFS.
func TestLFSOfAShortName(t *testing.T) {
	r := newRig(t, func(g *specs.Git) { g.Remote = strings.TrimSuffix(g.Remote, ".git") })
	if status, body := r.do("POST", r.path("/info/lfs/objects/batch"), batchOf("upload")); status != http.StatusOK || !strings.Contains(body, "/u/shop.git/info/lfs/sealed/") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := r.do("PUT", r.action("upload", "upload"), "abc"); status != http.StatusOK {
		t.Errorf("upload: %d", status)
	}
	if status, _ := r.do("GET", r.path("/info/refs?service=git-upload-pack"), ""); status != http.StatusForbidden {
		t.Errorf("git itself does not add it: %d", status)
	}
}

// A host that answers a transfer with something else is not repeated, and what
// is no longer declared is over at once.
func TestRefusedTransfers(t *testing.T) {
	r := newRig(t)
	up := r.action("upload", "upload")
	for status, want := range map[int]int{302: http.StatusBadGateway, 401: http.StatusForbidden, 404: http.StatusNotFound, 500: http.StatusBadGateway} {
		r.host.Instead = func(w http.ResponseWriter, req *http.Request) bool {
			w.Header().Set("Location", r.up.URL+"/elsewhere?"+req.Header.Get("Authorization"))
			w.WriteHeader(status)
			fmt.Fprint(w, "you are ", req.Header.Get("Authorization"))
			return true
		}
		got, body := r.do("PUT", up, "abc")
		if got != want || !strings.Contains(body, `"message":"cordon: the host of the repository`) {
			t.Errorf("%d became %d %s", status, got, body)
		}
	}
	r.host.Instead = nil
	r.gate.Projects = []specs.Project{{Name: "shop", Git: &specs.Git{Remote: r.gate.Projects[0].Git.Remote, Credential: "gitea"}}}
	before := len(r.host.Requests())
	if status, _ := r.do("PUT", up, "abc"); status != http.StatusForbidden || len(r.host.Requests()) > before {
		t.Errorf("without push: %d", status)
	}
}

// What a batch holds besides what is needed does not go on, and what the host
// answers must be about what was asked for.
func TestBatchIsMadeAnew(t *testing.T) {
	r := newRig(t)
	sent, answer := "", ""
	r.host.Instead = func(w http.ResponseWriter, req *http.Request) bool {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		sent = string(b)
		fmt.Fprint(w, answer)
		return true
	}
	answer = `{"objects":[]}`
	status, _ := r.do("POST", r.path("/info/lfs/objects/batch"), batchOf("download"))
	want := `{"operation":"download","transfers":["basic"],"objects":[{"oid":"` + someOID + `","size":3}]}`
	if status != http.StatusOK || sent != want {
		t.Errorf("%d: the host got %s", status, sent)
	}
	for text, what := range map[string]string{
		`{"transfer":"ssh","objects":[]}`:                                  "another transfer",
		`{"objects":[{"oid":"` + strings.Repeat("0", 64) + `","size":3}]}`: "another object",
		`<html>`:                    "a page",
		`"` + maxOf(maxBatch) + `"`: "too much",
	} {
		answer = text
		if status, _ := r.do("POST", r.path("/info/lfs/objects/batch"), batchOf("download")); status != http.StatusBadGateway {
			t.Errorf("%s: %d", what, status)
		}
	}
	before := len(r.host.Requests())
	for _, bad := range []string{`{"operation":"delete","objects":[]}`, `{"operation":"download","objects":[{"oid":"../x","size":1}]}`, `{"operation":"download","objects":[{"oid":"` + someOID + `","size":-1}]}`, "x", maxOf(maxBatch)} {
		if status, _ := r.do("POST", r.path("/info/lfs/objects/batch"), bad); status != http.StatusUnprocessableEntity {
			t.Errorf("%.40s: %d", bad, status)
		}
	}
	if more := r.host.Requests()[before:]; len(more) > 0 {
		t.Errorf("the host was asked: %q", more)
	}
	// What the host says of an object may quote what it was sent.
	r.host.Instead = nil
	status, body := r.do("POST", r.path("/info/lfs/objects/batch"), batchOf("download"))
	if status != http.StatusOK || !strings.Contains(body, `"message":"the host answers: not found"`) {
		t.Errorf("%d %s", status, body)
	}
}

func maxOf(n int) string { return strings.Repeat("a", n) }

func TestObjectsElsewhere(t *testing.T) {
	const elsewhere = "objects.example.com"
	r := newRig(t)
	var got []http.Header
	store := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		got = append(got, req.Header.Clone())
		fmt.Fprint(w, "abc")
	}))
	defer store.Close()
	href := store.URL + "/x?X-Amz-Signature=abc"
	r.host.Instead = func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasSuffix(req.URL.Path, "/objects/batch") {
			return false
		}
		fmt.Fprintf(w, `{"objects":[{"oid":%q,"size":3,"actions":{"download":{"href":%q,"header":{"X-Signed":"1","Connection":"x"}}}}]}`, someOID, href)
		return true
	}
	for _, bad := range []string{href, "http://" + strings.TrimPrefix(r.up.URL, "https://") + "/x", "https://" + elsewhere + "/x", "https://u:p@" + strings.TrimPrefix(r.up.URL, "https://") + "/x", "file:///etc/passwd", "https://127.0.0.1:1/"} {
		href = bad
		status, body := r.do("POST", r.path("/info/lfs/objects/batch"), batchOf("download"))
		if status != http.StatusForbidden || strings.Contains(body, "Signature") {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	href = store.URL + "/x?X-Amz-Signature=abc"
	r.gate.Projects[0].Git.LFSHosts = []string{strings.TrimPrefix(store.URL, "https://")}
	r.gate.Transport = both(r.up.Client().Transport, store)
	if status, body := r.do("GET", r.action("download", "download"), "", "Authorization", "Bearer x"); status != http.StatusOK || body != "abc" {
		t.Errorf("%d %s", status, body)
	}
	if len(got) != 1 || got[0].Get("Authorization") != "" || got[0].Get("X-Signed") != "1" || got[0].Get("Connection") != "" {
		t.Errorf("it was sent %v", got)
	}
	// Once the host is no longer declared, what was sealed is worth nothing.
	path := r.action("download", "download")
	r.gate.Projects = []specs.Project{{Name: "shop", Git: &specs.Git{Remote: r.gate.Projects[0].Git.Remote, Credential: "gitea"}}}
	if status, _ := r.do("GET", path, ""); status != http.StatusForbidden {
		t.Errorf("no longer declared: %d", status)
	}
}

// both trusts two servers.
func both(a http.RoundTripper, b *httptest.Server) http.RoundTripper {
	t := a.(*http.Transport).Clone()
	t.TLSClientConfig.RootCAs = t.TLSClientConfig.RootCAs.Clone()
	t.TLSClientConfig.RootCAs.AddCert(b.Certificate())
	return t
}
