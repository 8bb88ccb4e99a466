package slot

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A pin is a mount, and anyone with root can mount another namespace over it: the
// host's, another slot's, a container's. Of such a one nothing may be deleted.

// namespaceID tells namespaces apart.
type namespaceID struct{ dev, ino uint64 }

// identify returns the identity of the namespace that fd is open on.
func identify(fd int) (namespaceID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return namespaceID{}, os.NewSyscallError("fstat", err)
	}
	return namespaceID{st.Dev, st.Ino}, nil
}

// identifyAt returns the identity of the namespace at path.
func identifyAt(path string) (namespaceID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return namespaceID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return namespaceID{st.Dev, st.Ino}, nil
}

// ownNamespace is the network namespace of the thread: the host's, of all but
// those that entered another.
func ownNamespace() (namespaceID, error) { return identifyAt("/proc/thread-self/ns/net") }

// owns tells whether ns, which is pinned for s, is the slot's alone: neither the
// host's nor pinned for another slot too, and its eth0, if it has one, is the other
// end of the slot's link.
func (k linux) owns(ns *os.File, s Slot) (bool, error) {
	if s.foreign {
		return false, nil
	}
	id, err := identify(int(ns.Fd()))
	if err != nil {
		return false, err
	}
	if home, err := ownNamespace(); err != nil || id == home {
		return false, err
	}
	if shared, err := k.shared(id, key{s.Network, s.Number}); err != nil || shared {
		return false, err
	}
	peer := 0
	if err := alone(func() (err error) { peer, err = peerIn(ns); return err }); err != nil || peer == 0 {
		return err == nil, err
	}
	l, err := netlink.LinkByIndex(peer)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("link %d: %w", peer, err)
	}
	return l.Attrs().Name == s.host() || l.Attrs().Alias == s.mark(), nil
}

// shared tells whether the namespace is pinned for a slot other than of.
func (k linux) shared(id namespaceID, of key) (bool, error) {
	pins, err := k.dir.Pins()
	if err != nil {
		return false, err
	}
	for _, p := range pins {
		if (key{p.Network, p.Slot}) == of {
			continue
		}
		other, err := identifyAt(k.dir.Netns(p.Network, p.Slot))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		if err == nil && other == id {
			return true, nil
		}
	}
	return false, nil
}

// peerIn enters ns and returns the index of the other end of its eth0; 0 when
// there is none.
func peerIn(ns *os.File) (int, error) {
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("enter %s: %w", ns.Name(), err)
	}
	l, err := netlink.LinkByName(inner)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%s in %s: %w", inner, ns.Name(), err)
	}
	if peer := l.Attrs().ParentIndex; peer != 0 {
		return peer, nil
	}
	return l.Attrs().Index, nil // see parseInnerLink
}
