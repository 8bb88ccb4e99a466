package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// After a restart all is said again; GitLab answers that it is so already.
func TestStatusThatHolds(t *testing.T) {
	calls := 0
	s, client := server(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"message":"Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via \"enqueue\")"}`)
	})
	for kind, complains := range map[string]bool{GitLab: false, Gitea: true} {
		var log bytes.Buffer
		n := New(Options{
			Host: "h", Client: client, Log: slog.New(slog.NewTextHandler(&log, nil)), State: func() loop.State { return loop.State{Revision: &loop.Revision{ID: sha}} },
			Statuses: []Status{{Kind: kind, Repository: "a/b", Base: s.URL, Token: is("t")}},
		})
		calls = 0
		for range 2 {
			if _, _, err := n.lanes[0].send(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if calls != 1 || (log.Len() > 0) != complains {
			t.Errorf("%s: %d calls, log %q", kind, calls, log.String())
		}
	}
}

func TestJudge(t *testing.T) {
	now := time.Now()
	header := func(list ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(list); i += 2 {
			h.Set(list[i], list[i+1])
		}
		return h
	}
	for name, tt := range map[string]struct {
		code     int
		header   http.Header
		took     bool
		min, max time.Duration
	}{
		"taken":                 {201, nil, true, 0, 0},
		"broken":                {502, nil, false, 0, 0},
		"too many":              {429, header("Retry-After", "90"), false, 90 * time.Second, 90 * time.Second},
		"a date":                {503, header("Retry-After", now.Add(10*time.Minute).UTC().Format(http.TimeFormat)), false, 9 * time.Minute, 10 * time.Minute},
		"for ever":              {429, header("Retry-After", "99999999999"), false, longestAsk, longestAsk},
		"the past":              {429, header("Retry-After", "-5"), false, 0, 0},
		"forbidden":             {403, nil, false, -1, -1},
		"forbidden for a while": {403, header("Retry-After", "60"), false, time.Minute, time.Minute},
		"the hour is used up":   {403, header("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(now.Add(20*time.Minute).Unix())), false, 19 * time.Minute, 20 * time.Minute},
		"forbidden, with hours": {403, header("X-RateLimit-Remaining", "12", "X-RateLimit-Reset", fmt.Sprint(now.Add(time.Hour).Unix())), false, -1, -1},
		"elsewhere":             {307, header("Location", "https://x"), false, -1, -1},
	} {
		took, after, err := judge(&http.Response{StatusCode: tt.code, Header: tt.header})
		if took != tt.took || (err == nil) != tt.took || after < tt.min || after > tt.max {
			t.Errorf("%s: got %v, %s, %v", name, took, after, err)
		}
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

// After a restart no event tells that what had converged has again: whoever
// knows it has the status looked at.
func TestStatusAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		var mu sync.Mutex
		revision := loop.Revision{ID: sha}
		n := New(Options{
			Host: "h", Client: &http.Client{Transport: p}, Log: slog.New(slog.DiscardHandler),
			State: func() loop.State {
				mu.Lock()
				defer mu.Unlock()
				r := revision
				return loop.State{Revision: &r}
			},
			Statuses: []Status{{Kind: GitHub, Repository: "a/b", Token: is("token")}},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); n.Run(ctx) }()
		n.Emit(loop.Event{Kind: loop.RevisionTaken})
		time.Sleep(time.Minute) // a slow host
		mu.Lock()
		revision.Reached = time.Now()
		mu.Unlock()
		n.Look()
		n.Look()
		time.Sleep(time.Minute)
		synctest.Wait()
		said := ""
		for _, g := range p.got {
			var body struct{ State string }
			if err := json.Unmarshal(g.body, &body); err != nil {
				t.Error(err)
			}
			said += body.State + " "
		}
		if said != "pending success " {
			t.Errorf("said %q", said)
		}
		cancel()
		<-done
	})
}
