package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/agent"
	"github.com/aicodesit/cordon/internal/bwrap"
	"github.com/aicodesit/cordon/specs"
)

// proxyName is the host's end of the session's slot, in its /etc/hosts.
const proxyName = "proxy.internal"

// Transcript is what an agent writes down, and whose traces are to be taken
// out of it when the session has ended.
type Transcript struct {
	Dir       string       `json:"dir"`            // on the host
	Base      string       `json:"base,omitempty"` // a directory above that the session has no say in
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// Tokens are the credentials that sessions get instead of real ones. dir is
// [rundir.Dir.Session].
type Tokens interface {
	Mint(dir string, p specs.Proxy) (token string, err error)
	Revoke(dir string) error
}

// proxied tells whether the session's client is to use a proxy.
func (p *plan) proxied() bool { return p.sandbox.Agent != nil && p.sandbox.Agent.Proxy != "" }

// strips are the caller's variables that must not come in, whatever is
// allowed: cordon's own, which may hold the values of sensitive variables, those
// that a secret is in, and those that the agent's kind names.
func (p *plan) strips() []string {
	out := specs.OwnVariables(p.set)
	if kind, ok := agent.Of(p.sandbox); ok && p.proxied() {
		out = append(out, kind.Strips()...)
	}
	return out
}

// checkAgent refuses mounts on the way to what the agent is given: what is
// shown there, a session could have changed.
func (p *plan) checkAgent() error {
	kind, ok := agent.Of(p.sandbox)
	if p.sandbox.Agent != nil && !ok {
		return fmt.Errorf("agent %q is not known", p.sandbox.Agent.Kind)
	}
	if !ok {
		return nil
	}
	for _, point := range kind.Points() {
		for _, m := range p.mounts {
			if strings.HasPrefix(point+"/", m.To+"/") || strings.HasPrefix(m.To, point+"/") {
				return fmt.Errorf("what is mounted on %s covers %s, which agent %q is held by", m.To, point, p.sandbox.Agent.Kind)
			}
		}
	}
	return nil
}

// prepareAgent adds to spec what the agent needs.
func (s *running) prepareAgent(p *plan, spec *bwrap.Spec) error {
	kind, ok := agent.Of(p.sandbox)
	if !ok {
		return s.prepareGit(p, spec)
	}
	facts := agent.Session{Dir: p.dir, Names: names(p.env)}
	if n := specs.Find(p.set.Networks, s.lease.Network); n != nil {
		facts.Egress = n.Egress == specs.EgressInternet
	}
	if s.gitProxy(p) != nil {
		facts.Git = proxyName
	}
	if proxy := s.proxyOf(p); proxy != nil {
		token, err := s.Tokens.Mint(s.RunDir.Session(s.id), *proxy)
		if err != nil {
			return err
		}
		facts.BaseURL, facts.Token = fmt.Sprintf("http://%s:%d", proxyName, proxy.Port), token
	}
	got, err := kind.Prepare(*p.sandbox.Agent, facts)
	if err != nil {
		return err
	}
	spec.Env = overlay(p.env, got.Env)
	for _, f := range got.Files {
		spec.Mounts = append(spec.Mounts, bwrap.Mount{To: f.Path, Content: f.Content, Mode: 0o444})
	}
	return errors.Join(s.prepareGit(p, spec), s.fillHome(p, spec, got.Home))
}

// proxyOf is the proxy that the session's client uses; nil when there is none
// or no way to it.
func (s *running) proxyOf(p *plan) *specs.Proxy {
	if !p.proxied() || s.lease.Slot < 0 || s.Tokens == nil {
		return nil
	}
	return specs.Find(p.set.Proxies, p.sandbox.Agent.Proxy)
}

// dialTimeout bounds how long it is looked whether a proxy answers.
const dialTimeout = 200 * time.Millisecond

// checkProxy says when nobody listens: the client would only say that it
// can't connect.
func (s *running) checkProxy(ctx context.Context, p *plan) {
	proxy := s.proxyOf(p)
	n := specs.Find(p.set.Networks, s.lease.Network)
	if proxy == nil || n == nil {
		return
	}
	host, _ := n.SlotAddrs(s.lease.Slot)
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp4", net.JoinHostPort(host.Addr().String(), strconv.Itoa(proxy.Port)))
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		s.say("proxy %q does not run, so the agent can't reach its model: start it with cordon daemon or cordon proxy", proxy.Name)
	case err == nil: // or it hung up at once: we are no session
		_ = c.Close()
	}
}

// fillHome puts files into the session's home: into the kept directory, or
// into the tmpfs.
func (s *running) fillHome(p *plan, spec *bwrap.Spec, files []agent.HomeFile) error {
	at := p.who.home()
	i := p.at(at)
	for _, f := range files {
		if p.home != nil {
			if err := p.home.put(f, p.who); err != nil {
				return fmt.Errorf("%s in the kept home: %w", f.Name, err)
			}
			continue
		}
		if i < 0 || p.mounts[i].Size == 0 {
			continue // a bind that is declared: its owner's to fill
		}
		content, err := f.Make(nil)
		if err != nil {
			return err
		}
		spec.Mounts = append(spec.Mounts, bwrap.Mount{To: path.Join(at, f.Name), Content: content, Writable: true, Mode: 0o600})
	}
	return nil
}

// transcript is where the session's transcripts are on the host; nil when it
// leaves none.
func (s *running) transcript(p *plan) *Transcript {
	if p.sandbox.Agent == nil || p.sandbox.Agent.Transcript == "" {
		return nil
	}
	inside := p.sandbox.Agent.Transcript
	if rest, ok := strings.CutPrefix(inside, "~/"); ok {
		inside = path.Join(p.who.home(), rest)
	}
	var in bwrap.Mount // the innermost that holds it
	for _, m := range p.mounts {
		if strings.HasPrefix(inside+"/", m.To+"/") && len(m.To) > len(in.To) {
			in = m
		}
	}
	if in.Source == nil || !in.Writable {
		return nil
	}
	t := &Transcript{Dir: filepath.Join(in.Source.Path, strings.TrimPrefix(inside, in.To)), Base: in.Source.Path}
	if n := specs.Find(p.set.Networks, s.lease.Network); n != nil && s.lease.Slot >= 0 {
		host, own := n.SlotAddrs(s.lease.Slot)
		t.Addresses = []netip.Addr{host.Addr(), own.Addr()}
	}
	return t
}

// scrubTimeout bounds how long the end of a session waits for its transcripts.
const scrubTimeout = 5 * time.Minute

// endAgent makes the token worthless and takes the session's traces out of its
// transcripts. Where that does not come to its end, the lease keeps saying
// that it is to be done.
func (s *running) endAgent(ctx context.Context) {
	if s.Tokens != nil {
		if err := s.Tokens.Revoke(s.RunDir.Session(s.id)); err != nil {
			s.log().WarnContext(ctx, "the token is not revoked; it ends with the lease", "session", s.id, "err", err)
		}
	}
	if s.lease.Transcript == nil || s.Scrub == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, scrubTimeout)
	defer cancel()
	if err := s.Scrub(ctx, *s.lease.Transcript); err != nil {
		s.say("transcripts: %v", err)
		if ctx.Err() != nil {
			return
		}
	}
	s.lease.Transcript = nil
	if err := s.writeLease(); err != nil {
		s.log().WarnContext(ctx, "the lease", "session", s.id, "err", err)
	}
}

func names(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		out = append(out, name)
	}
	return out
}

// overlay is env with what is in top in its place. It is sorted.
func overlay(env, top []string) []string {
	set := names(top)
	out := slices.Clone(top)
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(set, name) {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out
}
