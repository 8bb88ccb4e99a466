package session

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/agent"
	"github.com/aicodesit/cordon/internal/bwrap"
	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/specs"
)

// What an earlier session planted in a kept home neither leads cordon, which
// is root, to another file nor keeps the file from being made.
func TestHostileHome(t *testing.T) {
	kerneltest.Host(t)
	who := account{name: "u", uid: 47999, gid: 47999}
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("root's own"), 0o600))
	for name, plant := range map[string]func(path string) error{
		"nothing":         func(string) error { return nil },
		"a file":          func(p string) error { return os.WriteFile(p, []byte("old"), 0o600) },
		"a link":          func(p string) error { return os.Symlink(secret, p) },
		"a dangling link": func(p string) error { return os.Symlink(secret+".new", p) },
		"a hard link":     func(p string) error { return os.Link(secret, p) },
		"a FIFO":          func(p string) error { return unix.Mkfifo(p, 0o666) },
		"a full directory": func(p string) error {
			return os.MkdirAll(filepath.Join(p, "x"), 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Runner{StateDir: t.TempDir()}
			p := &plan{
				who: who, project: &specs.Project{Name: "shop"},
				sandbox: specs.Sandbox{Name: "s", Agent: &specs.Agent{Kind: "claude-code", Home: specs.HomeProject}},
			}
			must(t, r.keptHome(p))
			defer p.close()
			path := filepath.Join(p.home.path, ".state")
			must(t, plant(path))
			if name == "a file" {
				must(t, os.Chown(path, int(who.uid), int(who.gid)))
			}
			var old []byte
			must(t, p.home.put(agent.HomeFile{Name: ".state", Make: func(b []byte) ([]byte, error) { old = b; return []byte("new"), nil }}, who))
			if want := map[string]string{"a file": "old"}[name]; string(old) != want {
				t.Errorf("it read %q", old)
			}
			var st unix.Stat_t
			must(t, unix.Lstat(path, &st))
			if st.Mode != unix.S_IFREG|0o600 || st.Uid != who.uid || st.Nlink != 1 {
				t.Errorf("made: mode %o, user %d, %d names", st.Mode, st.Uid, st.Nlink)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != "new" {
				t.Errorf("%q, %v", b, err)
			}
			if b, err := os.ReadFile(secret); err != nil || string(b) != "root's own" {
				t.Errorf("the secret is %q (%v)", b, err)
			}
			if _, err := os.Lstat(secret + ".new"); err == nil {
				t.Error("a link was followed")
			}
		})
	}
}

// A kept home is the user's alone, and made only where no one else could have
// had a hand in.
func TestKeptHome(t *testing.T) {
	kerneltest.Host(t)
	sandbox := specs.Sandbox{Name: "s", Agent: &specs.Agent{Kind: "claude-code", Home: specs.HomeProject}}
	shop := &specs.Project{Name: "shop"}
	try := func(state string, uid uint32) (*plan, error) {
		p := &plan{who: account{name: "u", uid: uid, gid: uid}, project: shop, sandbox: sandbox}
		err := (&Runner{StateDir: state}).keptHome(p)
		return p, err
	}
	state := t.TempDir()
	for range 2 { // the second time it is there
		p, err := try(state, 47999)
		must(t, err)
		var st unix.Stat_t
		must(t, unix.Stat(filepath.Join(state, "homes/shop/s"), &st))
		if st.Uid != 47999 || st.Gid != 47999 || st.Mode&0o7777 != 0o700 || !p.mounts[0].Writable || p.mounts[0].To != "/home/u" {
			t.Errorf("%+v, %+v", st, p.mounts)
		}
		p.close()
	}
	if _, err := try(state, 48000); err == nil || !strings.Contains(err.Error(), "belongs to user 47999") {
		t.Errorf("another user's home: %v", err)
	}
	for _, bad := range []func(string) error{
		func(s string) error { return os.Symlink(t.TempDir(), filepath.Join(s, "homes")) },
		func(s string) error {
			return os.MkdirAll(filepath.Join(s, "homes"), 0o755)
		},
	} {
		state := t.TempDir()
		must(t, bad(state))
		_ = os.Chmod(filepath.Join(state, "homes"), 0o777) // follows the link: it is refused anyway
		if _, err := try(state, 47999); err == nil || !strings.Contains(err.Error(), "can write to") {
			t.Errorf("%v", err)
		}
	}
	shop = nil
	if p, err := try(state, 47999); err != nil || p.home != nil {
		t.Errorf("outside any project: %v", err)
	}
}

