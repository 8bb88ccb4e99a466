package specs_test

import (
	"testing"

	"github.com/aicodesit/cordon/specs"
)

func TestGitOrigin(t *testing.T) {
	for remote, want := range map[string]string{
		"https://git.example.com/acme/shop.git":        "git.example.com /acme/shop.git",
		"https://git.example.com:8443/acme/a%20b.git/": "git.example.com:8443 /acme/a%20b.git",
		"https://git.example.com/":                     "",
		"https://git.example.com":                      "",
		"https://u@git.example.com/a.git":              "",
		"https://git.example.com/a.git?x=y":            "",
		"http://git.example.com/a.git":                 "",
		"ssh://git@git.example.com/a.git":              "",
		"git@git.example.com:a.git":                    "",
		"":                                             "",
	} {
		host, path, ok := specs.Git{Remote: remote}.Origin()
		got := ""
		if ok {
			got = host + " " + path
		}
		if got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
	}
}

func TestGitPush(t *testing.T) {
	for pattern, want := range map[string]bool{
		"refs/heads/main": true, "refs/heads/agent/*": true, "refs/*": true, "refs/tags/v1.0": true,
		"main": false, "*": false, "refs/heads/*/x": false, "refs/heads/a b": false, "refs/heads/a\n": false, "+refs/heads/a": false, "": false,
	} {
		if got := specs.ValidPush(pattern); got != want {
			t.Errorf("%q: %t", pattern, got)
		}
	}
	g := specs.Git{Push: []string{"refs/heads/agent/*", "refs/heads/wip"}}
	for ref, want := range map[string]bool{
		"refs/heads/agent/x": true, "refs/heads/agent/x/y": true, "refs/heads/wip": true,
		"refs/heads/wip2": false, "refs/heads/agent": false, "refs/heads/main": false, "refs/heads/agents/x": false,
	} {
		if got := g.Pushes(ref); got != want {
			t.Errorf("%s: %t", ref, got)
		}
	}
}

func TestGitProxy(t *testing.T) {
	s := specs.Set{
		Proxies:  []specs.Proxy{{Name: "a"}, {Name: "b"}},
		Networks: []specs.Network{{Name: "both", Allow: []string{"b", "a"}}, {Name: "none"}},
	}
	p := specs.Project{Git: &specs.Git{Remote: "https://git.example.com/a.git"}}
	for name, tt := range map[string]struct {
		sandbox specs.Sandbox
		project specs.Project
		want    string
	}{
		"the agent's":     {specs.Sandbox{Network: "both", Agent: &specs.Agent{Proxy: "a"}}, p, "a"},
		"the network's":   {specs.Sandbox{Network: "both"}, p, "b"},
		"no way":          {specs.Sandbox{Network: "none"}, p, ""},
		"no network":      {specs.Sandbox{}, p, ""},
		"no repository":   {specs.Sandbox{Network: "both"}, specs.Project{}, ""},
		"not by a proxy":  {specs.Sandbox{Network: "both"}, specs.Project{Git: &specs.Git{Remote: "git@example.com:a.git"}}, ""},
		"unknown network": {specs.Sandbox{Network: "no"}, p, ""},
	} {
		got := ""
		if proxy := s.GitProxy(tt.sandbox, tt.project); proxy != nil {
			got = proxy.Name
		}
		if got != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
