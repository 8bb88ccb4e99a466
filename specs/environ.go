package specs

import (
	"fmt"
	"slices"
	"strings"
)

// EnvPrefix begins the names of the environment variables that configure
// cordon.
const EnvPrefix = "CORDON_"

// OwnVariables are the variables of cordon's own environment that no session
// may see, whatever its environment allows: those that configure cordon, and
// those that secrets are found in. A trailing * stands for any rest. They are
// sorted.
func OwnVariables(s Set) []string {
	out := []string{EnvPrefix + "*"}
	for _, x := range s.Secrets {
		if x.Env != "" {
			out = append(out, x.Env)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// environments reports what is allowed and never comes in.
func (c *checker) environments(s Set) {
	own := OwnVariables(s)
	for _, x := range s.Environments {
		for _, name := range x.Allow {
			switch {
			case strings.HasPrefix(name, EnvPrefix):
				c.addElement(x.Range, "allow", name, fmt.Sprintf("environment %q allows %s, which no session gets", x.Name, name),
					"Variables that begin with "+EnvPrefix+" configure cordon itself. A value for sessions goes into set.")
			case slices.Contains(own, name):
				c.addElement(x.Range, "allow", name, fmt.Sprintf("environment %q allows %s, which no session gets", x.Name, name),
					"A secret is found in this variable.")
			}
		}
	}
}
