package agent

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// Kind is a known client.
type Kind interface {
	// Programs are host paths that it needs besides those declared.
	Programs(specs.Agent) []string
	// Nests tells whether it makes namespaces itself.
	Nests(specs.Agent) bool
	// Points are the paths of the files that Prepare makes.
	Points() []string
	// Strips are names of variables that the caller's environment never
	// hands on to it; a trailing * matches any rest.
	Strips() []string
	// Prepare makes what a session needs.
	Prepare(specs.Agent, Session) (Prepared, error)
}

// Session is what is known of a session.
type Session struct {
	BaseURL string // of the proxy, without a path; "" when it can reach none
	Token   string // "" with BaseURL
	Dir     string // the working directory inside
	Egress  bool   // it may reach the internet by itself
	Git     string // host of the proxy that its git goes to; "" for none

	Names []string // of the variables that it has anyway
}

// Prepared is what a session is to find. Lists are sorted.
type Prepared struct {
	Env   []string // NAME=value
	Files []File
	Home  []HomeFile
}

// File is a read-only file inside.
type File struct {
	Path    string
	Content []byte
}

// HomeFile is a file of the session's home that the client itself writes to
// as well.
type HomeFile struct {
	Name string // in the home, without directories
	// Make returns the file's content; old is what an earlier session left,
	// not to be trusted, and nil for nothing.
	Make func(old []byte) ([]byte, error)
}

// For returns the client called kind, one of [specs.AgentKinds].
func For(kind string) (Kind, bool) {
	switch kind {
	case "claude-code":
		return claudeCode{}, true
	case "codex":
		return codex(), true
	case "gemini-cli":
		return geminiCLI(), true
	case "aider":
		return aider(), true
	}
	return nil, false
}

// Of returns the client of a sandbox; ok is false when it has none.
func Of(s specs.Sandbox) (Kind, bool) {
	if s.Agent == nil {
		return nil, false
	}
	return For(s.Agent.Kind)
}

// Nests tells whether the sandbox's client makes namespaces itself.
func Nests(s specs.Sandbox) bool {
	kind, ok := Of(s)
	return ok && kind.Nests(*s.Agent)
}

// Filter is the name of the system call filter of a sandbox: its own, or the
// variant of it that lets the client make namespaces.
func Filter(s specs.Sandbox) string {
	if !Nests(s) {
		return s.Seccomp
	}
	return cmp.Or(s.Seccomp, specs.BaseFilter) + ".nested" // no block has a dot in its name
}

// proxyNames are variables by which programs are told to go through a proxy.
func proxyNames() []string {
	var out []string
	for _, n := range []string{"http_proxy", "https_proxy", "all_proxy", "no_proxy"} {
		out = append(out, n, strings.ToUpper(n))
	}
	return out
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
