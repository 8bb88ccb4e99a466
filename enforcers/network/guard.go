package network

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// putChain fills a chain. A shared one keeps a network closed for as long as
// interfaces of it exist: slots go before the rules that guard them, but one
// that could not be deleted would stand there unguarded otherwise.
func (e *Enforcer) putChain(ctx context.Context, old reconciler.Resource, w Chain) error {
	left, err := e.leftOpen(old, w)
	if err != nil {
		return err
	}
	refusal := reject4
	if w.Family == v6 {
		refusal = reject6
	}
	for _, match := range left {
		w.Rules = append(slices.Clone(w.Rules), match+" "+refusal)
	}
	if err := e.kernel.restore(ctx, w.Family, w.script()); err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("slots of a network that is not declared any more are still there: what matches %q stays closed until they are gone",
			strings.Join(left, `", "`))
	}
	return nil
}

// leftOpen are the interface matches of old's rules that w has no rule for
// though an interface matches them.
func (e *Enforcer) leftOpen(old reconciler.Resource, w Chain) ([]string, error) {
	if old == nil || w.Name != chainInput && w.Name != chainForward {
		return nil, nil
	}
	before, ok := old.(Chain)
	if !ok {
		return nil, fmt.Errorf("%T is no chain", old)
	}
	var dropped []string
	for _, r := range before.Rules {
		match, prefix := interfaceOf(r)
		if prefix != "" && !slices.Contains(dropped, match) &&
			!slices.ContainsFunc(w.Rules, func(r string) bool { m, _ := interfaceOf(r); return m == match }) {
			dropped = append(dropped, match)
		}
	}
	if len(dropped) == 0 {
		return nil, nil // as always but when a network goes: the links are not asked for
	}
	names, err := e.links()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(dropped, func(match string) bool {
		_, prefix := interfaceOf(match)
		return !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) })
	}), nil
}

// interfaceOf is the interface match that a rule of cordon's begins with,
// "-i c-NET.+", and the names' prefix that it is for; "" if it has none.
func interfaceOf(rule string) (match, prefix string) {
	f := strings.Fields(rule)
	if len(f) < 2 || f[0] != "-i" && f[0] != "-o" {
		return "", ""
	}
	prefix, all := strings.CutSuffix(f[1], "+")
	if _, _, ours := specs.ParseInterface(prefix + "0"); !all || !ours {
		return "", ""
	}
	return f[0] + " " + f[1], prefix
}

// linkNames are the names of the host's interfaces.
func linkNames() ([]string, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	var names []string
	for _, l := range list {
		names = append(names, l.Name)
	}
	return names, nil
}
