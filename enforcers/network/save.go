package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// ruleset is what iptables-save wrote, by table and chain.
type ruleset map[string]map[string]*chain

type chain struct {
	builtin bool
	dormant bool // its table is
	rules   []string
}

// parseSave reads the output of iptables-save, see iptables-save(8). It
// returns an error when the text is cut off, or when one of cordon's tables is
// there but in a form that the program can't show.
func parseSave(text string) (ruleset, error) {
	rules := ruleset{}
	name := ""
	for _, line := range strings.Split(text, "\n") {
		switch {
		case line == "":
		case line[0] == '#':
			if err := rules.remark(line); err != nil {
				return nil, err
			}
		case line[0] == '*':
			name = line[1:]
			rules[name] = map[string]*chain{}
		case line == "COMMIT":
			name = ""
		case name == "":
			return nil, fmt.Errorf("iptables-save: %q outside of a table", line)
		default:
			if err := rules.add(name, line); err != nil {
				return nil, err
			}
		}
	}
	if name != "" {
		return nil, fmt.Errorf("iptables-save: the table %s has no end", name)
	}
	return rules, nil
}

// remark takes in a comment: that a table is dormant, or the one by which
// iptables-nft-save leaves a table out: "# Table `filter' is incompatible, use
// 'nft' tool.", or "contains incompatible base-chains".
func (r ruleset) remark(line string) error {
	if table, ok := dormantTable(line); ok {
		for _, c := range r[table] {
			c.dormant = true
		}
		return nil
	}
	if strings.Contains(line, " incompatible") && (strings.Contains(line, "`filter'") || strings.Contains(line, "`nat'")) {
		return fmt.Errorf("iptables-save: %s", strings.TrimPrefix(line, "# "))
	}
	return nil
}

func (r ruleset) add(table, line string) error {
	first, rest, _ := strings.Cut(line, " ")
	if declared, ok := strings.CutPrefix(first, ":"); ok {
		// nf_tables can have a chain of the name that hangs on no hook.
		if c := r[table][declared]; c != nil && c.builtin {
			return fmt.Errorf("iptables-save: the chain %s of the table %s hangs on no hook: its rules are never asked", declared, table)
		}
		r[table][declared] = &chain{builtin: !strings.HasPrefix(rest, "- ")}
		return nil
	}
	name, rule, _ := strings.Cut(rest, " ")
	c := r[table][name]
	if first != "-A" || c == nil {
		return fmt.Errorf("iptables-save: unexpected line %q", line)
	}
	c.rules = append(c.rules, rule)
	return nil
}

// chain is a chain's rules; nil when there is no such chain.
func (r ruleset) chain(table, name string) []string {
	if c := r[table][name]; c != nil {
		return c.rules
	}
	return nil
}

// resources are the chains and hooks in r, in no order.
func (r ruleset) resources(family string) []reconciler.Resource {
	var out []reconciler.Resource
	for table, chains := range r {
		for name, c := range chains {
			if strings.HasPrefix(name, specs.ChainPrefix) {
				out = append(out, Chain{Family: family, Table: table, Name: name, Rules: append([]string{}, c.rules...)})
				continue
			}
			if h, ok := hookIn(family, table, name, c); ok {
				out = append(out, h)
			}
		}
	}
	return out
}

// ours tells whether a rule of someone's chain is a hook of cordon's.
func ours(rule string) bool { return strings.HasPrefix(target(rule), specs.ChainPrefix) }

// hookIn is the hook among the rules of a built-in chain: the first rule that
// is cordon's.
func hookIn(family, table, name string, c *chain) (Hook, bool) {
	at := slices.IndexFunc(c.rules, ours)
	if at < 0 || !c.builtin {
		return Hook{}, false
	}
	h := Hook{Family: family, Table: table, Chain: name, Rule: c.rules[at], Position: at + 1}
	if c.dormant {
		h.Drift = append(h.Drift, "the table is dormant: none of its rules is asked")
	}
	for i, rule := range c.rules {
		if i != at && ours(rule) {
			h.Drift = append(h.Drift, fmt.Sprintf("also at %d: %s", i+1, rule))
		}
	}
	return h, true
}
