package cgroup

import (
	"errors"
	"os"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Name is the first part of the addresses of this package's resources.
const Name = "cgroup"

// DefaultParent is the group that sessions' groups are in.
const DefaultParent = "cordon"

// Options say where an Enforcer works.
type Options struct {
	Parent string // name of the parent group; "" is DefaultParent
}

// Enforcer keeps one group for each session that runs.
type Enforcer struct {
	kernel kernel
	parent string
}

// New returns the Enforcer for the hierarchies that are mounted on this host.
func New(o Options) *Enforcer {
	return newEnforcer(o, &linux{})
}

func newEnforcer(o Options, k kernel) *Enforcer {
	if o.Parent == "" {
		o.Parent = DefaultParent
	}
	return &Enforcer{kernel: k, parent: o.Parent}
}

// Group is a session's control group. A bound of 0 is none.
type Group struct {
	ID     string   `json:"-"`
	Memory int64    `json:"memory"` // bytes in whole pages, swap included
	CPU    int64    `json:"cpu"`    // percent of one core
	Pids   int64    `json:"pids"`   // tasks
	Drift  []string `json:"drift,omitempty"`
}

// Addr implements reconciler.Resource.
func (g Group) Addr() reconciler.Addr { return Addr(g.ID) }

// Needs implements reconciler.Resource.
func (g Group) Needs() []reconciler.Addr { return nil }

// Ephemeral implements reconciler.Ephemeral.
func (g Group) Ephemeral() bool { return true }

// Parent is the group that sessions' groups are in, where it is empty: who was
// killed before a session's group was made in it, or after that was removed, has
// left it. It is never desired.
type Parent struct {
	Hierarchies []string `json:"hierarchies"`
}

// parentAddr can't be a session's: those are hexadecimal digits.
var parentAddr = reconciler.NewAddr(Name, "parent")

// Addr implements reconciler.Resource.
func (Parent) Addr() reconciler.Addr { return parentAddr }

// Needs implements reconciler.Resource.
func (Parent) Needs() []reconciler.Addr { return nil }

// Ephemeral implements reconciler.Ephemeral.
func (Parent) Ephemeral() bool { return true }

// Addr is the address of a session's group.
func Addr(id string) reconciler.Addr { return reconciler.NewAddr(Name, id) }

// idOf is the inverse of [Addr].
func idOf(a reconciler.Addr) (id string, ok bool) {
	parts := a.Parts()
	if len(parts) != 2 || parts[0] != Name {
		return "", false
	}
	return parts[1], specs.ValidSessionID(parts[1])
}

// Desired is one group for each lease. A lease whose sandbox is not declared
// any more has none: the session is ended.
func (e *Enforcer) Desired(set specs.Set) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	for _, l := range set.Leases {
		if !specs.ValidSessionID(l.ID) {
			return nil, errors.New("cgroup: lease " + l.ID + ": the id must be 8 lower-case hexadecimal digits")
		}
		if specs.Find(set.Sandboxes, l.Sandbox) == nil {
			continue
		}
		out = append(out, Group{ID: l.ID, Memory: wholePages(l.Limits.Memory), CPU: int64(l.Limits.CPU), Pids: int64(l.Limits.Pids)})
	}
	return out, nil
}

// wholePages is what the kernel makes of a memory limit: it counts pages and
// drops the rest. A bound below one page stays a bound.
func wholePages(bytes int64) int64 {
	page := int64(os.Getpagesize())
	if bytes > 0 && bytes < page {
		return page
	}
	return bytes / page * page
}
