package specs

import (
	"net/url"
	"regexp"
	"strings"
)

// GitPrefix begins the paths by which a proxy leads to sessions' repositories.
const GitPrefix = "/git/"

// Git is a project's repository. Its sessions reach it through a proxy that
// adds the credential, when it is an https one; see [Set.GitProxy].
type Git struct {
	Range      Range  `json:"-"`
	Remote     string `json:"remote"`
	Credential string `json:"credential,omitempty"` // name of a secret: TOKEN or USER:PASSWORD

	// Push are the refs that sessions may push to, by full names in which a *
	// at the end stands for any rest; nil is none: they fetch. What matches is
	// theirs to create, to change in any way and to delete.
	Push []string `json:"push,omitempty"`

	// LFSHosts are hosts, with a port if it is not 443, that Git LFS may
	// transfer objects with, besides the remote's own.
	LFSHosts []string `json:"lfs_hosts,omitempty"`
}

var pushPattern = regexp.MustCompile(`^refs/[A-Za-z0-9._/@+-]*\*?$`)

// ValidPush tells whether pattern can stand in Git.Push: a ref's full name, or
// the beginning of names with a * at its end.
func ValidPush(pattern string) bool { return pushPattern.MatchString(pattern) }

// Pushes tells whether sessions may push to the ref called name in full.
func (g Git) Pushes(name string) bool {
	for _, p := range g.Push {
		if MatchName(p, name) {
			return true
		}
	}
	return false
}

// Origin returns the host of the remote, "git.example.com" or
// "git.example.com:8443", and the escaped path there, "/acme/shop.git". ok is
// false for a remote that a proxy has no way to: any but https.
func (g Git) Origin() (host, path string, ok bool) {
	u, err := url.Parse(g.Remote)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", "", false
	}
	path = strings.TrimRight(u.EscapedPath(), "/")
	return u.Host, path, path != ""
}

// GitProxy is the proxy through which sessions of p in b reach their
// repository: the one of the agent, else the first that b's network allows;
// nil when there is no way.
func (s Set) GitProxy(b Sandbox, p Project) *Proxy {
	if p.Git == nil {
		return nil
	}
	if _, _, ok := p.Git.Origin(); !ok {
		return nil
	}
	if b.Agent != nil && b.Agent.Proxy != "" {
		return Find(s.Proxies, b.Agent.Proxy)
	}
	n := Find(s.Networks, b.Network)
	if n == nil || len(n.Allow) == 0 {
		return nil
	}
	return Find(s.Proxies, n.Allow[0])
}