func TestTranscript(t *testing.T) {
	kerneltest.Host(t)
	pool := specs.Network{Name: "n", Pool: netip.MustParsePrefix("10.202.0.0/16")}
	who := account{name: "u", uid: 47999, gid: 47999}
	state := t.TempDir()
	for _, c := range []struct{ home, transcript, want string }{
		{"project", "~/.claude/projects", filepath.Join(state, "homes/shop/s/.claude/projects")},
		{"session", "~/.claude/projects", ""}, // goes with the session
		{"project", "", ""},
		{"project", "/tmp/x", ""},
	} {
		p := &plan{
			who: who, project: &specs.Project{Name: "shop"}, set: specs.Set{Networks: []specs.Network{pool}},
			sandbox: specs.Sandbox{Name: "s", Agent: &specs.Agent{Kind: "claude-code", Home: c.home, Transcript: c.transcript}},
		}
		r := &Runner{StateDir: state}
		must(t, r.layMounts(p))
		s := &running{Runner: r, lease: record{Lease: specs.Lease{Network: "n", Slot: 1}}}
		got := s.transcript(p)
		p.close()
		switch {
		case got == nil && c.want != "", got != nil && got.Dir != c.want:
			t.Errorf("%+v: %+v", c, got)
		case got != nil && (len(got.Addresses) != 2 || got.Addresses[1].String() != "10.202.0.6" || got.Base != filepath.Join(state, "homes/shop/s")):
			t.Errorf("%+v", got)
		}
	}
}

// A mount over what the agent is held by is refused.
func TestCheckAgent(t *testing.T) {
	for to, bad := range map[string]bool{
		"/etc/claude-code": true, "/etc": true, "/etc/claude-code/managed-settings.json": true, "/etc/claude-code/managed-settings.json/x": true,
		"/work": false, "/etc/claude": false,
	} {
		p := &plan{sandbox: specs.Sandbox{Agent: &specs.Agent{Kind: "claude-code"}}}
		p.add(mountAt(to))
		if err := p.checkAgent(); (err != nil) != bad {
			t.Errorf("%s: %v", to, err)
		}
	}
	p := &plan{sandbox: specs.Sandbox{Agent: &specs.Agent{Kind: "emacs"}}}
	if p.checkAgent() == nil {
		t.Error("an unknown agent is let through")
	}
}

func TestStrips(t *testing.T) {
	env := &specs.Environment{Allow: []string{"ANTHROPIC_*", "PATH", "HTTPS_PROXY"}, Set: map[string]specs.Template{"ANTHROPIC_MODEL": "m"}}
	caller := []string{"ANTHROPIC_API_KEY=sk-real", "PATH=/bin", "HTTPS_PROXY=http://evil"}
	for proxy, want := range map[string]string{"llm": "ANTHROPIC_MODEL=m PATH=/bin", "": "ANTHROPIC_API_KEY=sk-real ANTHROPIC_MODEL=m HTTPS_PROXY=http://evil PATH=/bin"} {
		p := &plan{sandbox: specs.Sandbox{Agent: &specs.Agent{Kind: "claude-code", Proxy: proxy}}}
		got, err := environ(env, caller, p.strips(), nil, account{})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("proxy %q: %q (%v)", proxy, got, err)
		}
	}
}

// What cordon itself reads from its environment reaches no session, whatever
// its sandbox allows.
func TestOwnVariablesAreStripped(t *testing.T) {
	set := specs.Set{Secrets: []specs.Secret{
		{Name: "pg", Env: "CORDON_POSTGRES_URL"},
		{Name: "key", Env: "LLM_KEY"},
		{Name: "login", Env: "VAULT_TOKEN"},
		{Name: "f", File: "/etc/f"},
		{Name: "v", Vault: &specs.VaultSecret{Token: "login"}},
	}}
	caller := []string{
		"CORDON_POSTGRES_URL=postgres://hunter2", "LLM_KEY=hunter2", "VAULT_TOKEN=hunter2", "CORDON_VAR_password=hunter2",
		"CORDON_DIR=/etc/hunter2", "CORDON_=hunter2", "LLM_KEY_NAME=k", "CORDONED=off", "VAULT_ADDR=https://vault.example.com",
	}
	for _, allow := range [][]string{{"*"}, {"C*", "L*", "V*"}, {"CORDON_*", "CORDON*", "LLM_*", "VAULT_*"}, {"CORDON_POSTGRES_URL", "LLM_KEY", "VAULT_TOKEN", "CORDON_VAR_password", "LLM_KEY_NAME", "CORDONED", "VAULT_ADDR"}} {
		for name, a := range map[string]*specs.Agent{"none": nil, "direct": {Kind: "codex"}, "proxied": {Kind: "codex", Proxy: "llm"}} {
			p := &plan{set: set, sandbox: specs.Sandbox{Agent: a}}
			got, err := environ(&specs.Environment{Allow: allow}, caller, p.strips(), nil, account{name: "u"})
			must(t, err)
			text := strings.Join(got, " ")
			for _, want := range []string{"LLM_KEY_NAME=k", "CORDONED=off", "VAULT_ADDR=https://vault.example.com"} {
				if !strings.Contains(text, want) {
					t.Errorf("%v, agent %s: lacks %s: %s", allow, name, want, text)
				}
			}
			if strings.Contains(text, "hunter2") {
				t.Errorf("%v, agent %s: %s", allow, name, text)
			}
		}
	}
}

func mountAt(to string) bwrap.Mount { return bwrap.Mount{To: to, Size: 1} }
