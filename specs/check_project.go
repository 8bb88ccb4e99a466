package specs

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// DatabaseSettings are the names of settings that an authenticator may have.
func DatabaseSettings() []string {
	return []string{"idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout", "search_path", "statement_timeout"}
}

// Commands are what may be done with the rows of a table.
func Commands() []string { return []string{"delete", "insert", "select", "update"} }

func (c *checker) projects(s Set) {
	for i, p := range s.Projects {
		c.nameLength(p.Range, "project", p.Name)
		if i > 0 && p.Name != "" && p.Name == s.Projects[i-1].Name {
			c.add(later(p.Range, s.Projects[i-1].Range), "name", fmt.Sprintf("two projects are called %q", p.Name), "Names of projects are unique, those from a for_each included.")
		}
		for _, name := range p.Sandboxes {
			missing(c, s.Sandboxes, p.Range, "sandboxes", "sandbox", name)
		}
		if name, ok := twice(p.Sandboxes); ok {
			c.addElement(p.Range, "sandboxes", name, fmt.Sprintf("project %q lists sandbox %q twice", p.Name, name), "List it once.")
		}
		if strings.ContainsAny(p.User, ":/\x00 \t\n") {
			c.add(p.Range, "user", fmt.Sprintf("%q is not the name of a user", p.User), "Write a name as in /etc/passwd.")
		}
		c.directory(p)
		c.schema(s, p)
		c.git(s, p)
		c.devServer(s, p)
		c.preview(p)
	}
	c.directories(s)
	c.ports(s)
}

func later(a, b Range) Range {
	if a.File == b.File && b.Byte > a.Byte || b.File > a.File {
		return b
	}
	return a
}

func (c *checker) directory(p Project) {
	if !c.path(p.Range, "directory", p.Directory) {
		return
	}
	if p.Directory == "/" || kernelDir(p.Directory) != "" {
		c.add(p.Range, "directory", fmt.Sprintf("project %q has the directory %s", p.Name, p.Directory), "A project needs a directory of its own, such as /srv/projects/NAME.")
	}
}

// directories reports projects that have one directory, or one of which has
// the other's in its own: each could write what is the other's.
func (c *checker) directories(s Set) {
	byDir := slices.Clone(s.Projects)
	slices.SortStableFunc(byDir, func(a, b Project) int {
		return cmp.Compare(strings.ReplaceAll(a.Directory, "/", "\x00"), strings.ReplaceAll(b.Directory, "/", "\x00"))
	})
	outer := Project{}
	for _, p := range byDir {
		switch {
		case badPath(p.Directory) != "" || p.Directory == "" || p.Directory == "/":
			continue
		case outer.Directory == "" || !within(p.Directory, outer.Directory):
			outer = p
			continue
		case p.Name == outer.Name:
			continue // told already
		case p.Directory == outer.Directory:
			at := later(p.Range, outer.Range)
			c.add(at, "directory", fmt.Sprintf("projects %q and %q have one directory", outer.Name, p.Name), fmt.Sprintf("Both have %s; each needs its own.", p.Directory))
		default:
			c.add(p.Range, "directory", fmt.Sprintf("the directory of project %q lies in that of project %q", p.Name, outer.Name),
				fmt.Sprintf("%s is below %s, so that project's sessions could change it. Keep them side by side.", p.Directory, outer.Directory))
		}
	}
}

func (c *checker) schema(s Set, p Project) {
	if p.Schema == nil {
		return
	}
	missing(c, s.Databases, p.Schema.Range, "database", "database", p.Schema.Database)
	c.schemaName(p)
	c.identifier(p.Schema.Range, "owner_column", p.Schema.OwnerColumn)
	seen := map[string]bool{}
	for _, t := range p.Schema.Tables {
		if t.Name == "" {
			c.add(t.Range, "", "table without a name", `Write table "NAME" { … }.`)
		}
		if seen[t.Name] {
			c.add(t.Range, "", fmt.Sprintf("table %q is named twice in project %q", t.Name, p.Name), "Say all about it in one block.")
		}
		seen[t.Name] = true
		c.identifier(t.Range, "", t.Name)
		c.identifier(t.Range, "owner_column", t.OwnerColumn)
		c.commands(t, "anonymous", t.Anonymous)
		c.commands(t, "authenticated", t.Authenticated)
		c.columns(t)
	}
	seen = map[string]bool{}
	for _, f := range p.Schema.Functions {
		if f.Name == "" || seen[f.Name] {
			c.add(f.Range, "", fmt.Sprintf("function %q is named twice in project %q, or has no name", f.Name, p.Name), `Write one function "NAME" { … } for all of that name.`)
		}
		seen[f.Name] = true
		c.identifier(f.Range, "", f.Name)
	}
}

func (c *checker) commands(t TableAccess, attr string, list []string) {
	for _, command := range list {
		if !slices.Contains(Commands(), command) {
			c.addElement(t.Range, attr, command, fmt.Sprintf("unknown command %q for table %q", command, t.Name), "There are: "+strings.Join(Commands(), ", ")+".")
		}
	}
}

