package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The controllers that bound a session.
const (
	memory = "memory"
	cpu    = "cpu"
	pids   = "pids"
)

// hierarchy is a mounted tree of control groups.
type hierarchy struct {
	path        string // where it is mounted
	v2          bool
	controllers []string // those of memory, cpu, pids that it has; sorted
}

func (h hierarchy) has(controller string) bool { return slices.Contains(h.controllers, controller) }

func (h hierarchy) String() string {
	if h.v2 {
		return "cgroup v2 at " + h.path
	}
	return "cgroup v1 at " + h.path
}

// Values of a limit that are no number of bytes, microseconds or tasks.
const (
	unlimited = -1
	absent    = -2 // this hierarchy has no such controller, or no swap accounting
)

// limits are the bounds of one group as one hierarchy has them.
type limits struct {
	memory int64 // bytes
	swap   int64 // bytes beyond memory
	quota  int64 // µs of CPU in each period
	period int64 // µs
	pids   int64
}

// kernel is what the enforcer needs of the host. A group is a name below the
// hierarchy's mount: "cordon/0123abcd".
type kernel interface {
	// hierarchies are all that are mounted, v1 ones without a controller of
	// ours left out.
	hierarchies() ([]hierarchy, error)
	// groups are the names below parent; none when there is no parent.
	groups(h hierarchy, parent string) ([]string, error)
	// empty tells whether parent is there and has neither groups nor processes;
	// discard removes it then, and does nothing else.
	empty(h hierarchy, parent string) (bool, error)
	discard(h hierarchy, parent string) error
	// limits are the bounds of those groups below parent that exist.
	limits(h hierarchy, parent string, ids []string) (map[string]limits, error)
	// create makes the group and its parents and gives them h's controllers.
	create(h hierarchy, group string) error
	// set changes those bounds that are not absent.
	set(h hierarchy, group string, l limits) error
	// remove ends every process in the group in any of the hierarchies, then
	// removes it, and its parent when that is empty. The wait ends with ctx.
	remove(ctx context.Context, hs []hierarchy, group string) error
}

// linux is the kernel that runs. Where the hierarchies are is found once: a
// host with many sandboxes has a long list of mounts.
type linux struct {
	mu    sync.Mutex
	found []hierarchy
}

func (l *linux) hierarchies() ([]hierarchy, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.found) > 0 {
		return l.found, nil
	}
	found, err := mounted()
	l.found = found
	return found, err
}

func mounted() ([]hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseMounts(f, func(path string) ([]string, error) {
		have, err := os.ReadFile(filepath.Join(path, "cgroup.controllers"))
		return strings.Fields(string(have)), err
	})
}

// parseMounts finds the hierarchies in mountinfo (proc_pid_mountinfo(5));
// controllers tells which a v2 hierarchy has. A hierarchy that is mounted
// twice is taken where it was mounted first, for a later mount may show a part
// of it only. It reads no further than it must: they are mounted at boot, and
// the kernel writes the list as it is read.
func parseMounts(mountinfo io.Reader, controllers func(path string) ([]string, error)) ([]hierarchy, error) {
	var out []hierarchy
	seen := map[string]bool{}
	lines := bufio.NewScanner(mountinfo)
	lines.Buffer(nil, 1<<20)
	for !complete(seen) && lines.Scan() {
		mount, super, ok := strings.Cut(lines.Text(), " - ")
		m, s := strings.Fields(mount), strings.Fields(super)
		if !ok || len(m) < 6 || len(s) < 3 {
			return nil, fmt.Errorf("mountinfo: cannot read the line %q", lines.Text())
		}
		h := hierarchy{path: unescape(m[4]), v2: s[0] == "cgroup2"}
		if s[0] == "cgroup" {
			h.controllers = ours(strings.Split(s[2], ","))
		}
		key := strings.Join(h.controllers, ",")
		if (!h.v2 && len(h.controllers) == 0) || seen[key] {
			continue
		}
		seen[key] = true
		if h.v2 {
			have, err := controllers(h.path)
			if err != nil {
				return nil, err
			}
			h.controllers = ours(have)
		}
		for _, c := range h.controllers {
			seen[c] = true
		}
		out = append(out, h)
	}
	return out, lines.Err()
}

// complete tells whether every controller was seen, and v2, which is "".
func complete(seen map[string]bool) bool {
	return seen[""] && seen[cpu] && seen[memory] && seen[pids]
}

func ours(names []string) []string {
	var out []string
	for _, c := range []string{cpu, memory, pids} {
		if slices.Contains(names, c) {
			out = append(out, c)
		}
	}
	return out
}

// unescape undoes what mountinfo does to spaces and the like.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

func (*linux) groups(h hierarchy, parent string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(h.path, parent))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

func (l *linux) empty(h hierarchy, parent string) (bool, error) {
	procs, err := os.ReadFile(filepath.Join(h.path, parent, "cgroup.procs"))
	if gone(err) {
		return false, nil
	}
	if err != nil || len(procs) > 0 {
		return false, err
	}
	below, err := l.groups(h, parent)
	return len(below) == 0, err
}

// discard leaves a group that a session has come to meanwhile: the kernel removes
// empty ones only.
func (*linux) discard(h hierarchy, parent string) error {
	err := os.Remove(filepath.Join(h.path, parent))
	if gone(err) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}

// createTries bounds how often another process may remove the empty parent
// between our making it and our making the group in it.
const createTries = 100

func (*linux) create(h hierarchy, group string) error {
	dir := filepath.Join(h.path, group)
	parent := filepath.Dir(dir)
	for try := 1; ; try++ {
		err := os.Mkdir(parent, 0o755)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if h.v2 {
			if err := delegate(h, parent); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		err = os.Mkdir(dir, 0o755)
		if err == nil || errors.Is(err, os.ErrExist) {
			return nil
		}
		if !errors.Is(err, os.ErrNotExist) || try == createTries {
			return err
		}
	}
}

// delegate gives parent, and the groups below it, the controllers of h.
func delegate(h hierarchy, parent string) error {
	if len(h.controllers) == 0 {
		return nil
	}
	for _, dir := range []string{h.path, parent} {
		file := filepath.Join(dir, "cgroup.subtree_control")
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		on := strings.Fields(string(b))
		var more []string
		for _, c := range h.controllers {
			if !slices.Contains(on, c) {
				more = append(more, "+"+c)
			}
		}
		if len(more) == 0 {
			continue
		}
		err = os.WriteFile(file, []byte(strings.Join(more, " ")), 0)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%s: processes are in this group itself, so it can't pass %s on: move them to a group below, or run cordon in a unit with Delegate=yes: %w", dir, strings.Join(more, " "), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
