package reconciler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// declared is the enforcer of nothing: its resources are the blocks of the
// files, as they are when variables and references are resolved.
type declared struct{}

const declaredName = "declared"

// block is a block of the files as a Resource.
type block struct {
	kind, name string
	at         specs.Range
	value      any
}

// Addr is declared.KIND.NAME.
func (b block) Addr() Addr { return NewAddr(declaredName, b.kind, b.name) }

// Needs returns nothing: blocks are read, not made.
func (b block) Needs() []Addr { return nil }

// MarshalJSON is the block's attributes.
func (b block) MarshalJSON() ([]byte, error) { return json.Marshal(b.value) }

// Desired returns every block.
func (declared) Desired(set specs.Set) ([]Resource, error) {
	var out []Resource
	for _, b := range blocks(set) {
		out = append(out, b)
	}
	return out, nil
}

// Read returns an error: there is no host that holds blocks.
func (declared) Read(context.Context) ([]Resource, error) {
	return nil, errors.New("blocks are compared between files only")
}

// Apply returns an error: a plan between revisions is not made.
func (declared) Apply(context.Context, Change) error {
	return errors.New("a plan between revisions can't be applied")
}

// declaredAddr is the address of the block that name, KIND.NAME or something
// in it, lies in.
func declaredAddr(name string) Addr {
	parts := append(strings.SplitN(name, ".", 3), "")
	return NewAddr(declaredName, parts[0], parts[1])
}

// Locate is where the block stands.
func (declared) Locate(set specs.Set, addr Addr) specs.Range {
	for _, b := range blocks(set) {
		if b.Addr() == addr {
			return b.at
		}
	}
	return specs.Range{}
}

func blocks(set specs.Set) []block {
	var out []block
	for _, s := range set.Secrets {
		out = append(out, block{"secret", s.Name, s.Range, veiled(s)})
	}
	for _, e := range set.Environments {
		out = append(out, block{"environment", e.Name, e.Range, e})
	}
	for _, p := range set.Proxies {
		out = append(out, block{"proxy", p.Name, p.Range, p})
	}
	for _, n := range set.Networks {
		out = append(out, block{"network", n.Name, n.Range, n})
	}
	for _, s := range set.Seccomps {
		out = append(out, block{"seccomp", s.Name, s.Range, s})
	}
	for _, s := range set.Sandboxes {
		out = append(out, block{"sandbox", s.Name, s.Range, s})
	}
	for _, d := range set.Databases {
		out = append(out, block{"database", d.Name, d.Range, d})
	}
	for _, g := range set.Gateways {
		out = append(out, block{"gateway", g.Name, g.Range, g})
	}
	for _, p := range set.Projects {
		out = append(out, block{"project", p.Name, p.Range, p})
	}
	return out
}

// veiled is a secret without the places that may come from a sensitive
// variable. A digest shows that they changed.
func veiled(s specs.Secret) specs.Secret {
	for _, place := range []*string{&s.File, &s.Env, &s.Systemd} {
		if *place != "" {
			sum := sha256.Sum256([]byte(*place))
			*place = fmt.Sprintf("(not shown, #%s)", hex.EncodeToString(sum[:4]))
		}
	}
	return s
}
