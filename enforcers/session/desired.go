package session

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"syscall"

	"github.com/aicodesit/cordon/internal/agent"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Name is the first part of the addresses of sessions.
const Name = "session"

// Groups are the control groups of sessions, by id.
type Groups interface {
	// Enter prepares that the next process that the calling, locked thread
	// starts with attr begins its life in the session's group. leave must be
	// called on the same thread right after the start.
	Enter(id string, attr *syscall.SysProcAttr) (leave func() error, err error)
	// Kill ends all processes of the session and waits until they are gone or
	// ctx ends.
	Kill(ctx context.Context, id string) error
	// OOMKilled tells whether the session reached its memory limit so that the
	// kernel killed one of its processes.
	OOMKilled(id string) (bool, error)
}

// Options is what an [Enforcer] works with.
type Options struct {
	RunDir rundir.Dir
	Log    *slog.Logger // nil: nothing is logged
	// Scrub takes the traces of a session that ended badly out of its
	// transcripts; nil leaves them.
	Scrub func(context.Context, Transcript) error
}

// Enforcer keeps the sessions' records. It implements [reconciler.Enforcer],
// [reconciler.Surveyor], [reconciler.PartReader], [reconciler.Noter] and
// [reconciler.Examiner].
type Enforcer struct {
	kernel kernel
	log    *slog.Logger
	scrub  func(context.Context, Transcript) error

	surveyed map[string]bool // the leases that Survey found last; nil before
	listed   []entry         // what Survey found last, for one Read
}

// New returns an Enforcer on this host.
func New(o Options) *Enforcer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Enforcer{kernel: linux{dir: o.RunDir}, log: o.Log, scrub: o.Scrub}
}

// Session is one session.
type Session struct {
	ID      string `json:"-"`
	Sandbox string `json:"sandbox"`
	Project string `json:"project,omitempty"`
	User    string `json:"user"`
	Network string `json:"network,omitempty"`
	Slot    int    `json:"slot"`
	Digest  string `json:"digest"` // of the profile that it runs under

	seccomp string
}

// Addr implements [reconciler.Resource].
func (s Session) Addr() reconciler.Addr { return Addr(s.ID) }

// Addr is the address of a session.
func Addr(id string) reconciler.Addr { return reconciler.NewAddr(Name, id) }

// idOf is the inverse of [Addr].
func idOf(a reconciler.Addr) (id string, ok bool) {
	parts := a.Parts()
	if len(parts) != 2 || parts[0] != Name {
		return "", false
	}
	return parts[1], specs.ValidSessionID(parts[1])
}

// Needs implements [reconciler.Resource].
func (s Session) Needs() []reconciler.Addr {
	needs := []reconciler.Addr{
		reconciler.NewAddr("root", s.Sandbox),
		reconciler.NewAddr("seccomp", cmp.Or(s.seccomp, specs.BaseFilter)),
		reconciler.NewAddr("cgroup", s.ID),
	}
	if s.Slot >= 0 && s.Network != "" {
		needs = append(needs, memberAddr(s.Network, s.Slot))
	}
	return needs
}

func memberAddr(network string, slot int) reconciler.Addr {
	return reconciler.NewAddr("network", "member", network, strconv.Itoa(slot))
}

// Ephemeral implements [reconciler.Ephemeral].
func (s Session) Ephemeral() bool { return true }

// Unfinished is what is left of sessions whose process was killed before it had
// made their directory. It is never desired.
type Unfinished struct {
	Directories []string `json:"directories"` // names in the directory of sessions, sorted
}

// Addr implements [reconciler.Resource].
func (Unfinished) Addr() reconciler.Addr { return reconciler.NewAddr(Name, "unfinished") }

// Needs implements [reconciler.Resource].
func (Unfinished) Needs() []reconciler.Addr { return nil }

// Ephemeral implements [reconciler.Ephemeral].
func (Unfinished) Ephemeral() bool { return true }

// Desired implements [reconciler.Enforcer]: the sessions that hold a lease of
// a declared sandbox. One whose profile changed is as it was, or to be started
// again, as its sandbox says.
func (e *Enforcer) Desired(set specs.Set) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	digest := set.SandboxDigests()
	for _, l := range set.Leases {
		if !specs.ValidSessionID(l.ID) {
			return nil, fmt.Errorf("session: lease %q: the id must be 8 lower-case hexadecimal digits", l.ID)
		}
		sandbox := specs.Find(set.Sandboxes, l.Sandbox)
		if sandbox == nil {
			continue
		}
		s := fromRecord(record{Lease: l, Seccomp: agent.Filter(*sandbox)})
		if sandbox.OnChange == specs.OnChangeRestart {
			s.Digest = digest(l.Sandbox)
		}
		out = append(out, s)
	}
	return out, nil
}

func fromRecord(r record) Session {
	return Session{
		ID: r.ID, Sandbox: r.Sandbox, Project: r.Project, User: r.User,
		Network: r.Network, Slot: r.Slot, Digest: r.Digest, seccomp: r.Seccomp,
	}
}

// Notes implements [reconciler.Noter].
func (e *Enforcer) Notes(set specs.Set) []reconciler.Note {
	var out []reconciler.Note
	digest := set.SandboxDigests()
	for _, l := range set.Leases {
		s := specs.Find(set.Sandboxes, l.Sandbox)
		if s != nil && s.OnChange != specs.OnChangeRestart && digest(l.Sandbox) != l.Digest {
			out = append(out, reconciler.Note{Addr: Addr(l.ID), Text: "stale: runs under an older profile of " + l.Sandbox + ", kept"})
		}
	}
	return out
}
