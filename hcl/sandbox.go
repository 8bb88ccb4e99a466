package hcl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/aicodesit/cordon/specs"
)

// layers returns the body of a sandbox and those of all that it extends, the
// nearest first. whole is false if one of them can't be had.
func (l *loader) layers(b *block) (layers []*hclsyntax.Body, whole bool) {
	chain := []string{b.label}
	for {
		layers = append(layers, b.body)
		own := l.body(b, nil)
		if own.attribute("extends") == nil {
			return layers, true
		}
		base := own.ref("extends", "sandbox")
		if base == "" {
			return layers, false
		}
		if i := slices.Index(chain, base); i >= 0 {
			l.reportCycle(chain[i:])
			return layers, false
		}
		chain = append(chain, base)
		b = l.names.blocks["sandbox"][base]
	}
}

// reportCycle reports one cycle once, whichever of its members it was found
// from.
func (l *loader) reportCycle(members []string) {
	first := slices.Index(members, slices.Min(members))
	cycle := append(slices.Clone(members[first:]), members[:first]...)
	at := l.names.blocks["sandbox"][cycle[0]].body.Attributes["extends"].Expr.Range()
	l.error(at, "sandboxes that extend each other", "sandbox."+strings.Join(append(cycle, cycle[0]), " → sandbox."))
}

// readSandbox reads a sandbox with all that it extends. ok is false for an
// abstract one, and for one whose base can't be had.
func (l *loader) readSandbox(b *block) (s specs.Sandbox, ok bool) {
	layers, whole := l.layers(b)
	x := l.body(b, nil)
	x.layers = layers
	abstract := l.isAbstract(b.label)
	s = specs.Sandbox{
		Range:       rangeOf(x.header),
		Name:        b.label,
		Command:     x.templates("command", `["/bin/bash", "-l"]`),
		Network:     x.ref("network", "network"),
		Namespaces:  parsedList(x, "namespaces", `["pid", "ipc"]`, oneOf("namespace", words(namespaceNames))),
		Environment: x.ref("environment", "environment"),
		Seccomp:     x.ref("seccomp", "seccomp"),
		OnChange:    x.enum("on_change", specs.OnChangeKeep, specs.OnChangeRestart),
		StopSignal:  parsed(x, "stop_signal", defaultSignal, parseSignal),
		Grace:       x.duration("grace", defaultGrace),
	}
	if s.Namespaces == nil {
		s.Namespaces = words(namespaceNames)
	}
	slices.Sort(s.Namespaces)
	if fs, ok := x.inner("filesystem"); ok {
		s.Filesystem = l.readFilesystem(fs, abstract)
	}
	if c, ok := x.inner("capabilities"); ok {
		s.Capabilities = set(parsedList(c, "keep", `["CAP_NET_BIND_SERVICE"]`, parseCapability))
	}
	if limits, ok := x.inner("limits"); ok {
		s.Limits = specs.Limits{
			Memory: limits.size("memory", 0),
			CPU:    limits.percent("cpu"),
			Pids:   limits.int("pids", 1, maxCount, 0),
		}
	}
	s.Agent = l.readAgent(x)
	l.locatable(x)
	return s, whole && !abstract
}

func (l *loader) readFilesystem(b body, abstract bool) specs.Filesystem {
	fs := specs.Filesystem{
		Programs: set(b.strings("programs", `["/bin/bash"]`)),
		Files:    set(b.strings("files", `["/etc/localtime"]`)),
	}
	_, tmpfs := b.labelled("tmpfs")
	for _, path := range slices.Sorted(maps.Keys(tmpfs)) {
		t := tmpfs[path]
		fs.Tmpfs = append(fs.Tmpfs, specs.Tmpfs{Range: rangeOf(t.header), Path: path, Size: t.size("size", defaultTmpfsSize)})
		l.locatable(t)
	}
	_, binds := b.labelled("bind")
	for _, to := range slices.Sorted(maps.Keys(binds)) {
		t := binds[to]
		bind := specs.Bind{Range: rangeOf(t.header), To: to, Writable: t.bool("writable")}
		if from := t.attribute("from"); from != nil {
			bind.From, _ = t.template(from.Expr, "from")
		} else if !abstract {
			l.error(t.header, fmt.Sprintf("%s lacks from", t.what), "Say what of the host is shown there: from = session.project.directory, or a path.")
		}
		fs.Binds = append(fs.Binds, bind)
		l.locatable(t)
	}
	return fs
}

// readAgent reads the agent block. A base's agent of another kind than the
// nearest one is left aside.
func (l *loader) readAgent(b body) *specs.Agent {
	labels, blocks := b.labelled("agent")
	if len(labels) == 0 {
		return nil
	}
	kind := labels[len(labels)-1]
	for _, layer := range slices.Backward(b.layers) {
		for _, in := range layer.Blocks {
			if in.Type == "agent" && len(in.Labels) == 1 {
				kind = in.Labels[0]
			}
		}
	}
	a := blocks[kind]
	l.locatable(a)
	if kinds := specs.AgentKinds(); !slices.Contains(kinds, kind) {
		l.error(a.header, fmt.Sprintf("unknown agent %q in %s", kind, b.what), didYouMean(kind, kinds))
	}
	return &specs.Agent{
		Range:      rangeOf(a.header),
		Kind:       kind,
		Proxy:      a.ref("proxy", "proxy"),
		Hide:       set(parsedList(a, "hide", `["ANTHROPIC_API_KEY"]`, parseEnvPattern)),
		Transcript: a.string("transcript"),
		Home:       a.enum("home", "session", "project"),
	}
}
