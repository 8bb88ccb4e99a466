package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/atomicfile"
	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/internal/rundir"
)

// kernel is what this package wants of the host.
type kernel interface {
	// save is the text of iptables-save for a family: all tables there are, and
	// a comment for each that is dormant (see [dormantNote]).
	// With known, a text saved before may be returned if the kernel says that
	// no rule has changed since.
	save(ctx context.Context, family string, known bool) (string, error)
	// restore makes the changes of an input of iptables-restore, all or none.
	restore(ctx context.Context, family, script string) error
	// sets are the ipsets: all, or the one of that name if it exists.
	sets(ctx context.Context, name string) ([]set, error)
	changeSet(context.Context, setChange) error
	// forwarding is the value of net.ipv4.ip_forward, and whether cordon holds it,
	// or was about to: then there is no value.
	forwarding(context.Context) (value string, held bool, err error)
	// setForwarding switches it on and remembers what it was, or puts that back.
	setForwarding(ctx context.Context, on bool) error
}

// set is an ipset.
type set struct {
	name, kind, family string
	options            []string // those that change what a member is
	elements           []Element
}

// Element is an element of a set of members.
type Element struct {
	Prefix    netip.Prefix
	Interface string
	Flags     uint32 // "nomatch", "wildcard": members have none
}

// String is the element as ipset(8) writes it.
func (e Element) String() string {
	text := e.Prefix.String()
	if e.Prefix.IsSingleIP() {
		text = e.Prefix.Addr().String()
	}
	if e.Interface != "" {
		text += "," + e.Interface
	}
	if e.Flags != 0 {
		text += fmt.Sprintf(" with flags %#x", e.Flags)
	}
	return text
}

func (e Element) compare(o Element) int {
	if c := e.Prefix.Addr().Compare(o.Prefix.Addr()); c != 0 {
		return c
	}
	return strings.Compare(e.String(), o.String())
}

// setChange is a line of ipset(8): "create" with the type of members' sets,
// "destroy", "add" and "del"; what is there already, or gone, is no error.
type setChange struct {
	verb, set string
	element   Element
}

type linux struct{ dir rundir.Dir }

// wait is how many seconds iptables waits for another's lock.
const wait = "5"

func program(family, name string) string {
	if family == v6 {
		return "ip6tables-" + name
	}
	return "iptables-" + name
}

// save leaves -t out: with it, the legacy program would make the table.
func (k linux) save(ctx context.Context, family string, known bool) (string, error) {
	state, counted := k.ruleState(family)
	if counted && known {
		if text, ok := k.saved(family, state); ok {
			return text, nil
		}
	}
	out, err := run.Output(ctx, program(family, "save"))
	if err != nil {
		return "", err
	}
	notes, err := dormantNotes(family)
	if err != nil {
		return "", err
	}
	out = append(out, notes...)
	if after, ok := k.ruleState(family); counted && ok && after == state {
		k.keep(family, state, string(out))
	}
	return string(out), nil
}

func (linux) restore(ctx context.Context, family, script string) error {
	_, err := run.Input(ctx, []byte(script), program(family, "restore"), "--noflush", "-w", wait)
	if err != nil {
		return fmt.Errorf("%w; its input was\n%s", err, script)
	}
	return nil
}

func (linux) sets(_ context.Context, name string) ([]set, error) { return dumpSets(name) }

func (linux) changeSet(_ context.Context, c setChange) error {
	var err error
	switch c.verb {
	case "create":
		err = netlink.IpsetCreate(c.set, setType, netlink.IpsetCreateOptions{Family: unix.AF_INET})
	case "destroy":
		if err = netlink.IpsetDestroy(c.set); errors.Is(err, unix.ENOENT) {
			return nil
		}
	case "add":
		err = netlink.IpsetAdd(c.set, c.element.entry())
	case "del":
		if err = netlink.IpsetDel(c.set, c.element.entry()); errors.Is(err, unix.ENOENT) {
			return nil // the set is gone
		}
	default:
		return fmt.Errorf("ipset %s: no such command", c.verb)
	}
	if err != nil {
		return fmt.Errorf("ipset %s %s %s: %w", c.verb, c.set, c.element, setError(err))
	}
	return nil
}

// entry has Replace set, which lets an element exist already, or be gone.
func (e Element) entry() *netlink.IPSetEntry {
	return &netlink.IPSetEntry{IP: e.Prefix.Addr().AsSlice(), CIDR: uint8(e.Prefix.Bits()), IFace: e.Interface, Replace: true}
}

const ipForward = "/proc/sys/net/ipv4/ip_forward"

// forwarding has no value when a process was killed while it remembered it, before
// it switched anything on.
func (k linux) forwarding(context.Context) (string, bool, error) {
	held, err := exists(k.dir.Forwarding())
	if err != nil {
		return "", false, err
	}
	if !held {
		left, err := exists(k.unfinished())
		return "", left, err
	}
	value, err := readTrimmed(ipForward)
	return value, true, err
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// unfinished is where forwarding is written down until that is whole.
func (k linux) unfinished() string { return k.dir.Forwarding() + ".new" }

func (k linux) setForwarding(_ context.Context, on bool) error {
	was, err := readTrimmed(k.dir.Forwarding())
	held := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if on {
		if !held {
			if err := k.remember(); err != nil {
				return err
			}
		}
		return os.WriteFile(ipForward, []byte("1"), 0o644)
	}
	if !held {
		if err := os.Remove(k.unfinished()); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if was != "1" {
		if err := os.WriteFile(ipForward, []byte("0"), 0o644); err != nil {
			return err
		}
	}
	return os.Remove(k.dir.Forwarding())
}

// remember writes down what forwarding is, whole or not at all.
func (k linux) remember() error {
	now, err := readTrimmed(ipForward)
	if err != nil {
		return err
	}
	if _, err := k.dir.Make(); err != nil {
		return err
	}
	// Changes are made by one at a time: what a killed one leaves is overwritten.
	return atomicfile.Replace(k.unfinished(), k.dir.Forwarding(), []byte(now+"\n"), 0o600)
}

func readTrimmed(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}
