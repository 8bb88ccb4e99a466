package git

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Options is what an Enforcer works on.
type Options struct {
	// Projects are those to look at; of the others nothing is seen.
	Projects []specs.Project
	Log      *slog.Logger // nil: nothing is logged
}

// Enforcer makes the configuration of projects' repositories match the specs.
type Enforcer struct{ options Options }

// New returns an Enforcer. It touches nothing.
func New(o Options) *Enforcer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Enforcer{options: o}
}

const enforcerName = "git"

// Repository is what a project's .git/config says.
type Repository struct {
	project   string
	directory string
	Remote    string   `json:"remote"`          // of "origin", without a credential; "" when there is none
	Drift     []string `json:"drift,omitempty"` // what must not be there, values not shown
}

// Addr implements reconciler.Resource.
func (r Repository) Addr() reconciler.Addr { return reconciler.NewAddr(enforcerName, r.project) }

// Needs implements reconciler.Resource.
func (r Repository) Needs() []reconciler.Addr { return nil }

// Desired implements reconciler.Enforcer.
func (e *Enforcer) Desired(set specs.Set) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	for _, p := range set.Projects {
		if p.Git == nil {
			continue
		}
		if shown, ok := safeURL(p.Git.Remote); !ok || shown != p.Git.Remote {
			return nil, fmt.Errorf("%s: remote: must be an https, http, ssh or scp-like address without a password", reconciler.NewAddr(enforcerName, p.Name))
		}
		out = append(out, Repository{project: p.Name, directory: p.Directory, Remote: p.Git.Remote})
	}
	return out, nil
}

var scpLike = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[A-Za-z0-9._~/+-]+$`)
})

// safeURL returns a remote's address as it may be shown: without password,
// token and query. ok tells whether it is one that runs nothing and reads no
// file of the host: https, http, ssh or user@host:path.
func safeURL(raw string) (shown string, ok bool) {
	if scpLike().MatchString(raw) {
		return raw, true
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Opaque != "" || strings.ContainsAny(raw, " \t\r\n\x00\\") {
		return "", false
	}
	switch u.Scheme {
	case "https", "http":
		u.User = nil // a user name alone is how tokens are written
	case "ssh":
		if u.User != nil {
			u.User = url.User(u.User.Username())
		}
	default:
		return "", false
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = "", false, "", ""
	return u.String(), true
}

// remoteOf is the remote of a resource that may come from a plan's file.
func remoteOf(r reconciler.Recorded) (string, error) {
	var attrs struct {
		Remote string `json:"remote"`
	}
	if err := json.Unmarshal(r.Attributes, &attrs); err != nil {
		return "", fmt.Errorf("attributes: %w", err)
	}
	shown, ok := safeURL(attrs.Remote)
	if attrs.Remote != "" && (!ok || shown != attrs.Remote) {
		return "", errors.New("the remote is no address of another host, or holds a credential")
	}
	return attrs.Remote, nil
}

// Locate implements [reconciler.Locator]: the project whose repository it is.
func (e *Enforcer) Locate(set specs.Set, addr reconciler.Addr) specs.Range {
	for _, p := range set.Projects {
		if (Repository{project: p.Name}).Addr() == addr {
			return p.Range
		}
	}
	return specs.Range{}
}
