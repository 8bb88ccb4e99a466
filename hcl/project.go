package hcl

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	hcllib "github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/aicodesit/cordon/specs"
)

// readProjects reads a project block: one project, or one for each element
// of its for_each.
func (l *loader) readProjects(b *block) []specs.Project {
	a := b.body.Attributes["for_each"]
	if a == nil {
		return []specs.Project{l.readProject(b, &scope{})}
	}
	each, ok := l.forEach(b, a)
	if !ok {
		return nil
	}
	projects := make([]specs.Project, 0, len(each))
	for _, sc := range each {
		projects = append(projects, l.readProject(b, sc))
	}
	return projects
}

// forEach returns the scope of each element, sorted by key.
func (l *loader) forEach(b *block, a *hclsyntax.Attribute) ([]*scope, bool) {
	x := body{e: l.evaluator, what: b.what()}
	at := a.Expr.Range()
	v, ok := l.value(a.Expr, nil)
	if !ok {
		return nil, false
	}
	if v.IsMarked() {
		x.shown(v, at)
		return nil, false
	}
	t := v.Type()
	switch {
	case v.IsNull():
		x.bad(at, "for_each", "It is null; an empty set, toset([]), makes no project.")
		return nil, false
	case t.IsTupleType() || t.IsListType():
		x.bad(at, "for_each", "A list has an order and may have duplicates; write toset([…]).")
		return nil, false
	case !t.IsSetType() && !t.IsMapType() && !t.IsObjectType():
		x.bad(at, "for_each", fmt.Sprintf("A map or a set of strings is required; this is %s.", typeName(v)))
		return nil, false
	}
	var scopes []*scope
	for it := v.ElementIterator(); it.Next(); {
		key, value := it.Element()
		if t.IsSetType() {
			key = value
		}
		if !x.shown(key, at) {
			return nil, false
		}
		if key.IsNull() || key.Type() != cty.String {
			x.bad(at, "for_each", fmt.Sprintf("Its keys must be strings; this is %s.", typeName(key)))
			return nil, false
		}
		scopes = append(scopes, &scope{key: key, value: value})
	}
	return scopes, true
}

func (l *loader) readProject(b *block, sc *scope) specs.Project {
	x := l.body(b, sc)
	p := specs.Project{Range: rangeOf(x.header), Name: l.projectName(x, b, sc)}
	sc.project = map[string]cty.Value{"name": known(p.Name)}
	p.Directory = x.string("directory")
	sc.project["directory"] = known(p.Directory)
	p.User = x.string("user")
	if x.attribute("user") != nil {
		sc.project["user"] = known(p.User)
	}
	p.Sandboxes = x.refs("sandboxes", "sandbox")
	slices.Sort(p.Sandboxes)
	p.Operators = set(parsedList(x, "operators", `["group:shop"]`, parseOperator))
	if g, ok := x.inner("git"); ok {
		p.Git = l.readGit(g)
	}
	if s, ok := x.inner("schema"); ok {
		p.Schema = l.readSchema(s)
	}
	if d, ok := x.inner("dev_server"); ok {
		p.DevServer = l.readDevServer(d)
	}
	if v, ok := x.inner("preview"); ok {
		p.Preview = &specs.Preview{Range: rangeOf(v.header), Image: v.string("image"), Directory: v.string("directory"), Port: v.port("port")}
		l.locatable(v)
	}
	l.locatable(x)
	return p
}

// projectName is the label, or what name says, or LABEL-KEY of a for_each.
func (l *loader) projectName(x body, b *block, sc *scope) string {
	name, at := b.label, b.syntax.LabelRanges[0]
	if sc.key != cty.NilVal {
		name = b.label + "-" + sc.key.AsString()
	}
	if a := x.attribute("name"); a != nil {
		if name = x.string("name"); name == "" {
			if v, ok := l.value(a.Expr, sc); ok && !v.IsNull() && v.Type() == cty.String && !v.IsMarked() {
				x.bad(a.Expr.Range(), "name", "It is empty.")
			}
			return ""
		}
		at = a.Expr.Range()
	}
	if !ValidProjectName(name) {
		l.badProjectName(x, name, at)
		return ""
	}
	return name
}

