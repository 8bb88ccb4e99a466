package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/enforcers/proxy"
	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/enforcers/transcript"
	"github.com/aicodesit/cordon/internal/secret"
	"github.com/aicodesit/cordon/specs"
)

// tokens are the proxy's, as sessions get them.
type tokens struct{}

func (tokens) Mint(dir string, p specs.Proxy) (string, error) { return proxy.Mint(dir, p) }
func (tokens) Revoke(dir string) error                        { return proxy.Revoke(dir) }

// tokenAge is how old a session's token is; "-" without one.
func (a *app) tokenAge(id string) string {
	t, err := proxy.ReadToken(a.run().Session(id))
	switch {
	case missing(err):
		return "-"
	case err != nil:
		return "?"
	case !time.Now().Before(t.Expires):
		return "expired"
	}
	return t.Age(time.Now()).Round(time.Second).String()
}

func (a *app) withTokens(list []session.Status) []broker.Session {
	out := make([]broker.Session, 0, len(list))
	for _, s := range list {
		out = append(out, broker.Session{Status: s, Token: a.tokenAge(s.ID)})
	}
	return out
}

func tokensCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "tokens", Short: "The tokens with which sessions reach their proxy"}
	cmd.AddCommand(&cobra.Command{
		Use:   "revoke ID…",
		Short: "End sessions' tokens at once, and the streams that they hold; the sessions go on",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := needRoot("revoking a token"); err != nil {
				return err
			}
			var failed error
			for _, id := range ids {
				failed = errors.Join(failed, a.revoke(id))
			}
			return failed
		},
	})
	return cmd
}

func (a *app) revoke(id string) error {
	if id != filepath.Base(id) || !fs.ValidPath(id) || id == "." {
		return fmt.Errorf("%q is not the id of a session", id)
	}
	dir := a.run().Session(id)
	if _, err := proxy.ReadToken(dir); missing(err) {
		return fmt.Errorf("session %s has no token", id)
	}
	return proxy.Revoke(dir)
}

// scrubber takes what belonged to a session, and what the files declare as
// credentials of proxies, out of transcripts.
func (a *app) scrubber(set specs.Set) func(context.Context, session.Transcript) error {
	return func(ctx context.Context, t session.Transcript) error {
		o, unknown := a.scrubOptions(set)
		o.Addresses, o.Base = t.Addresses, t.Base
		r, err := transcript.Scrub(ctx, t.Dir, o)
		a.log().Info("transcripts", "dir", t.Dir, "files", r.Files, "changed", r.Changed)
		return errors.Join(unknown, err)
	}
}

// scrubOptions is what to look for. The error names the credentials that
// could not be read, so that they are not looked for.
func (a *app) scrubOptions(set specs.Set) (transcript.Options, error) {
	o := transcript.Options{Log: a.log()}
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
	reader := secret.Reader{Secrets: set.Secrets}
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

// scrubSlots is of how many slots of each network `cordon scrub` knows the
// addresses: sessions take the lowest that is free.
const scrubSlots = 64

func scrubCommand(a *app) *cobra.Command {
	var addresses []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "scrub DIR",
		Short: "Take sessions' addresses, tokens and injected credentials out of transcripts",
		Long: fmt.Sprintf(`Take sessions' addresses, tokens and injected credentials out of all files of
a directory of transcripts. It happens by itself when a session ends.

Addresses looked for are those of the first %d slots of each declared network,
and those given. Symbolic links are not followed, not in the path either.`, scrubSlots),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.load()
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			o, unknown := a.scrubOptions(set)
			if o.Addresses, err = scrubAddresses(set, addresses); err != nil {
				return err
			}
			r, err := transcript.Scrub(cmd.Context(), dir, o)
			if asJSON {
				return errors.Join(unknown, err, writeJSON(a.stdout, map[string]any{"format_version": "1.0", "report": r}))
			}
			fmt.Fprintf(a.stdout, "Scrubbed: %d of %d files changed, %d addresses and %d secrets taken out.\n", r.Changed, r.Files, r.Addresses, r.Secrets)
			return errors.Join(unknown, err)
		},
	}
	cmd.Flags().StringArrayVar(&addresses, "address", nil, "an address to take out as well")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func scrubAddresses(set specs.Set, given []string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, g := range given {
		addr, err := netip.ParseAddr(g)
		if err != nil {
			return nil, err
		}
		out = append(out, addr)
	}
	for _, n := range set.Networks {
		for i := range min(n.Slots(), scrubSlots) {
			host, own := n.SlotAddrs(i)
			out = append(out, host.Addr(), own.Addr())
		}
	}
	return out, nil
}
