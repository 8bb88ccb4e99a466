package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/agent"
	"github.com/aicodesit/cordon/specs"
)

const token = "cc-sess-0123456789abcdef0123456789abcdef"

func prepare(t *testing.T, a specs.Agent, s agent.Session) agent.Prepared {
	t.Helper()
	kind, ok := agent.For(a.Kind)
	if !ok {
		t.Fatalf("%s is not known", a.Kind)
	}
	p, err := kind.Prepare(a, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func session() agent.Session {
	return agent.Session{BaseURL: "http://proxy.internal:3000", Token: token, Dir: "/work", Names: []string{"HOME", "MY_KEY"}}
}

// Each kind has its route and its token, the token in variables alone, and
// what it is given it can be given: every file has its mount point.
func TestKinds(t *testing.T) {
	for _, name := range specs.AgentKinds() {
		t.Run(name, func(t *testing.T) {
			a := specs.Agent{Kind: name, Proxy: "llm"}
			p := prepare(t, a, session())
			env := strings.Join(p.Env, "\n")
			if !strings.Contains(env, "=http://proxy.internal:3000") || !strings.Contains(env, "="+token) {
				t.Errorf("no route or no token: %s", env)
			}
			if !slices.IsSorted(p.Env) {
				t.Errorf("not sorted: %q", p.Env)
			}
			kind, _ := agent.For(name)
			for _, f := range p.Files {
				if strings.Contains(string(f.Content), token) {
					t.Errorf("%s holds the token", f.Path)
				}
				if !slices.Contains(kind.Points(), f.Path) {
					t.Errorf("%s has no mount point", f.Path)
				}
			}
			for _, f := range p.Home {
				if b, err := f.Make(nil); err != nil || strings.Contains(string(b), token) {
					t.Errorf("%s: %s (%v)", f.Name, b, err)
				}
			}
			for _, e := range p.Env {
				name, value, _ := strings.Cut(e, "=")
				if value == token && !slices.ContainsFunc(kind.Strips(), func(s string) bool { return specs.MatchName(s, name) }) {
					t.Errorf("the caller's own %s could come in", name)
				}
			}
			without := prepare(t, a, agent.Session{Dir: "/work"})
			for _, f := range without.Files {
				if bytes.Contains(f.Content, []byte("base_url")) || bytes.Contains(f.Content, []byte("<BASE>")) {
					t.Errorf("without a proxy: %s", f.Content)
				}
			}
			alone := strings.Join(without.Env, "\n")
			if strings.Contains(alone, "http://") || strings.Contains(alone, "cc-sess") {
				t.Errorf("without a proxy: %s", alone)
			}
		})
	}
	if _, ok := agent.For("emacs"); ok {
		t.Error("an unknown kind is known")
	}
}

func settings(t *testing.T, p agent.Prepared) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(p.Files[0].Content, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestClaudeSettings(t *testing.T) {
	m := settings(t, prepare(t, specs.Agent{Kind: "claude-code"}, session()))
	env := m["env"].(map[string]any)
	for name, want := range map[string]any{
		"ANTHROPIC_BASE_URL": "http://proxy.internal:3000", "HTTPS_PROXY": "", "https_proxy": "", "ANTHROPIC_CUSTOM_HEADERS": "",
		"CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
	} {
		if env[name] != want {
			t.Errorf("%s is %v, not %q", name, env[name], want)
		}
	}
	if m["allowManagedHooksOnly"] != true || m["sandbox"] != nil {
		t.Errorf("%v", m)
	}
}

func TestHide(t *testing.T) {
	a := specs.Agent{Kind: "claude-code", Hide: []string{"ANTHROPIC_*", "MY_KEY", "NOT_THERE"}}
	sandbox := settings(t, prepare(t, a, session()))["sandbox"].(map[string]any)
	var names []string
	for _, e := range sandbox["credentials"].(map[string]any)["envVars"].([]any) {
		entry := e.(map[string]any)
		if entry["mode"] != "deny" {
			t.Errorf("%v", entry)
		}
		names = append(names, entry["name"].(string))
	}
	if want := []string{"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "MY_KEY", "NOT_THERE"}; !slices.Equal(names, want) {
		t.Errorf("hidden are %v, not %v", names, want)
	}
	if sandbox["allowUnsandboxedCommands"] != false || sandbox["failIfUnavailable"] != true {
		t.Errorf("%v", sandbox)
	}
	for _, c := range []struct {
		s    agent.Session
		want string
	}{
		{agent.Session{BaseURL: "http://proxy.internal:3000"}, "[]"},
		{agent.Session{Git: "proxy.internal"}, "[proxy.internal]"},
		{agent.Session{Git: "proxy.internal", Egress: true}, "[*]"},
	} {
		reach := settings(t, prepare(t, a, c.s))["sandbox"].(map[string]any)["network"].(map[string]any)["allowedDomains"]
		if fmt.Sprint(reach) != c.want {
			t.Errorf("%+v: the shell reaches %v, not %s", c.s, reach, c.want)
		}
	}
	kind, _ := agent.For("claude-code")
	if !slices.Contains(kind.Programs(a), "/usr/bin/bwrap") || len(kind.Programs(specs.Agent{})) > 0 {
		t.Errorf("programs: %v", kind.Programs(a))
	}
	for s, want := range map[*specs.Sandbox]string{
		{Seccomp: "f", Agent: &a}: "f.nested",
		{Agent: &a}:               "container.base.nested",
		{Seccomp: "f", Agent: &specs.Agent{Kind: "claude-code"}}: "f",
		{}: "",
	} {
		if got := agent.Filter(*s); got != want {
			t.Errorf("filter %q, want %q", got, want)
		}
	}
}

// What an earlier session left is kept where it is what it should be, and
// never keeps the client from its prompt.
func TestClaudeState(t *testing.T) {
	state := prepare(t, specs.Agent{Kind: "claude-code"}, session()).Home[0]
	for _, old := range []string{
		"", "{", "null", "[1]", `{"projects":7}`, `{"projects":{"/work":"x"}}`, `{"hasCompletedOnboarding":false}`,
		`{"projects":{"/work":{"hasTrustDialogAccepted":false,"kept":1},"/b":{}},"theme":"light"}`, strings.Repeat("[", 9<<20),
	} {
		b, err := state.Make([]byte(old))
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Theme                  string
			HasCompletedOnboarding bool
			Projects               map[string]struct {
				HasTrustDialogAccepted bool
				Kept                   int
			}
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if !m.HasCompletedOnboarding || !m.Projects["/work"].HasTrustDialogAccepted {
			t.Errorf("from %.60q: %s", old, b)
		}
		if strings.Contains(old, "kept") && (m.Theme != "light" || m.Projects["/work"].Kept != 1 || len(m.Projects) != 2) {
			t.Errorf("lost: %s", b)
		}
	}
}
