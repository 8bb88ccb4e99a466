package root

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/internal/agent"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Name is the first part of the enforcer's addresses.
const Name = "root"

// Options is what an [Enforcer] needs.
type Options struct {
	Dir rundir.Dir
	Log *slog.Logger // nil: nothing is logged
}

// Enforcer keeps the mount trees. It implements [reconciler.Enforcer],
// [reconciler.PartReader] and [reconciler.Examiner].
type Enforcer struct {
	dir rundir.Dir
	log *slog.Logger
}

// New returns an Enforcer.
func New(o Options) *Enforcer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Enforcer{dir: o.Dir, log: o.Log}
}

// Resource is the tree of one sandbox: what was declared of it, and what of
// that does not hold. The rest (which libraries, which inodes) is the host's
// and stands in no plan, so that a plan can be made without the host.
type Resource struct {
	Sandbox  string   `json:"-"`
	Programs []string `json:"programs,omitempty"` // absolute paths, sorted
	Files    []string `json:"files,omitempty"`    // absolute paths, sorted
	Points   []Point  `json:"points,omitempty"`   // sorted by path
	Drift    []string `json:"drift,omitempty"`    // sorted; empty in what is desired
}

// Point is a path that a session mounts something on.
type Point struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"` // literal source on the host; "" : a tmpfs, or known only at start
	File bool   `json:"file,omitempty"` // a file, whatever From is
}

// Addr implements [reconciler.Resource].
func (r Resource) Addr() reconciler.Addr { return reconciler.NewAddr(Name, r.Sandbox) }

// Needs implements [reconciler.Resource].
func (r Resource) Needs() []reconciler.Addr { return nil }

// Directories are in every tree, for sessions to mount on.
func Directories() []string {
	return []string{"/dev", "/etc", "/home", "/proc", "/run", "/tmp", "/var/tmp"}
}

// Placeholders are files in every tree, for sessions to bind their own onto.
func Placeholders() []string {
	return []string{"/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/etc/resolv.conf"}
}

// covered are the paths that every session mounts its own on: what the tree
// holds below them is never seen.
func (r Resource) covered() []string {
	list := []string{"/dev", "/home", "/proc", "/tmp"}
	for _, p := range r.Points {
		list = append(list, p.Path)
	}
	return list
}

// Desired implements [reconciler.Enforcer]: one tree for each sandbox.
func (e *Enforcer) Desired(set specs.Set) ([]reconciler.Resource, error) {
	out := make([]reconciler.Resource, 0, len(set.Sandboxes))
	for _, s := range set.Sandboxes {
		r, err := desired(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Addr(), err)
		}
		out = append(out, r)
	}
	return out, nil
}

func desired(s specs.Sandbox) (Resource, error) {
	r := Resource{Sandbox: s.Name, Programs: sorted(s.Filesystem.Programs), Files: sorted(s.Filesystem.Files)}
	for _, t := range s.Filesystem.Tmpfs {
		r.Points = append(r.Points, Point{Path: t.Path})
	}
	for _, b := range s.Filesystem.Binds {
		p := Point{Path: b.To}
		if len(b.From.Names()) == 0 {
			from, err := b.From.Expand(nil)
			if err != nil {
				return r, err
			}
			p.From = from
		}
		r.Points = append(r.Points, p)
	}
	if kind, ok := agent.Of(s); ok {
		r.Programs = sorted(append(r.Programs, kind.Programs(*s.Agent)...))
		for _, path := range kind.Points() {
			r.Points = append(r.Points, Point{Path: path, File: true})
		}
	}
	slices.SortFunc(r.Points, func(a, b Point) int { return strings.Compare(a.Path, b.Path) })
	return r, nil
}

func sorted(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// Locate implements [reconciler.Locator]: the sandbox that the tree is of.
func (e *Enforcer) Locate(set specs.Set, addr reconciler.Addr) specs.Range {
	for _, s := range set.Sandboxes {
		if (Resource{Sandbox: s.Name}).Addr() == addr {
			return s.Range
		}
	}
	return specs.Range{}
}
