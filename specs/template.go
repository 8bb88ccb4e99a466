package specs

import (
	"fmt"
	"strings"
)

// Template is a string in which ${session.…} stands for what only a starting
// session knows. A literal "${" is written "$${". Everything else in it was
// known when the files were read.
type Template string

// SessionNames are what a Template may name.
func SessionNames() []string {
	return []string{"session.id", "session.project.directory", "session.project.name", "session.project.user", "session.sandbox"}
}

// Literal returns the Template that expands to s whatever the session.
func Literal(s string) Template { return Template(strings.ReplaceAll(s, "${", "$${")) }

// Expand returns t with each ${name} replaced by what values has for it.
//
// It returns an error for a name that values lacks, and for a "${" that is
// not closed.
func (t Template) Expand(values map[string]string) (string, error) {
	var out strings.Builder
	rest := string(t)
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			out.WriteString(rest)
			return out.String(), nil
		}
		if i > 0 && rest[i-1] == '$' {
			out.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		out.WriteString(rest[:i])
		name, after, ok := strings.Cut(rest[i+2:], "}")
		if !ok {
			return "", fmt.Errorf("template %q: ${ is not closed", string(t))
		}
		v, ok := values[name]
		if !ok {
			return "", fmt.Errorf("template %q: %s is not known for this session", string(t), name)
		}
		out.WriteString(v)
		rest = after
	}
}

// Names returns the session names that t uses, in order, each once.
func (t Template) Names() []string {
	var names []string
	seen := map[string]bool{}
	for _, n := range SessionNames() {
		if strings.Contains(strings.ReplaceAll(string(t), "$${", ""), "${"+n+"}") && !seen[n] {
			seen[n] = true
			names = append(names, n)
		}
	}
	return names
}
