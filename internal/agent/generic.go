package agent

import (
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// generic is a client that variables are enough for.
type generic struct {
	base   map[string]string // name → path behind the proxy's base URL
	key    []string          // names that the token goes by
	set    map[string]string // more variables
	strips []string
	files  map[string]string // path → content, in which baseURL stands for the base URL
}

// baseURL is what generic's files have in the place of the base URL.
const baseURL = "<BASE>"

// codex is OpenAI's client. It takes its route from its configuration; the
// managed one counts above user and project. See its docs/config.md,
// and 0.171 as observed.
func codex() generic {
	return generic{
		base:   map[string]string{"OPENAI_BASE_URL": "/v1"},
		key:    []string{"CODEX_API_KEY", "OPENAI_API_KEY"},
		strips: []string{"CODEX_*", "OPENAI_*"},
		files: map[string]string{"/etc/codex/managed_config.toml": `model_provider = "cordon"
check_for_update_on_startup = false

[model_providers.cordon]
name = "cordon"
base_url = "` + baseURL + `/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
`},
	}
}

// geminiCLI is Google's client. With a base URL it would choose a way to log in
// that its print mode does not know; system settings count above those of user
// and project. See its docs/get-started/authentication.md,
// docs/reference/configuration.md, and 0.61 as observed.
func geminiCLI() generic {
	return generic{
		base: map[string]string{"GOOGLE_GEMINI_BASE_URL": ""},
		key:  []string{"GEMINI_API_KEY"},
		// The token as a bearer, where the proxy looks for it.
		set:    map[string]string{"GEMINI_API_KEY_AUTH_MECHANISM": "bearer", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
		strips: []string{"GEMINI_*", "GOOGLE_*"},
		files: map[string]string{"/etc/gemini-cli/settings.json": `{
  "general": { "enableAutoUpdate": false },
  "privacy": { "usageStatisticsEnabled": false },
  "security": { "auth": { "selectedType": "gemini-api-key", "enforcedType": "gemini-api-key" } },
  "telemetry": { "enabled": false }
}
`},
	}
}

// aider is a client of many models; the two API forms that the proxy speaks.
// See aider.chat/docs/config/dotenv.html and openai-compat.html.
func aider() generic {
	return generic{
		base:   map[string]string{"OPENAI_API_BASE": "/v1", "ANTHROPIC_API_BASE": "", "ANTHROPIC_BASE_URL": ""},
		key:    []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY"},
		set:    map[string]string{"AIDER_ANALYTICS_DISABLE": "true", "AIDER_CHECK_UPDATE": "false"},
		strips: []string{"AIDER_*", "ANTHROPIC_*", "OPENAI_*"},
	}
}

// Programs implements [Kind].
func (generic) Programs(specs.Agent) []string { return nil }

// Nests implements [Kind].
func (generic) Nests(specs.Agent) bool { return false }

// Points implements [Kind].
func (g generic) Points() []string { return sortedKeys(g.files) }

// Strips implements [Kind].
func (g generic) Strips() []string { return append(proxyNames(), g.strips...) }

// Prepare implements [Kind].
func (g generic) Prepare(_ specs.Agent, s Session) (Prepared, error) {
	env := map[string]string{}
	for name, value := range g.set {
		env[name] = value
	}
	if s.BaseURL != "" {
		for name, path := range g.base {
			env[name] = s.BaseURL + path
		}
		for _, name := range g.key {
			env[name] = s.Token
		}
	}
	p := Prepared{Env: pairs(env)}
	for _, path := range sortedKeys(g.files) {
		if s.BaseURL == "" && strings.Contains(g.files[path], baseURL) {
			continue
		}
		p.Files = append(p.Files, File{Path: path, Content: []byte(strings.ReplaceAll(g.files[path], baseURL, s.BaseURL))})
	}
	return p, nil
}
