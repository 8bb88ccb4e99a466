package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/agent"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/specs"
)

func newID() (string, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}

// allocation is the lock on who gets what: exclusive for who takes a slot or
// plans to clean up after the dead, shared for who makes what a lease stands
// for. So nobody cleans away what another has just taken. The wait for it ends
// with ctx.
func (r *Runner) allocation(ctx context.Context, how int) (unlock func(), err error) {
	return r.lockFile(ctx, ".allocation", how)
}

// lockFile locks a file beside the sessions, shared or exclusive.
func (r *Runner) lockFile(ctx context.Context, name string, how int) (unlock func(), err error) {
	dir, err := r.RunDir.Make("sessions")
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := rundir.Flock(ctx, f, how, nil); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// allocate writes the session's lease, with a slot if its sandbox has a
// network, and tells whether it found dead ones.
func (s *running) allocate(ctx context.Context, p *plan) (dead bool, err error) {
	unlock, err := s.allocation(ctx, unix.LOCK_EX)
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := s.sessions().sweep(); err != nil {
		s.log().WarnContext(ctx, "remains of sessions that were never made", "err", err)
	}
	list, err := s.sessions().list()
	if err != nil {
		return false, err
	}
	set := p.set
	if set.Leases, err = leases(list); err != nil {
		return false, err
	}
	dead = slices.ContainsFunc(list, func(e entry) bool { return !e.held })
	sb := p.sandbox
	s.lease = record{
		Lease: specs.Lease{
			ID: s.id, Sandbox: sb.Name, User: p.who.name, Slot: specs.NoSlot, Limits: sb.Limits, Digest: set.SandboxDigest(sb.Name),
			Started: time.Now().UTC().Truncate(time.Second), Command: p.command, PID: os.Getpid(),
			Operator: s.Operator,
		},
		Seccomp: agent.Filter(sb), Grace: cmp.Or(sb.Grace, defaultGrace),
	}
	if p.project != nil {
		s.lease.Project = p.project.Name
	}
	if err := s.takeSlot(set, sb); err != nil {
		return false, err
	}
	s.lease.Transcript = s.transcript(p)
	return dead, s.writeLease()
}

// writeLease makes the lease known, and ours if it is new.
func (s *running) writeLease() error {
	lock, err := s.sessions().write(s.lease, true)
	if s.lock == nil {
		s.lock = lock
	}
	return err
}

func (r *Runner) sessions() sessions { return linux{dir: r.RunDir}.sessions() }

// takeSlot takes the lowest free slot of the sandbox's network: the warm ones
// are the lowest.
func (s *running) takeSlot(set specs.Set, sb specs.Sandbox) error {
	if sb.Network == "" {
		return nil
	}
	n := specs.Find(set.Networks, sb.Network)
	if n == nil {
		return fmt.Errorf("network %q is not declared", sb.Network)
	}
	taken := map[int]bool{}
	for _, l := range set.Leases {
		if l.ID != s.id && l.Network == n.Name {
			taken[l.Slot] = true
		}
	}
	for i := range n.Slots() {
		if !taken[i] {
			s.lease.Network, s.lease.Slot = n.Name, i
			return nil
		}
	}
	why := fmt.Errorf("network %q has no free slot: all %d are taken", n.Name, n.Slots())
	return s.isolate(*n, why)
}

// isolate gives up on the network, if it may be given up.
func (s *running) isolate(n specs.Network, why error) error {
	if n.Fallback != specs.FallbackIsolated {
		return why
	}
	s.say("no network %s, so the session has none at all (fallback = \"isolated\"): %s", n.Name, strings.TrimSpace(why.Error()))
	s.lease.Network, s.lease.Slot = "", specs.NoSlot
	return nil
}
