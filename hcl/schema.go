package hcl

import (
	"fmt"
	"slices"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/aicodesit/cordon/specs"
)

// schema is what may stand in a block.
type schema struct {
	label  string   // what its label is called in messages; "" is none
	needs  []string // attributes that must be there
	may    []string // attributes that can be left out
	blocks []inner
}

// inner is a block within a block.
type inner struct {
	kind     string
	repeated bool // once for each label, or any number of times if it has none; else once
	schema   schema
}

func (s *schema) attributes() []string { return append(slices.Clip(s.needs), s.may...) }

func (s *schema) inner(kind string) *inner {
	i := slices.IndexFunc(s.blocks, func(b inner) bool { return b.kind == kind })
	if i < 0 {
		return nil
	}
	return &s.blocks[i]
}

func (s *schema) kinds() []string {
	kinds := make([]string, len(s.blocks))
	for i, b := range s.blocks {
		kinds[i] = b.kind
	}
	return kinds
}

// schemas is the language. LANGUAGE.md explains each word of it.
//
//nolint:gochecknoglobals // a table that nothing writes
var schemas = map[string]*schema{
	"variable": {label: "name", may: []string{"type", "default", "description", "sensitive"}},
	"locals":   {},
	"secret": {
		label: "name",
		may:   []string{"file", "env", "command", "systemd", "ttl"},
		blocks: []inner{
			{kind: "vault", schema: schema{needs: []string{"address", "mount", "path", "field", "token"}, may: []string{"namespace"}}},
		},
	},
	"environment": {
		label: "name",
		may:   []string{"allow", "set"},
	},
	"proxy": {
		label: "name",
		needs: []string{"port"},
		may:   []string{"upstream", "inject", "paths"},
		blocks: []inner{
			{kind: "upstream", repeated: true, schema: schema{label: "name", needs: []string{"url"}, may: []string{"kind", "inject", "paths", "credential", "region"}}},
			{kind: "policy", schema: schema{may: []string{"models", "max_tokens", "server_tools", "url_sources", "mcp_servers", "files", "batches"}}},
			{kind: "budget", repeated: true, schema: schema{needs: []string{"scope"}, may: []string{"every", "requests", "input_tokens", "output_tokens", "money"}}},
			{kind: "price", repeated: true, schema: schema{label: "model", needs: []string{"input", "output"}, may: []string{"cache_read", "cache_write", "cache_write_long"}}},
			{kind: "token", schema: schema{may: []string{"prefix", "ttl"}}},
			{kind: "limit", schema: schema{may: []string{"requests_per_minute", "concurrent", "body"}}},
		},
	},
	"network": {
		label: "name",
		needs: []string{"pool"},
		may:   []string{"allow", "egress", "deny", "fallback", "warm", "publish"},
	},
	"seccomp": {
		label: "name",
		may:   []string{"base", "deny", "allow", "errno", "log"},
	},
	"sandbox": {
		label: "name",
		may: []string{
			"abstract", "extends", "command", "network", "namespaces", "environment", "seccomp",
			"on_change", "stop_signal", "grace",
		},
		blocks: []inner{
			{kind: "filesystem", schema: schema{
				may: []string{"programs", "files"},
				blocks: []inner{
					{kind: "tmpfs", repeated: true, schema: schema{label: "path", may: []string{"size"}}},
					{kind: "bind", repeated: true, schema: schema{label: "target", may: []string{"from", "writable"}}},
				},
			}},
			{kind: "capabilities", schema: schema{may: []string{"keep"}}},
			{kind: "limits", schema: schema{may: []string{"memory", "cpu", "pids"}}},
			{kind: "agent", schema: schema{label: "kind", may: []string{"proxy", "hide", "transcript", "home"}}},
		},
	},
	"database": {label: "name", needs: []string{"connection"}, may: []string{"public", "authenticator", "settings", "trusted"}},
	"gateway": {
		label: "name",
		needs: []string{"listen", "database"},
		may:   []string{"keys"},
		blocks: []inner{
			{kind: "console", schema: schema{may: []string{"deny", "timeout", "row_limit"}}},
		},
	},
	"project": {
		label: "name",
		needs: []string{"directory"},
		may:   []string{"for_each", "name", "user", "sandboxes", "operators"},
		blocks: []inner{
			{kind: "git", schema: schema{needs: []string{"remote"}, may: []string{"credential", "push", "lfs_hosts"}}},
			{kind: "schema", schema: schema{
				needs: []string{"database"},
				may:   []string{"owner_column"},
				blocks: []inner{
					{kind: "table", repeated: true, schema: schema{label: "name", may: []string{"access", "anonymous", "authenticated", "owner_column", "owner_columns", "columns", "check"}}},
					{kind: "function", repeated: true, schema: schema{label: "name", may: []string{"anonymous", "authenticated"}}},
				},
			}},
			{kind: "dev_server", schema: schema{needs: []string{"sandbox", "command", "user", "port"}}},
			{kind: "preview", schema: schema{needs: []string{"image", "directory", "port"}}},
		},
	},
}