// ProjectNames is what [ValidProjectName] takes, for people.
const ProjectNames = "a-z, 0-9, _ and -, and begins with a letter or a digit"

// ValidProjectName also takes names that begin with a digit: nothing refers
// to a project, and keys of a for_each are often numbers.
func ValidProjectName(s string) bool {
	return validName(s) || validName("a"+s) && s != "" && s[0] <= '9' && s[0] >= '0'
}

func (l *loader) badProjectName(x body, name string, at hcllib.Range) {
	detail := "A project's name is made of " + ProjectNames + "."
	if near := nearName(name); near != "" {
		detail += fmt.Sprintf(" Did you mean %q?", near)
	}
	l.error(at, fmt.Sprintf("project %q is not a usable name", name), detail)
}

// known is the value of an attribute that others may name; an unknown one if
// it could not be had.
func known(s string) cty.Value {
	if s == "" {
		return cty.UnknownVal(cty.String)
	}
	return cty.StringVal(s)
}

func parseOperator(s string) (string, error) {
	kind, name, ok := strings.Cut(s, ":")
	if !ok || name == "" || kind != "user" && kind != "group" {
		return "", fmt.Errorf(`%q is not "user:NAME" or "group:NAME"`, s)
	}
	return s, nil
}

func (l *loader) readGit(b body) *specs.Git {
	g := &specs.Git{Range: rangeOf(b.header), Remote: parsed(b, "remote", "", parseRemote), Credential: b.ref("credential", "secret")}
	g.Push = set(parsedList(b, "push", `["refs/heads/agent/*"]`, parsePush))
	g.LFSHosts = set(parsedList(b, "lfs_hosts", `["objects.example.com"]`, parseHost))
	l.locatable(b)
	return g
}

func parsePush(s string) (string, error) {
	if !specs.ValidPush(s) {
		return "", fmt.Errorf("%q is not the full name of a ref, as refs/heads/main, nor the beginning of such names with a * behind it, as refs/heads/agent/*", s)
	}
	return s, nil
}

func parseHost(s string) (string, error) {
	if u, err := url.Parse("https://" + s); err != nil || u.Host != s || u.Hostname() == "" || strings.ContainsAny(s, "*@") {
		return "", fmt.Errorf("%q is not HOST or HOST:PORT", s)
	}
	return s, nil
}

func parseRemote(s string) (string, error) {
	_, host, ok := strings.Cut(s, "://")
	host, _, _ = strings.Cut(host, "/")
	switch {
	case strings.ContainsAny(s, " \t\n\x00") || strings.HasPrefix(s, "-") || s == "":
		return "", fmt.Errorf("%q is not the address of a repository", s)
	case ok && strings.Contains(host, "@") && strings.Contains(host[:strings.LastIndex(host, "@")], ":"):
		return "", fmt.Errorf("a password in the address would be shown; use credential with a secret")
	}
	return s, nil
}

func (l *loader) readSchema(b body) *specs.Schema {
	s := &specs.Schema{Range: rangeOf(b.header), Database: b.ref("database", "database"), OwnerColumn: b.string("owner_column")}
	_, tables := b.labelled("table")
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		t := tables[name]
		access := specs.TableAccess{
			Range:         rangeOf(t.header),
			Name:          name,
			Anonymous:     commands(t, "anonymous"),
			Authenticated: commands(t, "authenticated"),
			OwnerColumn:   t.string("owner_column"),
			OwnerColumns:  ownerColumns(t),
			Columns:       columnLists(t),
			Check:         t.string("check"),
		}
		shortAccess(t, &access)
		s.Tables = append(s.Tables, access)
		l.locatable(t)
	}
	_, functions := b.labelled("function")
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := functions[name]
		s.Functions = append(s.Functions, specs.FunctionAccess{
			Range: rangeOf(f.header), Name: name,
			Anonymous: f.bool("anonymous"), Authenticated: f.bool("authenticated"),
		})
		l.locatable(f)
	}
	l.locatable(b)
	return s
}

