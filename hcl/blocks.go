package hcl

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/aicodesit/cordon/specs"
)

// What is taken when an attribute is left out.
const (
	defaultTmpfsSize = 64 << 20
	defaultGrace     = 10 * time.Second
	defaultErrno     = "EPERM"
	defaultSignal    = "TERM"
)

// maxCount bounds numbers of things; it is that of processes in Linux
// (PID_MAX_LIMIT).
const maxCount = 4_194_304

func readSecret(b body, name string) specs.Secret {
	s := specs.Secret{
		Range: rangeOf(b.header), Name: name,
		File: b.place("file"), Env: b.place("env"), Systemd: b.place("systemd"),
		Command: b.texts("command", `["/usr/bin/pass", "show", "NAME"]`),
		TTL:     b.duration("ttl", 0),
	}
	v, inVault := b.inner("vault")
	if inVault {
		s.Vault = &specs.VaultSecret{
			Address: parsed(v, "address", "", parseServer), Mount: v.string("mount"), Path: v.string("path"),
			Field: v.string("field"), Token: v.ref("token", "secret"), Namespace: v.string("namespace"),
		}
	}
	found := 0
	for _, where := range []string{"file", "env", "systemd", "command"} {
		if b.attribute(where) != nil {
			found++
		}
	}
	if inVault {
		found++
	}
	switch {
	case found == 0:
		b.e.error(b.header, b.what+" is nowhere to be found", `Say where: file = "/etc/cordon/secrets/NAME", or env = "NAME" for a variable of cordon's own environment; or one of command, systemd, vault.`)
	case found > 1:
		b.e.error(b.header, b.what+" is said to be in more than one place", "Keep one of file, env, command, systemd and vault.")
	case s.Env != "" && !validEnvName(s.Env):
		given := fmt.Sprintf("%q", s.Env)
		if from := b.hiddenIn("env"); from != "" {
			given = fmt.Sprintf("What it is made of, %s, is not shown: it", from)
		}
		b.bad(b.attribute("env").Expr.Range(), "env", given+" can't be the name of an environment variable.")
	}
	return s
}

// place returns a string that may come from a sensitive variable: only where
// a secret is found may do so.
func (b body) place(name string) string {
	a := b.attribute(name)
	if a == nil {
		return ""
	}
	v, ok := b.evaluate(a)
	if !ok {
		return ""
	}
	v, _ = v.UnmarkDeep()
	text, isText := "", v.Type() == cty.String
	if isText {
		text = v.AsString()
	}
	if !isText || text == "" || strings.ContainsRune(text, 0) {
		b.bad(a.Expr.Range(), name, "A string is required that is not empty.")
		return ""
	}
	if !seen(text, a.Expr.Range(), b.e.reporter) {
		return ""
	}
	return text
}

// hiddenIn names a variable that an attribute has its value from and that must
// not be shown, or is "". A reference to a secret is none: its name is no secret.
func (b body) hiddenIn(name string) string {
	a := b.attribute(name)
	if a == nil || usesSession(a.Expr) {
		return ""
	}
	v, ok := b.evaluate(a)
	if from := hiddenOf(v); ok && strings.HasPrefix(from, "var.") {
		return from
	}
	return ""
}

func readEnvironment(b body, name string) specs.Environment {
	e := specs.Environment{Range: rangeOf(b.header), Name: name, Allow: set(parsedList(b, "allow", `["PATH", "LC_*"]`, parseEnvPattern))}
	for key, value := range b.templateMap("set") {
		if !seen(key, valueRange(b.attribute("set").Expr, key), b.e.reporter) {
			continue
		}
		if !validEnvName(key) {
			b.bad(valueRange(b.attribute("set").Expr, key), "set", fmt.Sprintf("%q can't be the name of an environment variable.", key))
			continue
		}
		if e.Set == nil {
			e.Set = map[string]specs.Template{}
		}
		e.Set[key] = value
	}
	return e
}

func validEnvName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "=\x00")
}

func parseEnvPattern(s string) (string, error) {
	name := strings.TrimSuffix(s, "*")
	if s == "" || strings.ContainsAny(name, "=\x00*") {
		return "", fmt.Errorf(`%q is not a name; write a name like "TERM", or its beginning like "LC_*"`, s)
	}
	return s, nil
}