func schemaOf(kind string) *schema { return schemas[kind] }

func blockKinds() []string {
	kinds := make([]string, 0, len(schemas))
	for k := range schemas {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

// isReferable tells whether blocks of that kind can be named in expressions.
func isReferable(kind string) bool {
	switch kind {
	case "variable", "locals", "project":
		return false
	}
	return schemas[kind] != nil
}

// checkBody reports what in body s does not know and what it needs and is
// not there. what names the block in messages.
func checkBody(body *hclsyntax.Body, s *schema, what string, header hcllib.Range, r *reporter) {
	var meant []string // by names that are not known
	for _, a := range sortedAttributes(body) {
		if slices.Contains(s.needs, a.Name) || slices.Contains(s.may, a.Name) {
			continue
		}
		meant = append(meant, specs.Suggest(a.Name, s.attributes()))
		detail := didYouMean(a.Name, s.attributes())
		if s.inner(a.Name) != nil {
			detail = fmt.Sprintf("%s is a block: write %s { … }, without the equals sign.", a.Name, a.Name)
		}
		r.error(a.NameRange, fmt.Sprintf("unknown attribute %q in %s", a.Name, what), detail)
	}
	for _, name := range s.needs {
		if body.Attributes[name] == nil && !slices.Contains(meant, name) {
			r.error(header, fmt.Sprintf("%s lacks %s", what, name), fmt.Sprintf("The attribute %q must be given.", name))
		}
	}
	first := map[string]*hclsyntax.Block{}
	for _, b := range body.Blocks {
		checkInner(b, s, what, first, r)
	}
}

func checkInner(b *hclsyntax.Block, outer *schema, what string, first map[string]*hclsyntax.Block, r *reporter) {
	in := outer.inner(b.Type)
	if in == nil {
		detail := didYouMean(b.Type, outer.kinds())
		if slices.Contains(outer.attributes(), b.Type) {
			detail = fmt.Sprintf("%s is an attribute: write %s = …", b.Type, b.Type)
		} else if schemas[b.Type] != nil {
			detail = fmt.Sprintf("%s blocks stand at the top of a file.", b.Type)
		}
		r.error(b.TypeRange, fmt.Sprintf("unknown block %q in %s", b.Type, what), detail)
		return
	}
	label, ok := labelOf(b, &in.schema, r)
	if !ok {
		return
	}
	key, name := b.Type, b.Type
	if label != "" {
		name = fmt.Sprintf("%s %q", b.Type, label)
	}
	if in.repeated {
		key = name
	}
	if other := first[key]; other != nil && (!in.repeated || label != "") {
		r.error(b.DefRange(), fmt.Sprintf("duplicate %s in %s", key, what), "The first is at "+at(other.DefRange())+".")
		return
	}
	first[key] = b
	checkBody(b.Body, &in.schema, name+" in "+what, b.DefRange(), r)
}
