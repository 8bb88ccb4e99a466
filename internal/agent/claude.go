package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// claudeCode is Anthropic's client, 2.1 and later. Sources: its documentation
// of settings and variables (code.claude.com/docs), and 2.1.332 as observed.
type claudeCode struct{}

// managedSettings is read before, and counts above, the settings of user and
// project, and the command line.
const managedSettings = "/etc/claude-code/managed-settings.json"

// What the client's own sandbox is made with.
const (
	bwrapPath = "/usr/bin/bwrap"
	socatPath = "/usr/bin/socat"
)

// Programs implements [Kind]: the client hides variables by having sh(1) and
// env(1) run its shell commands in a bubblewrap of its own, with socat in it.
func (c claudeCode) Programs(a specs.Agent) []string {
	if !c.Nests(a) {
		return nil
	}
	return []string{"/bin/sh", bwrapPath, "/usr/bin/env", socatPath}
}

// Nests implements [Kind].
func (claudeCode) Nests(a specs.Agent) bool { return len(a.Hide) > 0 }

// Points implements [Kind].
func (claudeCode) Points() []string { return []string{managedSettings} }

// Strips implements [Kind]: every way in which the caller's own credentials
// and routes could come in.
func (claudeCode) Strips() []string {
	return append(proxyNames(), "ANTHROPIC_*", "AWS_*", "CLAUDE_*", "CLOUD_ML_REGION", "GOOGLE_APPLICATION_CREDENTIALS",
		"NODE_EXTRA_CA_CERTS", "NODE_OPTIONS", "NODE_TLS_REJECT_UNAUTHORIZED", "OTEL_*", "SSL_CERT_FILE", "SSL_CERT_DIR")
}

// Prepare implements [Kind].
func (c claudeCode) Prepare(a specs.Agent, s Session) (Prepared, error) {
	env := map[string]string{
		// What settings say of provider, credential and route does not count,
		// and the credential is kept from what the client starts.
		"CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1",
	}
	for name, value := range quiet() {
		env[name] = value
	}
	if s.BaseURL != "" {
		env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_AUTH_TOKEN"] = s.BaseURL, s.Token
	}
	s.Names = append(slices.Clone(s.Names), sortedKeys(env)...)
	settings, err := json.MarshalIndent(c.settings(a, s), "", "  ")
	if err != nil {
		return Prepared{}, err
	}
	return Prepared{
		Env:   pairs(env),
		Files: []File{{Path: managedSettings, Content: append(settings, '\n')}},
		Home: []HomeFile{{Name: ".claude.json", Make: func(old []byte) ([]byte, error) {
			return c.state(old, s.Dir)
		}}},
	}, nil
}

// quiet keeps the client from talking to anything but the model.
func quiet() map[string]string {
	return map[string]string{
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC":             "1",
		"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
		"CLAUDE_CODE_ENABLE_TELEMETRY":                         "0",
		"DISABLE_AUTOUPDATER":                                  "1",
		"DISABLE_ERROR_REPORTING":                              "1",
		"DISABLE_INSTALLATION_CHECKS":                          "1",
		"DISABLE_TELEMETRY":                                    "1",
	}
}

// settings are the managed ones. A variable that is pinned here is one that
// no project can set.
func (c claudeCode) settings(a specs.Agent, s Session) map[string]any {
	env := quiet()
	env["CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST"] = "1"
	for _, name := range append(proxyNames(), pinnedEmpty()...) {
		env[name] = ""
	}
	if s.BaseURL != "" {
		env["ANTHROPIC_BASE_URL"] = s.BaseURL
	}
	m := map[string]any{
		"env":                   env,
		"allowManagedHooksOnly": true,
		// A server is a command that the project names, and the trust that
		// keeps the first question away would start it.
		"allowManagedMcpServersOnly": true,
		"allowedMcpServers":          []any{},
		"permissions":                map[string]any{"disableBypassPermissionsMode": "disable"},
	}
	if c.Nests(a) {
		m["sandbox"] = sandbox(a, s)
	}
	return m
}

// pinnedEmpty are variables that redirect the client's requests, add to them,
// or run something to make a credential.
func pinnedEmpty() []string {
	return []string{
		"ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_UNIX_SOCKET", "ANTHROPIC_VERTEX_BASE_URL",
		"CLAUDE_CODE_EXTRA_BODY", "CLAUDE_CODE_SHELL_PREFIX", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_VERTEX",
		"NODE_EXTRA_CA_CERTS",
	}
}

// sandbox makes the client run shell commands where the listed variables, and
// its own process, are not to be seen. Whether a command may run is asked as
// ever; what it may reach is cordon's to say.
func sandbox(a specs.Agent, s Session) map[string]any {
	hide := []any{}
	for _, name := range hidden(a.Hide, s.Names) {
		hide = append(hide, map[string]any{"name": name, "mode": "deny"})
	}
	domains := []string{}
	switch {
	case s.Egress:
		domains = []string{"*"}
	case s.Git != "": // without a token there is nothing but git for the shell
		domains = []string{s.Git}
	}
	return map[string]any{
		"enabled":                  true,
		"failIfUnavailable":        true,
		"allowUnsandboxedCommands": false,
		"autoAllowBashIfSandboxed": false,
		"bwrapPath":                bwrapPath, // no project's PATH decides
		"socatPath":                socatPath,
		"credentials":              map[string]any{"envVars": hide},
		"filesystem":               map[string]any{"allowWrite": []string{"/tmp"}},
		"network":                  map[string]any{"allowedDomains": domains},
	}
}

// hidden are the names to hide: the client knows no patterns.
func hidden(patterns, names []string) []string {
	var out []string
	for _, p := range patterns {
		if !strings.HasSuffix(p, "*") {
			out = append(out, p)
			continue
		}
		for _, name := range names {
			if specs.MatchName(p, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxState bounds what is taken over of an earlier session's state, in bytes.
const maxState = 8 << 20

// state is the client's own file: what it was, with the questions of a first
// start answered, so that it begins at the prompt.
func (claudeCode) state(old []byte, dir string) ([]byte, error) {
	m := map[string]any{}
	if len(old) > maxState || json.Unmarshal(old, &m) != nil || m == nil {
		m = map[string]any{} // of an earlier session: it may be anything
	}
	m["hasCompletedOnboarding"] = true
	if m["theme"] == nil {
		m["theme"] = "dark"
	}
	projects, ok := m["projects"].(map[string]any)
	if !ok {
		projects = map[string]any{}
	}
	project, ok := projects[dir].(map[string]any)
	if !ok {
		project = map[string]any{}
	}
	project["hasTrustDialogAccepted"], project["hasCompletedProjectOnboarding"] = true, true
	projects[dir] = project
	m["projects"] = projects
	return json.MarshalIndent(m, "", "  ")
}

// pairs is an environment, sorted.
func pairs(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for name, value := range env {
		out = append(out, fmt.Sprintf("%s=%s", name, value))
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
