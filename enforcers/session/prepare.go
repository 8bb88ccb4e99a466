package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/internal/bwrap"
	"github.com/aicodesit/cordon/specs"
)

// ownTmpfs bounds /tmp, the home and /dev/shm where nothing else is declared, in
// bytes.
const ownTmpfs = 64 << 20

// plan is a session that was found startable.
type plan struct {
	set     specs.Set
	sandbox specs.Sandbox
	project *specs.Project // nil: outside any project
	who     account
	command []string
	values  map[string]string // of session.…
	env     []string
	mounts  []bwrap.Mount
	dir     string // working directory
	home    *home  // nil: not kept
}

// prepare checks the request against the set, which it does not change. id is
// the session's. The caller closes the plan.
func (r *Runner) prepare(ctx context.Context, set specs.Set, q Request, id string) (*plan, error) {
	sandbox := specs.Find(set.Sandboxes, q.Sandbox)
	if sandbox == nil {
		return nil, specs.Undeclared("sandbox", q.Sandbox, set.Sandboxes)
	}
	p := &plan{set: set, sandbox: *sandbox}
	if q.Project != "" {
		p.project = specs.Find(set.Projects, q.Project)
		if p.project == nil {
			return nil, specs.Undeclared("project", q.Project, set.Projects)
		}
		if !slices.Contains(p.project.Sandboxes, q.Sandbox) {
			return nil, specs.Unknown(fmt.Sprintf("project %q has no sandbox %q", q.Project, q.Sandbox), q.Sandbox, p.project.Sandboxes)
		}
	} else if needsProject(set, *sandbox) {
		return nil, needProject(set, q.Sandbox)
	}
	var err error
	if p.who, err = whose(ctx, p.project); err != nil {
		return nil, err
	}
	p.values = p.sessionValues(id)
	if p.command, err = p.commandOf(q); err != nil {
		return nil, err
	}
	if p.env, err = environ(specs.Find(set.Environments, sandbox.Environment), r.Environ, p.strips(), p.values, p.who); err != nil {
		return nil, err
	}
	if err := r.layMounts(p); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *plan) sessionValues(id string) map[string]string {
	v := map[string]string{"session.id": id, "session.sandbox": p.sandbox.Name}
	if p.project != nil {
		v["session.project.name"] = p.project.Name
		v["session.project.directory"] = p.project.Directory
		v["session.project.user"] = p.who.name
	}
	return v
}

// needsProject tells whether something of the sandbox names the project.
func needsProject(set specs.Set, s specs.Sandbox) bool {
	list := slices.Clone(s.Command)
	for _, b := range s.Filesystem.Binds {
		list = append(list, b.From)
	}
	if env := specs.Find(set.Environments, s.Environment); env != nil {
		for _, t := range env.Set {
			list = append(list, t)
		}
	}
	return slices.ContainsFunc(list, func(t specs.Template) bool {
		return slices.ContainsFunc(t.Names(), func(n string) bool { return strings.HasPrefix(n, "session.project.") })
	})
}

