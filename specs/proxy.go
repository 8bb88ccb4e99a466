package specs

import (
	"strings"
	"time"
)

// The kinds of upstream: what they speak and how a request is signed.
const (
	UpstreamAnthropic = "anthropic" // the Messages API; any compatible base URL
	UpstreamBedrock   = "bedrock"   // Amazon Bedrock's InvokeModel, signed with AWS Signature Version 4
	UpstreamVertex    = "vertex"    // Google Vertex AI's rawPredict, with an OAuth access token
	UpstreamOpenAI    = "openai"    // Chat Completions and Responses; any compatible base URL
)

// UpstreamKinds are all of them.
func UpstreamKinds() []string {
	return []string{UpstreamAnthropic, UpstreamBedrock, UpstreamVertex, UpstreamOpenAI}
}

// Upstream is a place that a proxy sends requests to.
type Upstream struct {
	Range  Range             `json:"-"`
	Name   string            `json:"name"`
	Kind   string            `json:"kind"`
	URL    string            `json:"url"`              // https; http for a loopback address only. A path is put before the request's
	Inject map[string]string `json:"inject,omitempty"` // header → name of a secret; "authorization" is sent as "Bearer SECRET" unless the secret has a space

	// Paths are what may be asked for, "[METHOD ]PATH" each; a segment {…}
	// stands for one segment of letters, digits and ._~:@%3A-. Without a
	// method it is the one the API has for the path, else POST. Nil is what
	// the kind needs for messages.
	Paths []string `json:"paths,omitempty"`

	// Credential is the name of the secret to sign with. Of bedrock: JSON as
	// from `aws configure export-credentials`; of vertex: a service account's
	// key file. "" for one that is done with Inject.
	Credential string `json:"credential,omitempty"`
	Region     string `json:"region,omitempty"` // of bedrock, "eu-central-1"
}

// BodyPolicy is what the bodies of requests may ask for. What is not declared
// is refused, for it makes the upstream fetch for the session or shares
// stored data between all who use the same credential.
type BodyPolicy struct {
	Range       Range    `json:"-"`
	Models      []string `json:"models,omitempty"`       // names; a trailing * matches any rest; nil is any
	MaxTokens   int      `json:"max_tokens,omitempty"`   // the largest that may be asked for; 0 is no bound
	ServerTools []string `json:"server_tools,omitempty"` // types of tools run by the upstream, without their date: "web_search"
	URLSources  bool     `json:"url_sources,omitempty"`  // images and documents by URL
	MCPServers  bool     `json:"mcp_servers,omitempty"`
	Files       bool     `json:"files,omitempty"`   // files, containers and other data stored upstream
	Batches     bool     `json:"batches,omitempty"` // of any content: bodies of batches are looked at the same way
}

// Who shares a [Budget].
const (
	BudgetSession = "session"
	BudgetProject = "project" // sessions outside any project: each its own
	BudgetProxy   = "proxy"   // all together
)

// Budget bounds what is used of a proxy in a time; 0 is no bound.
type Budget struct {
	Range        Range         `json:"-"`
	Scope        string        `json:"scope"`
	Every        time.Duration `json:"every,omitempty"` // starts anew at each multiple of it since 1970 UTC; 0 never
	Requests     int64         `json:"requests,omitempty"`
	InputTokens  int64         `json:"input_tokens,omitempty"` // cached ones too
	OutputTokens int64         `json:"output_tokens,omitempty"`
	Money        int64         `json:"money,omitempty"` // millionths of the currency of the prices
}

// Price is what models cost, in millionths of a currency per million tokens,
// so 3 dollars per million are 3,000,000. A money budget refuses models
// without a price.
type Price struct {
	Range          Range  `json:"-"`
	Model          string `json:"model"` // a trailing * matches any rest; the longest one that matches counts
	Input          int64  `json:"input"`
	Output         int64  `json:"output"`
	CacheRead      int64  `json:"cache_read,omitempty"`       // a tenth of Input when not declared
	CacheWrite     int64  `json:"cache_write,omitempty"`      // for 5 minutes; 5/4 of Input when not declared
	CacheWriteLong int64  `json:"cache_write_long,omitempty"` // for an hour; twice Input when not declared
}

// VaultSecret is a field of a secret in a key/value store, version 2, of
// HashiCorp Vault or OpenBao.
type VaultSecret struct {
	Address   string `json:"address"` // https://vault.example:8200
	Mount     string `json:"mount"`   // "secret"
	Path      string `json:"path"`    // "llm/anthropic"
	Field     string `json:"field"`
	Token     string `json:"token"` // name of the secret to log in with
	Namespace string `json:"namespace,omitempty"`
}

// DefaultTokenTTL is how long a session's token is valid when nothing is declared.
const DefaultTokenTTL = 4 * time.Hour

// AllUpstreams returns the proxy's upstreams, the one written short first, in
// the order declared.
func (p Proxy) AllUpstreams() []Upstream {
	if p.Upstream == "" {
		return p.Upstreams
	}
	short := Upstream{Range: p.Range, Name: "default", Kind: UpstreamAnthropic, URL: p.Upstream, Inject: p.Inject, Paths: p.Paths}
	return append([]Upstream{short}, p.Upstreams...)
}

// TokenTTL is how long a token of the proxy is valid.
func (p Proxy) TokenTTL() time.Duration {
	if p.Token == nil || p.Token.TTL <= 0 {
		return DefaultTokenTTL
	}
	return p.Token.TTL
}

// TokenPrefix is what the proxy's tokens begin with.
func (p Proxy) TokenPrefix() string {
	if p.Token == nil || p.Token.Prefix == "" {
		return "cc-sess-"
	}
	return p.Token.Prefix
}

// ID returns the upstream's name.
func (u Upstream) ID() string { return u.Name }

// MatchName tells whether pattern, a name or a prefix with a trailing *, stands for name.
func MatchName(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// Complete returns p with the prices of the cache that were not declared.
func (p Price) Complete() Price {
	if p.CacheRead == 0 {
		p.CacheRead = p.Input / 10
	}
	if p.CacheWrite == 0 {
		p.CacheWrite = p.Input * 5 / 4
	}
	if p.CacheWriteLong == 0 {
		p.CacheWriteLong = p.Input * 2
	}
	return p
}
