package hcl

import (
	"fmt"
	"slices"
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"

	"github.com/aicodesit/cordon/specs"
)

const sessionHint = "It is known only when a session starts. It may stand by itself or inside a string in the from of a bind, the command of a sandbox and the values that an environment sets; not in calls, conditions or locals."

// rootNames are the words that a reference can begin with.
func rootNames() []string {
	return []string{
		"var", "local", "each", "session", "project",
		"secret", "environment", "proxy", "network", "seccomp", "sandbox", "database", "gateway",
	}
}

// rootHint is for a traversal that begins with none of them.
func rootHint(t hcllib.Traversal) string {
	root := t.RootName()
	if len(t) == 1 {
		return fmt.Sprintf("Text stands in quotes: %q.", root)
	}
	switch root {
	case "locals":
		return `Did you mean "local"?`
	case "variable", "vars":
		return `Did you mean "var"?`
	}
	return didYouMean(root, rootNames())
}

// written is a traversal as it stands in the file: session.project.name.
func written(t hcllib.Traversal) string {
	var out strings.Builder
	for _, step := range t {
		switch s := step.(type) {
		case hcllib.TraverseRoot:
			out.WriteString(s.Name)
		case hcllib.TraverseAttr:
			out.WriteString("." + s.Name)
		default:
			out.WriteString("[…]")
		}
	}
	return out.String()
}

// notFoundHint is for root.name when known are the names there are.
func notFoundHint(root, name string, known []string) string {
	switch root {
	case "each":
		if known == nil {
			return "each.key and each.value exist in a project with for_each."
		}
	case "project":
		return projectHint(name, known)
	}
	if s := specs.Suggest(name, known); s != "" {
		return fmt.Sprintf("Did you mean %s.%s?", root, s)
	}
	if len(known) == 0 {
		return fmt.Sprintf("No %s is declared.", blockWord(root))
	}
	if len(known) > 16 {
		return ""
	}
	full := make([]string, len(known))
	for i, k := range slices.Sorted(slices.Values(known)) {
		full[i] = root + "." + k
	}
	return "There are: " + strings.Join(full, ", ") + "."
}

func projectHint(name string, known []string) string {
	own := []string{"name", "directory", "user"}
	switch {
	case len(known) == 0 && !slices.Contains(own, name):
		return "Nothing refers to projects. project.name, project.directory and project.user exist inside a project, for itself."
	case slices.Contains(own, name) && slices.Contains(specs.SessionNames(), "session.project."+name):
		return fmt.Sprintf("project.%s exists inside a project, after its name, directory and user in this order. Elsewhere it may be session.project.%s that you mean.", name, name)
	}
	return didYouMean(name, own)
}

func blockWord(root string) string {
	if root == "var" {
		return "variable"
	}
	return root
}