func needProject(set specs.Set, sandbox string) error {
	var names []string
	for _, p := range set.Projects {
		if slices.Contains(p.Sandboxes, sandbox) {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("sandbox %q is about a project, and no project has it among its sandboxes", sandbox)
	}
	return fmt.Errorf("sandbox %q is about a project: say which with --project: %s", sandbox, strings.Join(names, ", "))
}

func (p *plan) commandOf(q Request) ([]string, error) {
	if len(q.Command) > 0 {
		return q.Command, nil
	}
	if len(p.sandbox.Command) == 0 {
		return nil, fmt.Errorf("sandbox %q has no command: say one behind --", q.Sandbox)
	}
	var out []string
	for _, t := range p.sandbox.Command {
		arg, err := t.Expand(p.values)
		if err != nil {
			return nil, err
		}
		out = append(out, arg)
	}
	return out, nil
}

// layMounts lists what goes on top of the tree.
func (r *Runner) layMounts(p *plan) error {
	p.add(bwrap.Mount{To: "/home", Size: ownTmpfs, Mode: 0o755, Sealed: true})
	p.add(bwrap.Mount{To: "/tmp", Size: ownTmpfs, Mode: 0o1777})
	p.add(bwrap.Mount{To: "/dev/shm", Size: ownTmpfs, Mode: 0o1777})
	p.add(bwrap.Mount{To: "/etc/passwd", Content: p.who.passwd(), Mode: 0o444})
	p.add(bwrap.Mount{To: "/etc/group", Content: p.who.group(), Mode: 0o444})
	p.add(bwrap.Mount{To: "/etc/hosts", Content: p.hosts(specs.NoSlot), Mode: 0o444})
	if n := specs.Find(p.set.Networks, p.sandbox.Network); n != nil && n.Egress == specs.EgressInternet {
		if b, err := os.ReadFile("/etc/resolv.conf"); err == nil {
			p.add(bwrap.Mount{To: "/etc/resolv.conf", Content: append(b, '\n'), Mode: 0o444})
		}
	}
	for _, t := range p.sandbox.Filesystem.Tmpfs {
		mode := uint32(0o755)
		if t.Path == "/tmp" || t.Path == "/var/tmp" || t.Path == "/dev/shm" {
			mode = 0o1777
		}
		p.add(bwrap.Mount{To: t.Path, Size: t.Size, Mode: mode})
	}
	for _, b := range p.sandbox.Filesystem.Binds {
		if err := p.bind(b); err != nil {
			return err
		}
	}
	if err := p.checkAgent(); err != nil {
		return err
	}
	if err := r.keptHome(p); err != nil {
		return err
	}
	if p.at(p.who.home()) < 0 {
		p.add(bwrap.Mount{To: p.who.home(), Size: ownTmpfs, Mode: 0o700})
	}
	p.dir = p.who.home()
	if i := p.at("/work"); i >= 0 && p.mounts[i].Source != nil && p.mounts[i].Source.IsDir() {
		p.dir = "/work"
	}
	return nil
}

func (p *plan) bind(b specs.Bind) error {
	from, err := b.From.Expand(p.values)
	if err != nil {
		return err
	}
	if !path.IsAbs(from) || path.Clean(from) != from {
		return fmt.Errorf("bind %s: %q is no clean absolute path", b.To, from)
	}
	source, err := bwrap.Pin(from)
	if err != nil {
		return fmt.Errorf("bind %s: %w", b.To, notThere(p.project, from, err))
	}
	p.add(bwrap.Mount{To: b.To, Source: source, Writable: b.Writable})
	return nil
}

// add puts a mount in; what is declared takes the place of what cordon gives.
func (p *plan) add(m bwrap.Mount) {
	if i := p.at(m.To); i >= 0 {
		p.mounts[i] = m
		return
	}
	p.mounts = append(p.mounts, m)
}

// logged tells whether the kernel is to log the calls that the filter refuses.
func (p *plan) logged() bool {
	filter := specs.Find(p.set.Seccomps, p.sandbox.Seccomp)
	return filter != nil && filter.Log
}

func (p *plan) at(to string) int {
	return slices.IndexFunc(p.mounts, func(m bwrap.Mount) bool { return m.To == to })
}

// hosts is the session's /etc/hosts: itself, and the host's end of its slot.
func (p *plan) hosts(slot int) []byte {
	s := "127.0.0.1 localhost " + p.sandbox.Name + "\n::1 localhost\n"
	if n := specs.Find(p.set.Networks, p.sandbox.Network); n != nil && slot >= 0 {
		host, _ := n.SlotAddrs(slot)
		s += host.Addr().String() + " " + proxyName + "\n"
	}
	return []byte(s)
}

func (p *plan) close() {
	failed := []error{p.home.close()}
	for _, m := range p.mounts {
		if m.Source != nil {
			failed = append(failed, m.Source.Close())
		}
	}
	_ = errors.Join(failed...) // descriptors of ours, opened for looking only
	p.mounts, p.home = nil, nil
}
