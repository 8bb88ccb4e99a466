package broker

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// accounts is the user database.
type accounts interface {
	// user and group return the id of a name.
	user(name string) (uid uint32, err error)
	group(name string) (gid uint32, err error)
	// of returns a user's name and all groups, the primary one too.
	of(uid uint32) (name string, gids []uint32, err error)
	// answers returns an error when that something is unknown tells nothing.
	answers() error
}

// system is the host's.
type system struct{}

func (system) user(name string) (uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return parseID(u.Uid)
}

func (system) group(name string) (uint32, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return parseID(g.Gid)
}

func (system) of(uid uint32) (string, []uint32, error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return "", nil, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return "", nil, err
	}
	var gids []uint32
	for _, id := range ids {
		gid, err := parseID(id)
		if err != nil {
			return "", nil, err
		}
		gids = append(gids, gid)
	}
	return u.Username, gids, nil
}

// answers looks into the files, of which each host has both: without them nobody
// is known and no group has members. The lookups can't tell that: some make up
// what root is.
func (system) answers() error { return errors.Join(knowsRoot("/etc/passwd"), knowsRoot("/etc/group")) }

// knowsRoot returns an error unless a passwd or group file has an id 0.
func knowsRoot(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.SplitN(line, ":", 4); len(f) == 4 && f[2] == "0" {
			return nil
		}
	}
	return fmt.Errorf("%s: it does not know root", file)
}

func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// Caller is who asks.
type Caller struct {
	UID      uint32
	Name     string   // in the user database; else the UID
	Root     bool     // may all
	Projects []string // that it is an operator of; nil for Root
}

// By is the caller in an event.
func (c Caller) By() string { return "user:" + c.Name }

// operates tells whether the caller may deal with the project's sessions; ""
// is no project.
func (c Caller) operates(project string) bool {
	return c.Root || project != "" && slices.Contains(c.Projects, project)
}

// census tells operators by one reading of the user database: thousands of
// projects name the same few, and anybody may ask.
type census struct {
	accounts
	users, groups map[string]found
	peer          peer
	name          string
	gids          []uint32
}

// found is what the user database answered.
type found struct {
	id  uint32
	err error
}

// once looks a name up unless that was done.
func once(before map[string]found, name string, look func(string) (uint32, error)) (uint32, error) {
	f, ok := before[name]
	if !ok {
		f.id, f.err = look(name)
		before[name] = f
	}
	return f.id, f.err
}

// take looks the peer up. One that the database does not know is in no group.
func take(a accounts, p peer) (*census, error) {
	c := &census{accounts: a, peer: p, users: map[string]found{}, groups: map[string]found{}}
	var err error
	c.name, c.gids, err = a.of(p.uid)
	if unknown(err) {
		c.name, c.gids, err = strconv.FormatUint(uint64(p.uid), 10), nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the user database: %w", err)
	}
	return c, nil
}

// caller is the peer with all projects that it is an operator of.
func (c *census) caller(set specs.Set, root bool) (Caller, error) {
	out := Caller{UID: c.peer.uid, Name: c.name, Root: root}
	if root {
		return out, nil
	}
	for _, p := range set.Projects {
		ok, _, err := c.operator(p)
		if err != nil {
			return Caller{}, err
		}
		if ok {
			out.Projects = append(out.Projects, p.Name)
		}
	}
	return out, nil
}

// operator tells whether the peer is one of the project's operators. lost is a
// group that would make it one if its process had it.
func (c *census) operator(p specs.Project) (ok bool, lost string, err error) {
	for _, o := range p.Operators {
		kind, name, _ := strings.Cut(o, ":")
		switch kind {
		case "user":
			var uid uint32
			if uid, err = once(c.users, name, c.user); err == nil && uid == c.peer.uid {
				return true, "", nil
			}
		case "group":
			var gid uint32
			if gid, err = once(c.groups, name, c.group); err != nil || !slices.Contains(c.gids, gid) {
				break
			}
			if c.peer.has(gid) {
				return true, "", nil
			}
			lost = name
		}
		if err != nil && !unknown(err) {
			return false, "", fmt.Errorf("operator %s: the user database: %w", o, err)
		}
	}
	return false, lost, nil
}

// mayRun returns a *RefusedError unless the peer may start the sandbox in the
// project.
func (c *census) mayRun(set specs.Set, q runRequest, root bool) error {
	if root {
		return nil // what is wrong with it, the runner says
	}
	if q.Project == "" {
		return refuse("sessions outside of any project are root's to start: say which project with --project")
	}
	p := specs.Find(set.Projects, q.Project)
	if p == nil {
		return refuse("project %s is not declared", quoted(q.Project))
	}
	ok, lost, err := c.operator(*p)
	switch {
	case err != nil:
		return err
	case !ok && lost != "":
		return refuse("user %s is in group %s, but this process is not: log in again", c.name, lost)
	case !ok && len(p.Operators) == 0:
		return refuse("user %s is not an operator of project %s, which has none: only root starts its sessions", c.name, p.Name)
	case !ok:
		return refuse("user %s is not an operator of project %s; its operators are %s", c.name, p.Name, strings.Join(p.Operators, ", "))
	case !slices.Contains(p.Sandboxes, q.Sandbox):
		return refuse("project %s has no sandbox %s; it has %s", p.Name, quoted(q.Sandbox), orNone(p.Sandboxes))
	}
	return nil
}

func refuse(format string, args ...any) *RefusedError {
	return &RefusedError{Why: fmt.Sprintf(format, args...)}
}

// quoted is a client's text, in no way longer or other than a line can hold.
func quoted(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.QuoteToASCII(s)
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func unknown(err error) bool {
	return errors.As(err, new(user.UnknownUserError)) || errors.As(err, new(user.UnknownUserIdError)) ||
		errors.As(err, new(user.UnknownGroupError)) || errors.As(err, new(user.UnknownGroupIdError))
}
