package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// The kinds of git hosts.
const (
	GitHub = "github"
	Gitea  = "gitea"
	GitLab = "gitlab"
)

// Status is told at a git host how its commits fare on this one.
type Status struct {
	Kind       string
	Repository string // "owner/name"; with GitLab also "group/group/name"
	// Base is the address of the host, https://gitea.example; of GitHub the one
	// of its API. "" is the public one, which Gitea has none of.
	Base  string
	Token func() (string, error)
}

// Check returns an error that says what of s is wrong.
func (s Status) Check() error {
	parts := strings.Split(s.Repository, "/")
	for _, p := range parts {
		if !segment.MatchString(p) || p == "." || p == ".." {
			return fmt.Errorf("%q is not OWNER/REPOSITORY", s.Repository)
		}
	}
	if len(parts) != 2 && !(s.Kind == GitLab && len(parts) > 2) {
		return fmt.Errorf("%q is not OWNER/REPOSITORY", s.Repository)
	}
	base, err := s.base()
	if err != nil {
		return err
	}
	u, err := parse(base)
	if err == nil && u.User != nil {
		return errors.New("its address has a user in it: a token is what is wanted, and where that is")
	}
	return err
}

var (
	segment = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	commit  = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

func (s Status) base() (string, error) {
	switch s.Kind {
	case GitHub:
		return cmp.Or(s.Base, "https://api.github.com"), nil
	case GitLab:
		return cmp.Or(s.Base, "https://gitlab.com"), nil
	case Gitea:
		if s.Base == "" {
			return "", fmt.Errorf("gitea: say at which address it is")
		}
		return s.Base, nil
	}
	return "", fmt.Errorf("%q is none of github, gitea and gitlab", s.Kind)
}

// verdict is what is said of a commit; the names are GitHub's and Gitea's.
type verdict string

const (
	pending verdict = "pending"
	success verdict = "success"
	failure verdict = "failure"
)

// said is what a commit's status is.
type said struct {
	commit  string
	verdict verdict
	why     string
}

// status is a messenger to a Status.
type status struct {
	Status
	context string
	state   func() loop.State

	mu      sync.Mutex
	told    map[string]said // of the commits that matter now
	sending said
}

// take answers to whatever may change what is to be said.
func (s *status) take(e loop.Event) bool {
	switch e.Kind {
	case loop.RevisionTaken, loop.RevisionRefused, loop.PartConverged, loop.ChangeFailed, loop.PartRecovered, loop.PauseBegan, loop.PauseEnded:
		return true
	}
	return false
}

// request says the first verdict that is not said yet, as of now: what was
// passed over on the way is nobody's concern. That the reason alone differs is
// not said: hosts take a bounded number of statuses for a commit, and GitLab
// none that is no transition.
func (s *status) request(ctx context.Context) (*http.Request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.told
	s.told = map[string]said{}
	var next *said
	for _, v := range verdicts(s.state()) {
		before, known := old[v.commit]
		if known {
			s.told[v.commit] = before
		}
		if next == nil && (!known || before.verdict != v.verdict) {
			next = &v
		}
	}
	if next == nil {
		return nil, nil
	}
	s.sending = *next
	return s.build(ctx, *next)
}

// holds knows the words in which GitLab says that a status is as it is to be;
// after a restart it is told so.
func (s *status) holds(resp *http.Response) bool {
	if s.Kind != GitLab || resp.StatusCode != http.StatusBadRequest {
		return false
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	return err == nil && bytes.Contains(b, []byte("annot transition"))
}

func (s *status) ready() error {
	if err := s.Check(); err != nil {
		return err
	}
	_, err := s.Token()
	return err
}

// said remembers also what was refused: it is not said again and again.
func (s *status) said(bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[s.sending.commit] = s.sending
}

// verdicts are what can be said of commits now.
func verdicts(s loop.State) []said {
	var out []said
	if s.Refused != nil && commit.MatchString(s.Refused.ID) {
		out = append(out, said{s.Refused.ID, failure, "refused: " + s.Refused.Why})
	}
	if s.Revision == nil || !commit.MatchString(s.Revision.ID) {
		return out
	}
	v := said{s.Revision.ID, pending, "being enforced"}
	switch {
	case failing(s.Parts) != "":
		v.verdict, v.why = failure, failing(s.Parts)
	case !s.Revision.Reached.IsZero():
		v.verdict, v.why = success, "enforced"
	case s.Paused != nil:
		v.why = "paused: " + s.Paused.Reason
	}
	return append(out, v)
}

// failing names the first part that fails.
func failing(parts []loop.Part) string {
	for _, p := range parts {
		if p.Condition == loop.Failing {
			return p.Name + ": " + p.Why
		}
	}
	return ""
}

// build is the request as the host's API has it.
func (s *status) build(ctx context.Context, v said) (*http.Request, error) {
	base, err := s.base()
	if err != nil {
		return nil, err
	}
	u, err := parse(strings.TrimSuffix(base, "/"))
	if err != nil {
		return nil, err
	}
	token, err := s.Token()
	if err != nil {
		return nil, err
	}
	body := map[string]string{"state": string(v.verdict), "context": s.context, "description": describe(v, 140)}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	path := ""
	switch s.Kind {
	case GitHub:
		path = "/repos/" + s.Repository + "/statuses/" + v.commit
		header.Set("Accept", "application/vnd.github+json")
		header.Set("X-GitHub-Api-Version", "2022-11-28")
		header.Set("Authorization", "Bearer "+token)
	case Gitea:
		path = "/api/v1/repos/" + s.Repository + "/statuses/" + v.commit
		header.Set("Authorization", "token "+token)
	case GitLab:
		path = "/api/v4/projects/" + url.PathEscape(s.Repository) + "/statuses/" + v.commit
		header.Set("PRIVATE-TOKEN", token)
		body["description"] = describe(v, 255)
		if v.verdict == failure {
			body["state"] = "failed"
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String()+path, bytes.NewReader(text))
	if err != nil {
		return nil, unnamed(err, u)
	}
	req.Header = header
	return req, nil
}

// describe is the reason in one line of at most n characters.
func describe(v said, n int) string {
	return reconciler.Cut(strings.TrimSpace(line(loop.Event{Text: v.why})), n)
}
