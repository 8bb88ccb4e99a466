package hcl

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/aicodesit/cordon/specs"
)

// Load reads the *.hcl files that lie directly in dir. The Set is the zero
// Set if the diagnostics have errors.
func Load(dir string, o Options) (specs.Set, Diagnostics) {
	l := newLoader()
	files, complete := readDir(filepath.Clean(dir), l.reporter)
	l.names.incomplete = !complete
	return l.load(files, o)
}

// LoadFiles is Load for files that were read elsewhere. They form one
// namespace.
func LoadFiles(files []File, o Options) (specs.Set, Diagnostics) {
	return newLoader().load(files, o)
}

// loader reads one namespace.
type loader struct {
	*evaluator
	set    specs.Set
	bodies map[place]body // what was read, by where its header stands
}

// place identifies a block, or a block within one.
type place struct {
	file string
	byte int
}

func newLoader() *loader {
	return &loader{
		evaluator: newEvaluator(newNamespace(), &reporter{}),
		bodies:    map[place]body{},
	}
}

func (l *loader) load(files []File, o Options) (specs.Set, Diagnostics) {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	parsed := parseAll(files)
	sources := make([]*source, len(parsed))
	for i := range parsed {
		if parsed[i].body != nil {
			l.work.meterBody(parsed[i].body)
		}
		parsed[i].declare(l.names, l.reporter)
		sources[i] = parsed[i].source
	}
	for _, s := range sources {
		for _, b := range s.blocks {
			if b.kind != "locals" {
				checkBody(b.body, schemaOf(b.kind), b.what(), b.syntax.DefRange(), l.reporter)
			}
		}
	}
	l.loadVariables(o)
	l.loadLocals()
	for _, b := range l.names.order {
		l.read(b)
	}
	l.sort()
	for _, p := range l.set.Check() {
		l.problem(p)
	}
	l.nothing(files)
	diags := l.finish(sources)
	if diags.HasErrors() {
		return specs.Set{}, diags
	}
	return l.set, diags
}

// nothing reports files that declare no blocks: taken for the desired state
// they would mean that everything should be removed.
func (l *loader) nothing(files []File) {
	if len(files) == 0 || len(l.names.order) > 0 || len(l.list) > 0 {
		return
	}
	l.report(missingFile(files[0].Name, "nothing is declared",
		"The files of the directory have no blocks but variables and locals. If all should be removed, that is what cordon destroy is for."))
}

// loadLocals evaluates all locals, also those that nothing uses.
func (l *loader) loadLocals() {
	names := make([]*hclsyntax.Attribute, 0, len(l.names.locals))
	for _, a := range l.names.locals {
		names = append(names, a)
	}
	slices.SortFunc(names, func(a, b *hclsyntax.Attribute) int {
		return cmp.Or(cmp.Compare(a.NameRange.Filename, b.NameRange.Filename), a.NameRange.Start.Byte-b.NameRange.Start.Byte)
	})
	for _, a := range names {
		l.local(a.Name)
	}
}

// what names a block in messages: network "llm-only".
func (b *block) what() string { return fmt.Sprintf("%s %q", b.kind, b.label) }

// body is what a block says by itself.
func (e *evaluator) body(b *block, sc *scope) body {
	return body{e: e, scope: sc, what: b.what(), header: b.syntax.DefRange(), layers: []*hclsyntax.Body{b.body}, schema: schemaOf(b.kind)}
}

// read reads a block into the Set, also if some of it has errors: so that
// what stands between blocks is checked as far as it goes.
func (l *loader) read(b *block) {
	x := l.body(b, nil)
	s := &l.set
	switch b.kind {
	case "secret":
		s.Secrets = append(s.Secrets, readSecret(x, b.label))
	case "environment":
		s.Environments = append(s.Environments, readEnvironment(x, b.label))
	case "proxy":
		s.Proxies = append(s.Proxies, l.readProxy(x, b.label))
	case "network":
		s.Networks = append(s.Networks, readNetwork(x, b.label))
	case "seccomp":
		s.Seccomps = append(s.Seccomps, readSeccomp(x, b.label))
	case "sandbox":
		if sandbox, ok := l.readSandbox(b); ok {
			s.Sandboxes = append(s.Sandboxes, sandbox)
		}
		return
	case "database":
		s.Databases = append(s.Databases, readDatabase(x, b.label))
	case "gateway":
		s.Gateways = append(s.Gateways, readGateway(x, b.label))
	case "project":
		s.Projects = append(s.Projects, l.readProjects(b)...)
		return
	}
	l.locatable(x)
}

func (l *loader) sort() {
	s := &l.set
	sortByID(s.Secrets)
	sortByID(s.Environments)
	sortByID(s.Proxies)
	sortByID(s.Networks)
	sortByID(s.Seccomps)
	sortByID(s.Sandboxes)
	sortByID(s.Databases)
	sortByID(s.Gateways)
	sortByID(s.Projects)
}

func sortByID[T specs.Named](list []T) {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(a.ID(), b.ID()) })
}

// locatable remembers b, for problems that are found in its block later.
func (l *loader) locatable(b body) {
	l.bodies[place{b.header.Filename, b.header.Start.Byte}] = b
}

// problem reports what package specs found, at the attribute or the element
// that it is about. References were resolved here, and reported if unknown.
func (l *loader) problem(p specs.Problem) {
	if p.Missing {
		return
	}
	at := p.Range
	if b, ok := l.bodies[place{p.Range.File, p.Range.Byte}]; ok && p.Attr != "" {
		if from := b.hiddenIn(p.Attr); from != "" {
			p.Summary = fmt.Sprintf("bad %s in %s", p.Attr, b.what)
			p.Detail = fmt.Sprintf("What it is made of, %s, is not shown. LANGUAGE.md tells what it must be.", from)
			p.Value = ""
		}
	}
	if b, ok := l.bodies[place{p.Range.File, p.Range.Byte}]; ok && p.Attr != "" {
		if found, ok := b.locate(p.Attr, p.Value); ok {
			at = rangeOf(found)
		}
	}
	l.report(Diagnostic{Severity: Error, Summary: p.Summary, Detail: sentence(p.Detail), Range: at})
}
