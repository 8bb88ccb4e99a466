package specs

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// checker gathers problems. A field that has its zero value though it is
// required has been complained about where it was read; the rules pass over
// it.
type checker struct{ problems []Problem }

// add reports what is wrong with an attribute of a block.
func (c *checker) add(at Range, attr, summary, detail string) {
	c.problems = append(c.problems, Problem{Range: at, Attr: attr, Summary: summary, Detail: detail})
}

// addElement reports what is wrong with one element of a list.
func (c *checker) addElement(at Range, attr, value, summary, detail string) {
	c.problems = append(c.problems, Problem{Range: at, Attr: attr, Value: value, Summary: summary, Detail: detail})
}

// missing reports a reference to a block that is not in the Set.
func missing[T Named](c *checker, list []T, at Range, attr, kind, name string) {
	if name == "" || Find(list, name) != nil {
		return
	}
	c.problems = append(c.problems, Problem{
		Range: at, Attr: attr, Value: name, Missing: true,
		Summary: fmt.Sprintf("unknown %s %q", kind, name), Detail: fmt.Sprintf("No such %s is declared.", kind),
	})
}

func (c *checker) sorted() []Problem {
	slices.SortStableFunc(c.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Range.File, b.Range.File), a.Range.Byte-b.Range.Byte)
	})
	return c.problems
}

// twice returns the first name that stands in a sorted list more than once.
func twice(sorted []string) (string, bool) {
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return sorted[i], true
		}
	}
	return "", false
}

// badPath says what is wrong with p as an absolute path, or "".
func badPath(p string) string {
	switch {
	case strings.ContainsRune(p, 0):
		return "A path can't have a NUL in it."
	case !strings.HasPrefix(p, "/"):
		return fmt.Sprintf("A path from the root is required: write %q.", path.Clean("/"+strings.TrimPrefix(p, "~/")))
	case path.Clean(p) != p:
		return fmt.Sprintf("Write it in its shortest form: %q.", path.Clean(p))
	}
	return ""
}

// path holds an attribute to absolute and clean paths.
func (c *checker) path(at Range, attr, p string) bool {
	detail := badPath(p)
	if p == "" || detail == "" {
		return p != ""
	}
	c.addElement(at, attr, p, fmt.Sprintf("%q is not an absolute, clean path", p), detail)
	return false
}

// within tells whether p is dir or lies below it. Both are clean.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// below tells whether p lies below dir.
func below(p, dir string) bool { return p != dir && within(p, dir) }

// kernelDir returns which of the file systems of the kernel p is or lies in,
// or "".
func kernelDir(p string) string {
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if within(p, dir) {
			return dir
		}
	}
	return ""
}

func (c *checker) secrets(s Set) {
	for _, x := range s.Secrets {
		c.path(x.Range, "file", x.File)
		if len(x.Command) > 0 {
			c.path(x.Range, "command", x.Command[0])
		}
		if x.Vault != nil {
			missing(c, s.Secrets, x.Range, "vault.token", "secret", x.Vault.Token)
		}
	}
}

// loggedNeeds are the calls with which a session loads the filter that logs,
// and goes on.
func loggedNeeds() []string { return []string{"execve", "seccomp"} }

func (c *checker) seccomps(s Set) {
	for _, x := range s.Seccomps {
		c.nameLength(x.Range, "seccomp", x.Name)
		for _, call := range x.Deny {
			if x.Log && slices.Contains(loggedNeeds(), call) {
				c.addElement(x.Range, "deny", call, fmt.Sprintf("seccomp %q has log = true and denies %s", x.Name, call), "A session that logs what is refused begins with this call. Take it out of deny, or leave log out.")
			}
		}
		for _, call := range x.Allow {
			if slices.Contains(x.Deny, call) {
				c.addElement(x.Range, "allow", call, fmt.Sprintf("%s is both denied and allowed in seccomp %q", call, x.Name), "Leave it out of one of the two lists.")
			}
		}
	}
}

// maxName is how many bytes a name has at most that becomes part of the name
// of a file (NAME_MAX is 255) among other parts.
const maxName = 100

func (c *checker) nameLength(at Range, kind, name string) {
	if len(name) > maxName {
		c.add(at, "", fmt.Sprintf("%s name of %d bytes", kind, len(name)), fmt.Sprintf("Files are named after it; it may have %d bytes.", maxName))
	}
}

func (c *checker) gateways(s Set) {
	for _, d := range s.Databases {
		missing(c, s.Secrets, d.Range, "connection", "secret", d.Connection)
	}
	for _, g := range s.Gateways {
		missing(c, s.Databases, g.Range, "database", "database", g.Database)
		missing(c, s.Secrets, g.Range, "keys", "secret", g.Keys)
	}
}
