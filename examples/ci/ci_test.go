package ci

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

type workflow struct {
	On          any
	Permissions map[string]string
	Env         map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Steps       []step
	}
}

type step struct {
	Name, Uses, If, Run string
	Env                 map[string]string
	With                map[string]any
}

func parse[T any](t *testing.T, name string) (out T) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

var (
	pinned     = regexp.MustCompile(`^[a-z-]+(/[a-z-]+)+@[0-9a-f]{40}$`)
	expression = regexp.MustCompile(`\$\{\{ *([^}]*?) *\}\}`)
)

// What must not be in a workflow that looks at what strangers propose.
func TestWorkflowsAreSafe(t *testing.T) {
	for _, name := range []string{"github.yaml", "gitea.yaml"} {
		w := parse[workflow](t, name)
		on, _ := w.On.(map[string]any)
		if _, ok := on["pull_request"]; !ok || len(on) != 1 {
			t.Errorf("%s: runs on %v", name, w.On)
		}
		for _, j := range w.Jobs {
			for what, right := range j.Permissions {
				if right == "write" && what != "pull-requests" && what != "security-events" {
					t.Errorf("%s: may write %s", name, what)
				}
			}
			if j.Permissions["contents"] != "read" {
				t.Errorf("%s: the permissions are %v", name, j.Permissions)
			}
			for _, s := range j.Steps {
				if s.Uses != "" && !pinned.MatchString(s.Uses) {
					t.Errorf("%s: %s is not pinned", name, s.Uses)
				}
				if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
					t.Errorf("%s: the checkout leaves the token behind", name)
				}
				if strings.Contains(s.Run, "${{") {
					t.Errorf("%s: %s: what others wrote would become part of the script", name, s.Name)
				}
				writes := strings.Contains(fmt.Sprint(s.Env), "token") || strings.Contains(s.Uses, "upload-sarif")
				if writes && !strings.Contains(s.If, "head.repo.full_name == github.repository") {
					t.Errorf("%s: %s: runs for forks, whose token can't write", name, s.Name)
				}
			}
		}
		for k, v := range w.Env {
			if strings.Contains(v, "secrets.") || strings.Contains(v, "token") {
				t.Errorf("%s: every step sees %s", name, k)
			}
		}
	}
}

// repository is one whose head opens a table, merged with its base as GitHub
// does it.
type repository struct {
	t    *testing.T
	dir  string
	base string
}

const specs = `secret "pg" { file = "/run/pg" }
database "main" { connection = secret.pg }
project "shop" {
  directory = "/srv/shop"
  schema {
    database     = database.main
    owner_column = "user_id"
    table "products" { %s }
  }
}
`

