package reconciler

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aicodesit/cordon/specs"
)

func TestWhatBlocksGive(t *testing.T) {
	base := specs.Set{
		Networks:     []specs.Network{{Name: "llm", Egress: specs.EgressNone}},
		Environments: []specs.Environment{{Name: "e", Allow: []string{"LANG"}}},
		Projects:     []specs.Project{{Name: "shop", Sandboxes: []string{"term"}, Git: &specs.Git{Push: []string{"refs/heads/a/*"}}}},
		Sandboxes:    []specs.Sandbox{{Name: "term", Network: "llm", Capabilities: []string{"CAP_KILL"}, Filesystem: specs.Filesystem{Binds: []specs.Bind{{To: "/work", From: "/srv/shop"}}}}, {Name: "z"}},
		Seccomps:     []specs.Seccomp{{Name: "s"}},
	}
	head := specs.Set{
		Networks:     []specs.Network{{Name: "llm", Egress: specs.EgressInternet, Allow: []string{"llm"}}},
		Environments: []specs.Environment{{Name: "e", Allow: []string{"LANG", "SSH_*"}}},
		Projects:     []specs.Project{{Name: "shop", Sandboxes: []string{"term", "new"}, Operators: []string{"group:all"}, Git: &specs.Git{Push: []string{"refs/heads/*"}}}},
		Sandboxes: []specs.Sandbox{
			{Name: "new", Network: "llm", Environment: "e", Capabilities: []string{"CAP_SYS_ADMIN"}, Filesystem: specs.Filesystem{Programs: []string{"/bin/sh"}}},
			{Name: "term", Capabilities: []string{"CAP_NET_RAW"}, Filesystem: specs.Filesystem{Files: []string{"/etc/motd"}, Binds: []specs.Bind{{To: "/work", From: "/srv/shop", Writable: true}}}},
		},
		Seccomps: []specs.Seccomp{{Name: "s", Allow: []string{"bpf"}}},
	}
	p, err := new(Reconciler).PlanBetween(base, head, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range p.Notes {
		got = append(got, n.Text)
		if !n.Effect {
			t.Errorf("%s is not an effect", n.Text)
		}
	}
	want := []string{
		"sessions with the environment e gain the caller's variable SSH_*",
		"sessions in the network llm gain the internet",
		"sessions in the network llm gain the proxy llm",
		"those of the project shop gain the sandbox new",
		"those of the project shop gain group:all among those who start sessions",
		"those of the project shop gain pushing to refs/heads/*",
		"those of the project shop lose pushing to refs/heads/a/*",
		"sessions of new gain the capability CAP_SYS_ADMIN",
		"sessions of term gain the capability CAP_NET_RAW",
		"sessions of term gain write access to /srv/shop",
		"sessions of term gain read access to /etc/motd",
		"sessions of term lose the capability CAP_KILL",
		"sessions of term lose read access to /srv/shop",
		"sessions of term lose the network llm",
		"sessions under the filter s gain the system call bpf",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
