package specs

import (
	"fmt"
	"slices"
	"strings"
)

func (c *checker) sandboxes(s Set) {
	for _, x := range s.Sandboxes {
		c.nameLength(x.Range, "sandbox", x.Name)
		missing(c, s.Networks, x.Range, "network", "network", x.Network)
		missing(c, s.Environments, x.Range, "environment", "environment", x.Environment)
		missing(c, s.Seccomps, x.Range, "seccomp", "seccomp", x.Seccomp)
		if x.Command != nil && (len(x.Command) == 0 || x.Command[0] == "") {
			c.add(x.Range, "command", fmt.Sprintf("sandbox %q has an empty command", x.Name), "Name a program, or leave command out: then it must be given to cordon run.")
		}
		if !slices.Contains(x.Namespaces, "pid") {
			c.add(x.Range, "namespaces", fmt.Sprintf("sandbox %q has no pid namespace", x.Name), `Sessions need it to be killed as a whole: list "pid".`)
		}
		c.agent(s, x)
		c.filesystem(x)
	}
}

func (c *checker) agent(s Set, x Sandbox) {
	if x.Agent == nil {
		return
	}
	missing(c, s.Proxies, x.Agent.Range, "proxy", "proxy", x.Agent.Proxy)
	if t := x.Agent.Transcript; t != "" && !strings.HasPrefix(t, "~/") {
		c.path(x.Agent.Range, "transcript", t)
	}
	if len(x.Agent.Hide) > 0 && x.Agent.Kind != "claude-code" {
		c.add(x.Agent.Range, "hide", fmt.Sprintf("agent %q can't hide variables from what it runs", x.Agent.Kind), "Leave hide out.")
	}
	if filter := Find(s.Seccomps, x.Seccomp); filter != nil && len(x.Agent.Hide) > 0 {
		for _, call := range NestingCalls() {
			if slices.Contains(filter.Deny, call) {
				c.add(x.Agent.Range, "hide", fmt.Sprintf("seccomp %q denies %s, which the agent of sandbox %q hides variables with", filter.Name, call, x.Name),
					"It runs its shell in a sandbox of its own. Leave the call out of deny, or leave hide out.")
			}
		}
	}
	network := Find(s.Networks, x.Network)
	if x.Agent.Proxy != "" && network != nil && !slices.Contains(network.Allow, x.Agent.Proxy) {
		c.add(x.Agent.Range, "proxy", fmt.Sprintf("the agent of sandbox %q can't reach proxy %q", x.Name, x.Agent.Proxy),
			fmt.Sprintf("Network %q must allow it: allow = [proxy.%s].", network.Name, x.Agent.Proxy))
	}
}

// mount is a place inside where something of its own is shown.
type mount struct {
	at       Range
	kind     string
	target   string
	writable bool // and its content outlives the session
	attr     string
}

func (c *checker) filesystem(x Sandbox) {
	var mounts, fixed []mount
	for _, p := range x.Filesystem.Programs {
		if c.path(x.Range, "filesystem.programs", p) && c.program(x, p) {
			fixed = append(fixed, mount{at: x.Range, kind: "program", target: p, attr: "filesystem.programs"})
		}
	}
	for _, f := range x.Filesystem.Files {
		if c.path(x.Range, "filesystem.files", f) && c.reserved(x.Range, "filesystem.files", "file", f) {
			fixed = append(fixed, mount{at: x.Range, kind: "file", target: f, attr: "filesystem.files"})
		}
	}
	for _, t := range x.Filesystem.Tmpfs {
		if c.target(t.Range, "tmpfs", t.Path) {
			mounts = append(mounts, mount{at: t.Range, kind: "tmpfs", target: t.Path})
		}
	}
	for _, b := range x.Filesystem.Binds {
		c.from(b)
		if c.target(b.Range, "bind", b.To) {
			mounts = append(mounts, mount{at: b.Range, kind: "bind", target: b.To, writable: b.Writable})
		}
	}
	c.mounts(x, mounts)
	c.hidden(x, mounts, fixed)
}

// program tells whether p can be a program's file.
func (c *checker) program(x Sandbox, p string) bool {
	dir := kernelDir(p)
	if dir == "" && p != "/" {
		return true
	}
	detail := "The root of the host is a directory. Name the files of programs."
	if dir != "" {
		detail = fmt.Sprintf("A session has a %s of its own, where no programs are.", dir)
	}
	c.addElement(x.Range, "filesystem.programs", p, fmt.Sprintf("%q is no program, in sandbox %q", p, x.Name), detail)
	return false
}

