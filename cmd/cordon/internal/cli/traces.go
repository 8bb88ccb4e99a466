package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/enforcers/proxy/token"
	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/enforcers/transcript"
	"github.com/aicodesit/cordon/specs"
)

// tokens are the proxy's, as sessions get them.
type tokens struct{}

func (tokens) Mint(dir string, p specs.Proxy) (string, error) { return token.Mint(dir, p) }
func (tokens) Revoke(dir string) error                        { return token.Revoke(dir) }

// tokenAge is how old a session's token is; "-" without one.
func (a *App) tokenAge(id string) string {
	t, err := token.Read(a.Rundir().Session(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "-"
	case err != nil:
		return "?"
	case !time.Now().Before(t.Expires):
		return "expired"
	}
	return t.Age(time.Now()).Round(time.Second).String()
}

func (a *App) WithTokens(list []session.Status) []broker.Session {
	out := make([]broker.Session, 0, len(list))
	for _, s := range list {
		out = append(out, broker.Session{Status: s, Token: a.tokenAge(s.ID)})
	}
	return out
}

// scrubber takes what belonged to a session, and what the files declare as
// credentials of proxies, out of transcripts.
func (a *App) Scrubber(set specs.Set) func(context.Context, session.Transcript) error {
	return func(ctx context.Context, t session.Transcript) error {
		o, unknown := a.ScrubOptions(set)
		o.Addresses, o.Base = t.Addresses, t.Base
		r, err := transcript.Scrub(ctx, t.Dir, o)
		a.Log().Info("transcripts", "dir", t.Dir, "files", r.Files, "changed", r.Changed)
		return errors.Join(unknown, err)
	}
}

// scrubOptions is what to look for. The error names the credentials that
// could not be read, so that they are not looked for.
func (a *App) ScrubOptions(set specs.Set) (transcript.Options, error) {
	o := transcript.Options{Log: a.Log()}
	prefixes := map[string]bool{"cc-sess-": true}
	named := map[string]bool{}
	for _, p := range set.Proxies {
		prefixes[p.TokenPrefix()] = true
		for _, u := range p.AllUpstreams() {
			for _, name := range u.Inject {
				named[name] = true
			}
			named[u.Credential] = true
		}
	}
	for _, p := range set.Projects {
		if p.Git != nil {
			named[p.Git.Credential] = true
		}
	}
	o.Prefixes = slices.Sorted(maps.Keys(prefixes))
	delete(named, "")
	reader := a.Secrets(set.Secrets)
	var unknown error
	for _, name := range slices.Sorted(maps.Keys(named)) {
		value, err := reader.Read(name)
		if err != nil {
			unknown = errors.Join(unknown, fmt.Errorf("not looked for in transcripts: %w", err))
			continue
		}
		o.Secrets = append(o.Secrets, value)
	}
	return o, unknown
}
