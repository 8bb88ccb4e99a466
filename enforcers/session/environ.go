package session

import (
	"slices"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// environ is a session's environment: of the caller's what env allows, then
// what it sets. It is sorted. Where HOME, USER and LOGNAME are allowed they
// have the session's own values, for the caller's would name a home that is
// not there. PWD is bubblewrap's. What strips matches never comes from the
// caller.
func environ(env *specs.Environment, caller, strips []string, values map[string]string, who account) ([]string, error) {
	if env == nil {
		return []string{}, nil
	}
	got := map[string]string{}
	for _, e := range caller {
		name, value, ok := strings.Cut(e, "=")
		if ok && name != "" && name != "PWD" && allowed(env.Allow, name) && !allowed(strips, name) {
			got[name] = value
		}
	}
	for name, value := range map[string]string{"HOME": who.home(), "USER": who.name, "LOGNAME": who.name} {
		if allowed(env.Allow, name) {
			got[name] = value
		}
	}
	for name, t := range env.Set {
		v, err := t.Expand(values)
		if err != nil {
			return nil, err
		}
		got[name] = v
	}
	out := make([]string, 0, len(got))
	for name, value := range got {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out, nil
}

// allowed tells whether name matches one of the patterns, in which a trailing
// * stands for any rest.
func allowed(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, any := strings.CutSuffix(p, "*")
		return p == name || any && strings.HasPrefix(name, prefix)
	})
}