// target tells whether p can be mounted on.
func (c *checker) target(at Range, kind, p string) bool {
	if detail := badPath(p); detail != "" {
		c.add(at, "", fmt.Sprintf("%s onto %q, which is not an absolute, clean path", kind, p), detail)
		return false
	}
	if p == "/" {
		c.add(at, "", fmt.Sprintf("%s onto the root", kind), "The root is made of what filesystem lists. Mount onto a directory, such as /work.")
		return false
	}
	first, rest, _ := strings.Cut(p[1:], "/")
	if slices.Contains([]string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}, first) {
		c.add(at, "", fmt.Sprintf("%s onto %q, which lies under a symbolic link", kind, p),
			fmt.Sprintf("/%s leads to /usr/%s. Write %q.", first, first, strings.TrimSuffix("/usr/"+first+"/"+rest, "/")))
		return false
	}
	return c.reserved(at, "", kind, p)
}

// reserved tells whether p is free of what the kernel's file systems hold.
func (c *checker) reserved(at Range, attr, kind, p string) bool {
	if p == "/" {
		c.addElement(at, attr, p, fmt.Sprintf("%s is the root of the host", kind), "That is all of the host. List what is needed.")
		return false
	}
	dir := kernelDir(p)
	if dir == "" {
		return true
	}
	c.addElement(at, attr, p, fmt.Sprintf("%s onto %q, which is reserved", kind, p), fmt.Sprintf("A session has a %s of its own.", dir))
	return false
}

// from holds a source to an absolute, clean path, whatever the session.
func (c *checker) from(b Bind) {
	if b.From == "" {
		return
	}
	values := map[string]string{}
	for _, n := range SessionNames() {
		values[n] = "x"
	}
	values["session.project.directory"] = "/x"
	p, err := b.From.Expand(values)
	if err != nil {
		c.add(b.Range, "from", "bad from in bind "+b.To, err.Error())
		return
	}
	switch detail := badPath(p); {
	case detail != "" && len(b.From.Names()) > 0:
		c.add(b.Range, "from", fmt.Sprintf("%q is not an absolute, clean path", string(b.From)), "Begin with / or ${session.project.directory}, without //, . and .. between.")
	case detail != "":
		c.add(b.Range, "from", fmt.Sprintf("%q is not an absolute, clean path", p), detail)
	case p == "/":
		c.add(b.Range, "from", fmt.Sprintf("bind %q shows the whole host", b.To), "Name the directory that is needed.")
	case kernelDir(p) != "":
		c.add(b.Range, "from", fmt.Sprintf("bind %q shows the host's %s", b.To, kernelDir(p)), "A session has one of its own.")
	}
}

// mounts holds binds and tmpfs to targets that nothing can have tampered with.
func (c *checker) mounts(x Sandbox, mounts []mount) {
	for i, m := range mounts {
		for _, other := range mounts[:i] {
			if other.target == m.target {
				later := m
				if other.at.File == m.at.File && other.at.Byte > m.at.Byte {
					later = other
				}
				c.add(later.at, "", fmt.Sprintf("two mounts on %q in sandbox %q", m.target, x.Name), "A bind and a tmpfs can't share a target: leave one of them out, or choose another target.")
			}
		}
		for _, other := range mounts {
			if other.writable && below(m.target, other.target) {
				c.add(m.at, "", fmt.Sprintf("%s onto %q, beneath the writable bind %q", m.kind, m.target, other.target),
					"A session could leave a symbolic link there, and the next one's mount would follow it (CVE-2026-87766). Choose a target outside.")
			}
		}
	}
}

// hidden reports programs and files that a mount would cover.
func (c *checker) hidden(x Sandbox, mounts, fixed []mount) {
	for _, f := range fixed {
		for _, m := range mounts {
			if within(f.target, m.target) {
				c.addElement(f.at, f.attr, f.target, fmt.Sprintf("%s %q is covered by %s %q in sandbox %q", f.kind, f.target, m.kind, m.target, x.Name),
					"It would not be seen. Leave it out, or mount elsewhere.")
				break
			}
			if below(m.target, f.target) {
				c.add(m.at, "", fmt.Sprintf("%s onto %q, inside of %s %q", m.kind, m.target, f.kind, f.target),
					"What is listed there is shown as it is on the host. List the files one by one, or mount elsewhere.")
			}
		}
	}
}
