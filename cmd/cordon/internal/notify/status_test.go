package notify

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aicodesit/cordon/reconciler/loop"
)

// The hosts' APIs as their documentation has them: method, path, how one
// proves who one is, and the body.
func TestStatusAPIs(t *testing.T) {
	long := strings.Repeat("long ", 100)
	for _, tt := range []struct {
		kind, repository string
		header           map[string]string
		path             string
		failed           string
		description      int // characters at most
	}{
		{GitHub, "acme/infra", map[string]string{"Authorization": "Bearer token", "Accept": "application/vnd.github+json", "X-Github-Api-Version": "2022-11-28"}, "/repos/acme/infra/statuses/", "failure", 140},
		{Gitea, "acme/infra", map[string]string{"Authorization": "token token"}, "/base/api/v1/repos/acme/infra/statuses/", "failure", 140},
		{GitLab, "acme/group/infra", map[string]string{"Private-Token": "token"}, "/api/v4/projects/acme%2Fgroup%2Finfra/statuses/", "failed", 255},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			var bodies []map[string]string
			var paths []string
			s, client := server(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				var body map[string]string
				if err := json.Unmarshal(b, &body); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("%v, %s %v", err, r.Method, r.Header)
				}
				for k, v := range tt.header {
					if r.Header.Get(k) != v {
						t.Errorf("%s: %q, want %q", k, r.Header.Get(k), v)
					}
				}
				bodies, paths = append(bodies, body), append(paths, r.URL.EscapedPath())
				w.WriteHeader(http.StatusCreated)
			})
			base := s.URL
			if tt.kind == Gitea {
				base += "/base/"
			}
			state := loop.State{Revision: &loop.Revision{ID: sha}}
			n := New(Options{
				Host: "web1", Client: client, Log: slog.New(slog.DiscardHandler), State: func() loop.State { return state },
				Statuses: []Status{{Kind: tt.kind, Repository: tt.repository, Base: base, Token: is("token")}},
			})
			step := func() {
				t.Helper()
				for more := true; more; {
					var err error
					if more, _, err = n.lanes[0].send(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			step()
			step() // nothing new, nothing said
			state.Revision.Reached = time.Now()
			step()
			state.Parts = []loop.Part{{Name: "network", Condition: loop.Converged}, {Name: "postgres.main", Condition: loop.Failing, Why: long + "\nmore"}}
			state.Refused = &loop.Refusal{ID: sha2, Why: "shop.hcl:2:3: unknown attribute"}
			step()
			state.Parts, state.Refused = nil, nil
			step()
			text := func(verdict, why string) map[string]string {
				return map[string]string{"state": verdict, "context": "cordon/web1", "description": why}
			}
			want := []map[string]string{
				text("pending", "being enforced"), text("success", "enforced"), text(tt.failed, "refused: shop.hcl:2:3: unknown attribute"),
				text(tt.failed, ("postgres.main: " + long)[:tt.description-1]+"…"), text("success", "enforced"),
			}
			if diff := cmp.Diff(want, bodies); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantPaths := []string{tt.path + sha, tt.path + sha, tt.path + sha2, tt.path + sha, tt.path + sha}
			if diff := cmp.Diff(wantPaths, paths); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	reached := time.Unix(1, 0)
	for name, tt := range map[string]struct {
		state loop.State
		want  []said
	}{
		"nothing yet":         {loop.State{}, nil},
		"a folder":            {loop.State{Revision: &loop.Revision{ID: "sha256:" + sha}}, nil},
		"not a hash":          {loop.State{Revision: &loop.Revision{ID: "../../x"}, Refused: &loop.Refusal{ID: ""}}, nil},
		"taken":               {loop.State{Revision: &loop.Revision{ID: sha}}, []said{{sha, pending, "being enforced"}}},
		"paused":              {loop.State{Revision: &loop.Revision{ID: sha}, Paused: &loop.Pause{Reason: "work"}}, []said{{sha, pending, "paused: work"}}},
		"reached and drifted": {loop.State{Revision: &loop.Revision{ID: sha, Reached: reached}, Parts: []loop.Part{{Condition: loop.Drifted}}}, []said{{sha, success, "enforced"}}},
		"failing": {
			loop.State{Revision: &loop.Revision{ID: sha, Reached: reached}, Parts: []loop.Part{{Name: "slot", Condition: loop.Failing, Why: "no"}}},
			[]said{{sha, failure, "slot: no"}},
		},
		"refused first": {loop.State{Refused: &loop.Refusal{ID: sha2, Why: "broken"}}, []said{{sha2, failure, "refused: broken"}}},
	} {
		if diff := cmp.Diff(tt.want, verdicts(tt.state), cmp.AllowUnexported(said{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What the host does not take is not sent again, and its token is nowhere.
func TestStatusRefused(t *testing.T) {
	calls := 0
	s, client := server(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		http.Error(w, r.Header.Get("Authorization"), http.StatusUnprocessableEntity)
	})
	var log bytes.Buffer
	n := New(Options{
		Host: "h", Client: client, Log: slog.New(slog.NewTextHandler(&log, nil)), State: func() loop.State { return loop.State{Revision: &loop.Revision{ID: sha}} },
		Statuses: []Status{{Kind: Gitea, Repository: "a/b", Base: s.URL, Token: is("verysecret")}},
	})
	for range 3 {
		if _, _, err := n.lanes[0].send(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 1 || strings.Contains(log.String(), "verysecret") || !strings.Contains(log.String(), "422") {
		t.Errorf("%d calls, log %s", calls, log.String())
	}
}

func TestStatusCheck(t *testing.T) {
	for _, s := range []Status{
		{Kind: GitHub, Repository: "a/b"}, {Kind: GitLab, Repository: "a/b/c"}, {Kind: Gitea, Repository: "a/b", Base: "https://gitea.example/sub"},
	} {
		if err := s.Check(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []Status{
		{Kind: GitHub, Repository: "a"},
		{Kind: GitHub, Repository: "a/b/c"},
		{Kind: GitHub, Repository: "a/.."},
		{Kind: GitHub, Repository: "a/b?x"},
		{Kind: GitHub},
		{Kind: Gitea, Repository: "a/b"},
		{Kind: Gitea, Repository: "a/b", Base: "http://gitea.example"},
		{Kind: Gitea, Repository: "a/b", Base: "https://u:verysecret@gitea.example"},
		{Kind: "bitbucket", Repository: "a/b"},
	} {
		if err := s.Check(); err == nil || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("%+v: got %v", s, err)
		}
	}
}
