package session

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

const (
	// turnTimeout bounds how long a session's end waits for its turn to clean up,
	// cleanTimeout all that it cleans up.
	turnTimeout  = 10 * time.Second
	cleanTimeout = time.Minute
	// cleanAtOnce is how many dead sessions, and slots that nobody needs, are
	// cleaned up before others have their turn.
	cleanAtOnce = 16
)

// finish drops the lease and removes what was made for it.
func (s *running) finish(ctx context.Context) {
	if s.lock == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	s.endAgent(ctx)
	_ = s.lock.Close()
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	c := s.cleaner()
	var err error
	for more := true; more && err == nil; {
		more, err = c.turn(ctx)
	}
	if err == nil {
		return
	}
	if _, gone := os.Lstat(s.RunDir.Session(s.id)); !errors.Is(gone, os.ErrNotExist) { // else someone else has done it
		s.log().WarnContext(ctx, "remains of the session are left for the next apply", "session", s.id, "err", err)
	}
}

// cleaner removes what dead sessions left. Many that end at once clean up
// together: whoever has its turn does it for some of all that are dead, and goes
// on until there are none.
type cleaner struct {
	*running
	networks []string // in which slots may be left
}

func (s *running) cleaner() *cleaner { return &cleaner{s, []string{s.lease.Network}} }

// all cleans up for a caller that holds the host's lock.
func (c *cleaner) all(ctx context.Context) (err error) {
	for more := true; more && err == nil; {
		more, err = c.some(ctx)
	}
	return err
}

// turn is some, with the host's lock for as long as that takes.
func (c *cleaner) turn(ctx context.Context) (more bool, err error) {
	wait, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	unlock, err := c.RunDir.Lock(wait, false, nil)
	if err != nil {
		return false, err
	}
	defer unlock()
	return c.some(ctx)
}

// some cleans up after some of the dead, and tells whether there may be more.
func (c *cleaner) some(ctx context.Context) (more bool, err error) {
	wait, cancel := context.WithTimeout(ctx, turnTimeout)
	unlock, err := c.allocation(wait, unix.LOCK_EX)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return false, nil // all that had it since clean up, after this session too
	}
	if err != nil {
		return false, err
	}
	defer unlock()
	set, dead, err := c.dead()
	if err != nil {
		return false, err
	}
	for _, r := range dead {
		if !slices.Contains(c.networks, r.Network) {
			c.networks = append(c.networks, r.Network)
		}
	}
	slots, err := c.unneeded(set)
	if err != nil {
		return false, err
	}
	more = max(len(dead), len(slots)) > cleanAtOnce
	dead, slots = dead[:min(len(dead), cleanAtOnce)], slots[:min(len(slots), cleanAtOnce)]
	err = c.remove(ctx, set, dead, slots)
	if err != nil && len(dead) > 1 && dead[0].ID == c.id { // what keeps others' from going does not keep its own
		return false, c.remove(ctx, set, dead[:1], slots)
	}
	return more, err
}

// remove removes what there is of dead sessions, and slots.
func (c *cleaner) remove(ctx context.Context, set specs.Set, dead []record, slots []reconciler.Addr) error {
	roots := slices.Clone(slots)
	var records []reconciler.Addr
	for _, r := range dead {
		roots, records = append(roots, remains(set, r)...), append(records, Addr(r.ID))
	}
	if len(roots) == 0 {
		return nil
	}
	// The record goes last: should we be killed, the next one finds it and
	// goes on.
	_, err := c.converge(ctx, set, roots...)
	if err == nil {
		_, err = c.converge(ctx, set, records...)
	}
	return err
}

// dead is the set with the leases that live, and the records of the dead, this
// session's first.
func (c *cleaner) dead() (specs.Set, []record, error) {
	set := c.set
	list, err := c.sessions().list()
	if err != nil {
		return set, nil, err
	}
	if set.Leases, err = leases(list); err != nil {
		return set, nil, err
	}
	var dead []record
	for _, e := range list {
		switch {
		case e.held:
		case e.ID == c.id:
			dead = slices.Insert(dead, 0, e.record)
		default:
			dead = append(dead, e.record)
		}
	}
	return set, dead, nil
}

// remains are the addresses, other than its own, that exist for a session alone.
func remains(set specs.Set, r record) []reconciler.Addr {
	out := []reconciler.Addr{reconciler.NewAddr("cgroup", r.ID)}
	if r.Slot < 0 || r.Network == "" {
		return out
	}
	if n := specs.Find(set.Networks, r.Network); n != nil && slices.Contains(set.LeasedSlots(*n), r.Slot) {
		return out
	}
	return append(out, memberAddr(r.Network, r.Slot))
}

// unneeded are the slots of the networks that nobody needs now.
func (c *cleaner) unneeded(set specs.Set) ([]reconciler.Addr, error) {
	desired := map[string][]int{}
	for _, name := range c.networks {
		if n := specs.Find(set.Networks, name); n != nil {
			desired[name] = set.DesiredSlots(*n)
		}
	}
	pins, err := c.RunDir.Pins()
	if err != nil {
		return nil, err
	}
	var out []reconciler.Addr
	for _, p := range pins {
		if slices.Contains(c.networks, p.Network) && !slices.Contains(desired[p.Network], p.Slot) {
			out = append(out, reconciler.NewAddr("slot", p.Network, strconv.Itoa(p.Slot)))
		}
	}
	return out, nil
}
