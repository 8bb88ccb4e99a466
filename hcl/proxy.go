package hcl

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/aicodesit/cordon/specs"
)

func (l *loader) readProxy(b body, name string) specs.Proxy {
	p := specs.Proxy{
		Range:    rangeOf(b.header),
		Name:     name,
		Port:     b.port("port"),
		Upstream: parsed(b, "upstream", "", parseServer),
		Inject:   b.refMap("inject", "secret"),
		Paths:    set(parsedList(b, "paths", `["/v1/messages"]`, parseURLPath)),
	}
	labels, upstreams := b.labelled("upstream")
	for _, label := range labels {
		p.Upstreams = append(p.Upstreams, l.readUpstream(upstreams[label], label))
	}
	if b.attribute("upstream") == nil && len(labels) == 0 {
		l.error(b.header, b.what+" lacks upstream", `Say where requests go: upstream = "https://api.example.com", or a block upstream "NAME" { … }.`)
	}
	if t, ok := b.inner("token"); ok {
		p.Token = &specs.Token{Prefix: t.string("prefix"), TTL: t.duration("ttl", specs.DefaultTokenTTL)}
	}
	if in, ok := b.inner("limit"); ok {
		p.Limit = &specs.ProxyLimit{
			RequestsPerMinute: in.int("requests_per_minute", 1, maxCount, 0),
			Concurrent:        in.int("concurrent", 1, maxCount, 0),
			Body:              in.size("body", 0),
		}
	}
	if in, ok := b.inner("policy"); ok {
		p.Policy = readPolicy(in)
	}
	for _, in := range b.many("budget") {
		p.Budgets = append(p.Budgets, readBudget(in))
		l.locatable(in)
	}
	labels, prices := b.labelled("price")
	for _, model := range labels {
		p.Prices = append(p.Prices, readPrice(prices[model], model))
	}
	return p
}

func (l *loader) readUpstream(b body, name string) specs.Upstream {
	l.locatable(b)
	u := specs.Upstream{
		Range:      rangeOf(b.header),
		Name:       name,
		Kind:       b.enum("kind", specs.UpstreamKinds()...),
		URL:        parsed(b, "url", "", parseServer),
		Inject:     b.refMap("inject", "secret"),
		Paths:      set(parsedList(b, "paths", `["/v1/messages"]`, parseURLPath)),
		Credential: b.ref("credential", "secret"),
		Region:     b.string("region"),
	}
	region := b.attribute("region")
	switch {
	case u.Kind == specs.UpstreamBedrock && region == nil:
		l.error(b.header, b.what+" lacks region", `Requests to Bedrock are signed for a region: region = "eu-central-1".`)
	case u.Kind != specs.UpstreamBedrock && region != nil:
		l.error(region.NameRange, b.what+" has a region", fmt.Sprintf("Only those of kind %q have one.", specs.UpstreamBedrock))
	}
	return u
}

func readPolicy(b body) *specs.BodyPolicy {
	return &specs.BodyPolicy{
		Range:       rangeOf(b.header),
		Models:      set(b.strings("models", `["claude-sonnet-*"]`)),
		MaxTokens:   b.int("max_tokens", 1, 1<<31-1, 0),
		ServerTools: set(b.strings("server_tools", `["web_search"]`)),
		URLSources:  b.bool("url_sources"),
		MCPServers:  b.bool("mcp_servers"),
		Files:       b.bool("files"),
		Batches:     b.bool("batches"),
	}
}

func readBudget(b body) specs.Budget {
	bounds := []string{"requests", "input_tokens", "output_tokens", "money"}
	if !slices.ContainsFunc(bounds, func(name string) bool { return b.attribute(name) != nil }) {
		b.e.error(b.header, b.what+" bounds nothing", "Give it requests, input_tokens, output_tokens or money.")
	}
	return specs.Budget{
		Range:        rangeOf(b.header),
		Scope:        b.enum("scope", specs.BudgetSession, specs.BudgetProject, specs.BudgetProxy),
		Every:        b.duration("every", 0),
		Requests:     int64(b.int("requests", 1, maxTokens, 0)),
		InputTokens:  int64(b.int("input_tokens", 1, maxTokens, 0)),
		OutputTokens: int64(b.int("output_tokens", 1, maxTokens, 0)),
		Money:        b.money("money"),
	}
}

func readPrice(b body, model string) specs.Price {
	return specs.Price{
		Range: rangeOf(b.header), Model: model,
		Input: b.money("input"), Output: b.money("output"),
		CacheRead: b.money("cache_read"), CacheWrite: b.money("cache_write"), CacheWriteLong: b.money("cache_write_long"),
	}
}

// maxTokens is far more than anybody pays for.
const maxTokens = 1_000_000_000_000_000

// money returns millionths of an amount that is written in whole units and
// parts of them.
func (b body) money(name string) int64 {
	v, a, ok := b.scalar(name, cty.Number)
	if !ok {
		return 0
	}
	millionths := new(big.Float).Mul(v.AsBigFloat(), big.NewFloat(1e6))
	n, _ := millionths.Add(millionths, big.NewFloat(0.5)).Int64()
	if v.AsBigFloat().Sign() < 0 || n > maxTokens {
		b.bad(a.Expr.Range(), name, "An amount is required such as 2.50; it can't be negative.")
		return 0
	}
	return n
}

// parseServer reads the URL of a server: https, or http to the host itself.
func parseServer(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "", fmt.Errorf(`%q is not the address of a server; write it like "https://api.example.com"`, s)
	case u.User != nil:
		return "", errors.New("a user or password in it would be shown; use a secret")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return "", errors.New("over http whoever is between could read and change what is sent; write https")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("it must end with the host or a path")
	}
	return strings.TrimSuffix(s, "/"), nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// parseURLPath reads "[METHOD ]PATH", in which a segment may be {NAME}.
func parseURLPath(s string) (string, error) {
	method, p, ok := strings.Cut(s, " ")
	if !ok {
		method, p = "POST", s
	}
	if method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.ContainsAny(p, "?#% \\") {
		return "", fmt.Errorf(`%q is not the exact path of a request; write it like "/v1/messages" or "GET /v1/models"`, s)
	}
	return s, nil
}