// columns reports what has no columns, or names that can't be any.
func (c *checker) columns(t TableAccess) {
	for _, command := range slices.Sorted(maps.Keys(t.Columns)) {
		if !slices.Contains([]string{"insert", "select", "update"}, command) {
			c.add(t.Range, "columns", fmt.Sprintf("%q of table %q can't be bound to columns", command, t.Name), "There are: insert, select, update.")
		}
		for _, name := range t.Columns[command] {
			c.identifier(t.Range, "columns", name)
		}
	}
	for _, command := range slices.Sorted(maps.Keys(t.OwnerColumns)) {
		c.commands(t, "owner_columns", []string{command})
		c.identifier(t.Range, "owner_columns", t.OwnerColumns[command])
	}
}

// identifier holds names of tables and columns to what PostgreSQL keeps.
func (c *checker) identifier(at Range, attr, name string) {
	switch {
	case len(name) > MaxRole:
		c.add(at, attr, fmt.Sprintf("%q has %d bytes", name, len(name)), fmt.Sprintf("PostgreSQL cuts names at %d bytes.", MaxRole))
	case strings.ContainsRune(name, 0):
		c.add(at, attr, fmt.Sprintf("%q has a NUL in it", name), "PostgreSQL has no such names.")
	}
}

// schemaName holds a project's name to what can be the name of a schema and
// the beginning of those of its roles.
func (c *checker) schemaName(p Project) {
	if p.Name == "" {
		return
	}
	longest := p.Role(RoleService)
	switch {
	case len(longest) > MaxRole:
		c.add(p.Range, "name", fmt.Sprintf("project name %q is too long", p.Name),
			fmt.Sprintf("Its role %s has %d bytes, of at most %d. The name of a project with a schema may have %d bytes.", longest, len(longest), MaxRole, MaxRole-len("_"+RoleService)))
	case strings.HasPrefix(p.Name, "pg_"):
		c.add(p.Range, "name", fmt.Sprintf("%q can't be the name of a schema", p.Name), `PostgreSQL keeps names that begin with "pg_" for itself.`)
	case slices.Contains([]string{"public", "none", "information_schema"}, p.Name):
		c.add(p.Range, "name", fmt.Sprintf("%q can't be the name of a schema of its own", p.Name), "It means something else to PostgreSQL. Give the project another name.")
	}
}

func (c *checker) git(s Set, p Project) {
	if p.Git == nil {
		return
	}
	missing(c, s.Secrets, p.Git.Range, "credential", "secret", p.Git.Credential)
	for _, pattern := range p.Git.Push {
		if !ValidPush(pattern) {
			c.addElement(p.Git.Range, "push", pattern, fmt.Sprintf("project %q: %q is no name of refs", p.Name, pattern), `Write "refs/heads/main" or "refs/heads/agent/*".`)
		}
	}
	_, _, https := p.Git.Origin()
	if !https && len(p.Git.Push)+len(p.Git.LFSHosts) > 0 {
		c.add(p.Git.Range, "push", fmt.Sprintf("project %q: sessions have no way to %s", p.Name, p.Git.Remote), "Only an https remote can be reached from sandboxes; push and lfs_hosts are about those.")
	}
	if !https && p.Git.Remote != "" && p.Git.Credential != "" {
		c.add(p.Git.Range, "credential", fmt.Sprintf("project %q: the credential would not be used", p.Name), "It is sent to an https remote only.")
	}
}

func (c *checker) devServer(s Set, p Project) {
	if p.DevServer == nil {
		return
	}
	missing(c, s.Sandboxes, p.DevServer.Range, "sandbox", "sandbox", p.DevServer.Sandbox)
	if p.DevServer.Command != nil && p.DevServer.Command[0] == "" {
		c.add(p.DevServer.Range, "command", fmt.Sprintf("the dev server of project %q has an empty command", p.Name), "Name a program.")
	}
}

func (c *checker) preview(p Project) {
	if p.Preview == nil || p.Preview.Directory == "" {
		return
	}
	dir := p.Preview.Directory
	if strings.HasPrefix(dir, "/") {
		c.path(p.Preview.Range, "directory", dir)
		return
	}
	if path.Clean(dir) != dir || dir == ".." || strings.HasPrefix(dir, "../") || strings.ContainsRune(dir, 0) {
		c.add(p.Preview.Range, "directory", fmt.Sprintf("%q does not lie in the project", dir), `Write a directory below the project's, such as "dist".`)
	}
}

// ports reports two servers of projects on one port of the host.
func (c *checker) ports(s Set) {
	taken := map[int]string{}
	claim := func(at Range, port int, who string) {
		if other, ok := taken[port]; ok && port != 0 {
			c.add(at, "port", fmt.Sprintf("port %d of %s is taken by %s", port, who, other), "Each listens on a port of the host of its own.")
			return
		}
		taken[port] = who
	}
	for _, p := range s.Projects {
		if p.DevServer != nil {
			claim(p.DevServer.Range, p.DevServer.Port, fmt.Sprintf("project %q's dev server", p.Name))
		}
		if p.Preview != nil {
			claim(p.Preview.Range, p.Preview.Port, fmt.Sprintf("project %q's preview", p.Name))
		}
	}
}
