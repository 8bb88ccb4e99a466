package reconciler

import (
	"fmt"
	"slices"

	"github.com/aicodesit/cordon/specs"
)

// power is something that a block lets those do whom it is about.
type power struct {
	text string
	wide bool // told even of a block that is new
}

// ChangeNotes tell in words who may do more, or less, by changes of blocks,
// where that is enforced only when a session starts: no enforcer has a
// resource for it that it could tell of.
func (declared) ChangeNotes(changes []Change) []Note {
	var out []Note
	for _, c := range changes {
		before, was := c.Before.(block)
		after, is := c.After.(block)
		if !is {
			continue // nobody has it any more, whatever it was
		}
		who, has := powers(after)
		_, had := powers(before)
		say := func(verb string, list, other []power, new bool) {
			for _, p := range list {
				if !slices.ContainsFunc(other, func(q power) bool { return q.text == p.text }) && (!new || p.wide) {
					out = append(out, Note{Addr: c.Addr(), Text: fmt.Sprintf("%s %s %s", who, verb, p.text)})
				}
			}
		}
		say("gain", has, had, !was)
		say("lose", had, has, false)
	}
	return out
}

// powers of the zero block are none.
func powers(b block) (who string, list []power) {
	add := func(wide bool, format string, args ...any) {
		list = append(list, power{fmt.Sprintf(format, args...), wide})
	}
	switch v := b.value.(type) {
	case specs.Sandbox:
		who = "sessions of " + v.Name
		for _, c := range v.Capabilities {
			add(true, "the capability %s", c)
		}
		for _, x := range v.Filesystem.Binds {
			if x.Writable {
				add(true, "write access to %s", x.From)
			} else {
				add(false, "read access to %s", x.From)
			}
		}
		for _, f := range slices.Concat(v.Filesystem.Programs, v.Filesystem.Files) {
			add(false, "read access to %s", f)
		}
		if v.Network != "" {
			add(false, "the network %s", v.Network)
		}
		if v.Environment != "" {
			add(false, "the environment %s", v.Environment)
		}
	case specs.Network:
		who = "sessions in the network " + v.Name
		if v.Egress == specs.EgressInternet {
			add(true, "the internet")
		}
		for _, p := range v.Allow {
			add(false, "the proxy %s", p)
		}
	case specs.Seccomp:
		who = "sessions under the filter " + v.Name
		for _, c := range v.Allow {
			add(true, "the system call %s", c)
		}
	case specs.Environment:
		who = "sessions with the environment " + v.Name
		for _, n := range v.Allow {
			add(true, "the caller's variable %s", n)
		}
	case specs.Project:
		who = "those of the project " + v.Name
		for _, s := range v.Sandboxes {
			add(false, "the sandbox %s", s)
		}
		for _, o := range v.Operators {
			add(false, "%s among those who start sessions", o)
		}
		if v.Git != nil {
			for _, p := range v.Git.Push {
				add(true, "pushing to %s", p)
			}
		}
	}
	return who, list
}
