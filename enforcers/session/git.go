package session

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aicodesit/cordon/internal/bwrap"
	"github.com/aicodesit/cordon/specs"
)

// prepareGit makes the session's git ask the proxy for what is on the host of
// its project's repository. It needs no credential for that: the proxy knows
// it by its slot, for as long as its token is valid.
func (s *running) prepareGit(p *plan, spec *bwrap.Spec) error {
	proxy := s.gitProxy(p)
	if proxy == nil {
		return nil
	}
	if s.proxyOf(p) == nil { // no client uses one: its life is what is wanted
		if _, err := s.Tokens.Mint(s.RunDir.Session(s.id), *proxy); err != nil {
			return err
		}
	}
	if has(p.sandbox, "git") && !has(p.sandbox, "git-remote-http") {
		s.say("git in sandbox %q lacks its way to a remote: add /usr/lib/git-core/git-remote-http to its programs", p.sandbox.Name)
	}
	host, _, _ := p.project.Git.Origin()
	through := fmt.Sprintf("http://%s:%d%s%s/", proxyName, proxy.Port, specs.GitPrefix, host)
	spec.Env = overlay(spec.Env, gitConfig(spec.Env, "url."+through+".insteadOf", "https://"+host+"/"))
	return nil
}

// gitProxy is the proxy that the session's git goes to; nil when there is no
// way.
func (s *running) gitProxy(p *plan) *specs.Proxy {
	if p.project == nil || s.lease.Slot < 0 || s.Tokens == nil {
		return nil
	}
	return p.set.GitProxy(p.sandbox, *p.project)
}

func has(b specs.Sandbox, program string) bool {
	return slices.ContainsFunc(b.Filesystem.Programs, func(p string) bool { return path.Base(p) == program })
}

// gitConfig are variables that add one setting to git's configuration, behind
// those that env adds (git-config(1), ENVIRONMENT), and that let git fail where
// it would ask somebody.
func gitConfig(env []string, key, value string) []string {
	n := 0
	for _, e := range env {
		if count, ok := strings.CutPrefix(e, "GIT_CONFIG_COUNT="); ok {
			n, _ = strconv.Atoi(count) // git itself would refuse what is no number
		}
	}
	return []string{
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", n+1),
		fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key),
		fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value),
		"GIT_TERMINAL_PROMPT=0",
	}
}