func readNetwork(b body, name string) specs.Network {
	n := specs.Network{
		Range:    rangeOf(b.header),
		Name:     name,
		Pool:     parsed(b, "pool", netip.Prefix{}, parsePool),
		Allow:    b.refs("allow", "proxy"),
		Egress:   b.enum("egress", specs.EgressNone, specs.EgressInternet),
		Deny:     parsedList(b, "deny", `["10.0.0.0/8"]`, parsePrefix),
		Fallback: b.enum("fallback", specs.FallbackRefuse, specs.FallbackIsolated),
		Warm:     b.int("warm", 0, specs.MaxSlots, 0),
		Publish:  b.bool("publish"),
	}
	slices.Sort(n.Allow)
	slices.SortFunc(n.Deny, netip.Prefix.Compare)
	if len(n.Deny) == 0 {
		n.Deny = nil
	}
	return n
}

func parsePool(s string) (netip.Prefix, error) {
	p, err := parsePrefix(s)
	if err == nil && !p.Addr().Is4() {
		return netip.Prefix{}, fmt.Errorf(`%q is IPv6; slots have IPv4 addresses, so write a pool like "10.202.0.0/16"`, s)
	}
	return p, err
}

func readSeccomp(b body, name string) specs.Seccomp {
	return specs.Seccomp{
		Range: rangeOf(b.header),
		Name:  name,
		Base:  b.enum("base", "container"),
		Deny:  set(parsedList(b, "deny", `["ptrace"]`, parseSyscall)),
		Allow: set(parsedList(b, "allow", `["ptrace"]`, parseSyscall)),
		Errno: parsed(b, "errno", defaultErrno, parseErrno),
		Log:   b.bool("log"),
	}
}

func settings(b body) map[string]string {
	const example = `{ statement_timeout = "10s" }`
	var out map[string]string
	known := oneOf("setting", specs.DatabaseSettings())
	for name, el := range b.entries("settings", example) {
		if _, err := known(name); err != nil {
			b.badValue(el.at, "settings", err)
			continue
		}
		if s, ok := b.word(el, "settings", example); ok {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = s
		}
	}
	return out
}

func readDatabase(b body, name string) specs.Database {
	d := specs.Database{Range: rangeOf(b.header), Name: name, Connection: b.ref("connection", "secret"), Authenticator: b.string("authenticator")}
	d.Public = parsedList(b, "public", `["connect"]`, oneOf("privilege", []string{"connect", "create", "temporary", "usage"}))
	slices.Sort(d.Public)
	d.Settings = settings(b)
	d.Trusted = parsedList(b, "trusted", `["public.report", "public.login(text)"]`, parseTrusted)
	slices.Sort(d.Trusted)
	return d
}

// parseTrusted takes what could be the name of an exposure, in its own words.
func parseTrusted(s string) (string, error) {
	kind, name, word := strings.Cut(s, " ")
	word = word && slices.Contains([]string{"server", "parameter", "setting"}, kind) && name != ""
	schema, name, dot := strings.Cut(s, ".")
	if word || dot && schema != "" && name != "" && !strings.HasSuffix(name, ".") {
		return s, nil
	}
	return "", fmt.Errorf("%q is not the name of a view or function: write its schema too, and the types of a function's arguments, as a plan does: public.report, public.login(text)", s)
}

func readGateway(b body, name string) specs.Gateway {
	g := specs.Gateway{
		Range:    rangeOf(b.header),
		Name:     name,
		Listen:   parsed(b, "listen", "", parseListen),
		Database: b.ref("database", "database"),
		Keys:     b.ref("keys", "secret"),
	}
	if c, ok := b.inner("console"); ok {
		g.Console = &specs.Console{
			Deny:     set(parsedList(c, "deny", `["copy", "grant"]`, oneOf("class of statements", consoleClasses()))),
			Timeout:  c.duration("timeout", 0),
			RowLimit: c.int("row_limit", 1, 1<<31-1, 0),
		}
	}
	return g
}

// consoleClasses are the classes of statements that a console can refuse.
func consoleClasses() []string {
	return []string{"copy", "grant", "revoke", "system_catalogs", "other_schemas"}
}

func parseListen(s string) (string, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Port() == 0 {
		return "", fmt.Errorf(`%q is not an address with a port; write it like "127.0.0.1:54321"`, s)
	}
	return a.String(), nil
}

// set sorts a list whose order has no meaning; an empty one is nil.
func set(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return list
}