// commands returns nil for what is not declared, a list that is not nil else.
func commands(b body, name string) []string {
	list := parsedList(b, name, `["select"]`, oneOf("command", specs.Commands()))
	slices.Sort(list)
	return list
}

// shortAccess puts what access says into the lists that it stands for.
func shortAccess(t body, out *specs.TableAccess) {
	a := t.attribute("access")
	if a == nil {
		return
	}
	for _, other := range []string{"anonymous", "authenticated"} {
		if t.attribute(other) != nil {
			t.bad(a.Expr.Range(), "access", "It says all that "+other+" would: leave one of them out.")
		}
	}
	out.Anonymous, out.Authenticated = []string{}, []string{}
	if t.enum("access", "admin", "public") == "public" {
		out.Anonymous, out.Authenticated = []string{"select"}, []string{"select"}
	}
}

// entries returns the elements of a map by name.
func (b body) entries(name, example string) map[string]element {
	a := b.attribute(name)
	if a == nil {
		return nil
	}
	v, ok := b.evaluate(a)
	if !ok || !b.shown(v, a.Expr.Range()) {
		return nil
	}
	if t := v.Type(); !t.IsObjectType() && !t.IsMapType() {
		b.bad(a.Expr.Range(), name, fmt.Sprintf("A map is required, such as %s; this is %s.", example, typeName(v)))
		return nil
	}
	out := map[string]element{}
	for it := v.ElementIterator(); it.Next(); {
		key, value := it.Element()
		out[key.AsString()] = element{value, a.Expr.Range()}
	}
	return out
}

func (b body) word(el element, name, example string) (string, bool) {
	if !b.shown(el.value, el.at) {
		return "", false
	}
	if el.value.IsNull() || el.value.Type() != cty.String {
		b.bad(el.at, name, fmt.Sprintf("Strings are required, as in %s; this is %s.", example, typeName(el.value)))
		return "", false
	}
	return el.value.AsString(), b.clean(el.value.AsString(), el.at, name)
}

func ownerColumns(b body) map[string]string {
	const example = `{ update = "editor_id" }`
	var out map[string]string
	for command, el := range b.entries("owner_columns", example) {
		if s, ok := b.word(el, "owner_columns", example); ok {
			if out == nil {
				out = map[string]string{}
			}
			out[command] = s
		}
	}
	return out
}

func columnLists(b body) map[string][]string {
	const example = `{ select = ["id"] }`
	var out map[string][]string
	for command, el := range b.entries("columns", example) {
		if !b.shown(el.value, el.at) {
			continue
		}
		if t := el.value.Type(); el.value.IsNull() || !t.IsTupleType() && !t.IsListType() && !t.IsSetType() {
			b.bad(el.at, "columns", fmt.Sprintf("Lists are required, as in %s; this is %s.", example, typeName(el.value)))
			continue
		}
		if out == nil {
			out = map[string][]string{}
		}
		list := []string{}
		for it := el.value.ElementIterator(); it.Next(); {
			_, item := it.Element()
			if s, ok := b.word(element{item, el.at}, "columns", example); ok {
				list = append(list, s)
			}
		}
		slices.Sort(list)
		out[command] = slices.Compact(list)
	}
	return out
}

func (l *loader) readDevServer(b body) *specs.DevServer {
	d := &specs.DevServer{Range: rangeOf(b.header), Sandbox: b.ref("sandbox", "sandbox"), User: b.string("user"), Port: b.port("port")}
	d.Command = b.texts("command", `["npm", "run", "dev"]`)
	l.locatable(b)
	return d
}