func newRepository(t *testing.T, merged bool) *repository {
	r := &repository{t: t, dir: filepath.Join(t.TempDir(), "repo")}
	if err := os.MkdirAll(filepath.Join(r.dir, "infra/cordon"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	r.commit("shop.hcl", fmt.Sprintf(specs, ""))
	r.base = r.git("rev-parse", "HEAD")
	r.git("checkout", "-q", "-b", "feature")
	r.commit("shop.hcl", fmt.Sprintf(specs, `anonymous = ["select"]`))
	r.git("checkout", "-q", "main")
	r.commit("net.hcl", "network \"llm\" {\n  pool = \"10.202.0.0/16\"\n}\n") // meanwhile
	if merged {
		r.git("merge", "-q", "--no-edit", "feature")
	} else {
		r.base = r.git("rev-parse", "HEAD")
		r.git("checkout", "-q", "feature")
	}
	return r
}

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %q: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

func (r *repository) commit(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "infra/cordon", name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", name)
}

// run is a step, as a runner runs it.
func (r *repository) run(script string, env map[string]string) (string, error) {
	cmd := exec.Command("bash", "-e", "-c", script)
	cmd.Dir = r.dir
	cmd.Env = []string{"PATH=" + env["PATH"], "HOME=" + r.dir}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// comments is the part of the hosts' APIs that is about them; the one that is
// there first is somebody else's.
type comments struct {
	mu   sync.Mutex
	list []map[string]any
	auth []string
}

func newComments() *comments {
	return &comments{list: []map[string]any{{"id": 7, "body": "<!-- cordon plan -->\nnot mine", "user": map[string]any{"login": "mallory"}, "author": map[string]any{"id": 66}}}}
}

func (c *comments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.auth = append(c.auth, r.Header.Get("Authorization")+r.Header.Get("PRIVATE-TOKEN"))
	var in map[string]any
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	id := 7
	_, _ = fmt.Sscan(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], &id)
	var answer any = c.list
	switch {
	case strings.HasSuffix(r.URL.Path, "/user"):
		answer = map[string]any{"id": 1}
	case r.Method == http.MethodPost:
		c.list = append(c.list, map[string]any{"id": 8, "body": in["body"], "user": map[string]any{"login": c.login(r)}, "author": map[string]any{"id": 1}})
	case r.Method == http.MethodPatch || r.Method == http.MethodPut:
		for _, e := range c.list {
			if e["id"] == id {
				e["body"] = in["body"]
			}
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (c *comments) login(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, "/api/v1/") {
		return "gitea-actions"
	}
	return "github-actions[bot]"
}

func (c *comments) check(t *testing.T, want string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) != 2 || !strings.HasSuffix(fmt.Sprint(c.list[0]["body"]), "not mine") {
		t.Fatalf("the comments are %v", c.list)
	}
	if body := fmt.Sprint(c.list[1]["body"]); !strings.HasPrefix(body, "<!-- cordon plan -->\n") || !strings.Contains(body, want) {
		t.Errorf("no %q in the comment:\n%s", want, body)
	}
	for _, a := range c.auth {
		if !strings.HasSuffix(a, "token-of-the-job") {
			t.Errorf("asked as %q", a)
		}
	}
}

// gh is as much of GitHub's client as the workflow uses.
const gh = `#!/bin/bash
set -e
method=GET; data=(); filter=.
while [ $# -gt 0 ]; do
  case $1 in
    api|--paginate|--silent) ;;
    --jq) filter=$2; shift;;
    -X) method=$2; shift;;
    -F) data=(--data-binary "$(jq -Rs '{body: .}' "${2#body=@}")"); shift;;
    *) path=$1;;
  esac
  shift
done
curl -fsS -H "Authorization: Bearer $GH_TOKEN" -X "$method" "${data[@]}" "$API_OF_TEST/$path" | jq -r "$filter"
`

func tools(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "cordon"), "../../cmd/cordon").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(bin, "gh"), []byte(gh), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin + ":" + os.Getenv("PATH")
}

func TestWorkflowsRun(t *testing.T) {
	path := tools(t)
	t.Run("gitlab-ci.yml", func(t *testing.T) { gitLab(t, path) })
	for name, merged := range map[string]bool{"github.yaml": true, "gitea.yaml": false} {
		t.Run(name, func(t *testing.T) {
			w := parse[workflow](t, name)
			r := newRepository(t, merged)
			c := newComments()
			server := httptest.NewServer(c)
			defer server.Close()
			temp := t.TempDir()
			values := map[string]string{
				"vars.CORDON_URL": "", "vars.CORDON_SHA256": "", "github.token": "token-of-the-job", "github.event.pull_request.number": "3",
				"github.event.pull_request.base.sha": r.base, "github.server_url": server.URL, "github.repository": "acme/infra",
			}
			all := func() (failed []string) {
				for _, s := range w.Jobs["plan"].Steps {
					env := map[string]string{
						"PATH": path, "RUNNER_TEMP": temp, "GITHUB_STEP_SUMMARY": filepath.Join(temp, "summary"), "GITHUB_REPOSITORY": "acme/infra", "API_OF_TEST": server.URL,
					}
					for _, list := range []map[string]string{w.Env, s.Env} {
						for k, v := range list {
							env[k] = expression.ReplaceAllStringFunc(v, func(e string) string {
								value, ok := values[expression.FindStringSubmatch(e)[1]]
								if !ok {
									t.Fatalf("what is %s?", e)
								}
								return value
							})
						}
					}
					if s.Run == "" {
						continue
					}
					out, err := r.run(s.Run, env)
					if err != nil {
						failed = append(failed, s.Name)
					}
					if s.Name == "comment" && err != nil || strings.Contains(out, "token-of-the-job") {
						t.Errorf("%s: %v\n%s", s.Name, err, out)
					}
				}
				return failed
			}
			if failed := all(); len(failed) > 0 {
				t.Errorf("failed: %q", failed)
			}
			c.check(t, "0 to add, 2 to change, 0 to remove") // and not what the base got meanwhile
			c.check(t, "gains SELECT of all rows on shop.products")

			r.commit("shop.hcl", fmt.Sprintf(specs, `anonimous = ["select"]`))
			if merged {
				r.git("reset", "-q", "--soft", "HEAD~1")
				r.git("commit", "-q", "--amend", "--no-edit")
			}
			if failed := strings.Join(all(), " "); failed != "plan validate" {
				t.Errorf("failed: %q", failed)
			}
			c.check(t, "the files have errors")
			c.check(t, "infra/cordon/shop.hcl:8:24")
		})
	}
}

func gitLab(t *testing.T, path string) {
	type job struct {
		Script []string
		Rules  []map[string]string
	}
	file := parse[map[string]yaml.Node](t, "gitlab-ci.yml")
	jobs := map[string]job{}
	for _, name := range []string{"cordon:plan", "cordon:check", "cordon:comment"} {
		node := file[name]
		var j job
		if err := node.Decode(&j); err != nil || len(j.Script) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		jobs[name] = j
	}
	if rule := jobs["cordon:comment"].Rules[0]["if"]; !strings.Contains(rule, "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID") {
		t.Errorf("it comments for forks: %s", rule)
	}
	r := newRepository(t, false)
	c := newComments()
	server := httptest.NewServer(c)
	defer server.Close()
	env := map[string]string{
		"PATH": path, "DIR": "infra/cordon", "CI_MERGE_REQUEST_DIFF_BASE_SHA": r.git("merge-base", r.base, "HEAD"), "CI_API_V4_URL": server.URL + "/api/v4",
		"CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "3", "CORDON_COMMENT_TOKEN": "token-of-the-job",
	}
	run := func(name string) error {
		out, err := r.run("set -o pipefail\n"+strings.Join(jobs[name].Script, "\n"), env)
		if strings.Contains(out, "token-of-the-job") {
			t.Errorf("%s shows the token", name)
		}
		return err
	}
	for _, name := range []string{"cordon:plan", "cordon:check", "cordon:comment", "cordon:comment"} {
		if err := run(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.check(t, "gains SELECT of all rows on shop.products")
	if b, err := os.ReadFile(filepath.Join(r.dir, "junit.xml")); err != nil || !strings.Contains(string(b), `failures="0"`) {
		t.Errorf("%v\n%s", err, b)
	}
	r.commit("shop.hcl", "nonsense")
	if run("cordon:plan") == nil || run("cordon:check") == nil || run("cordon:comment") != nil {
		t.Error("what is broken passes, or is not told")
	}
	c.check(t, "the files have errors")
	if b, err := os.ReadFile(filepath.Join(r.dir, "junit.xml")); err != nil || strings.Contains(string(b), `failures="0"`) {
		t.Errorf("%v\n%s", err, b)
	}
}
