package slot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/netask"
	"github.com/aicodesit/cordon/internal/rawsys"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/specs"
)

// kernel is what this package wants of the host.
type kernel interface {
	// links are the host's links that bear a mark of ours or a name as slots
	// have, of one dump of links and one of addresses.
	links(context.Context) ([]link, error)
	// link is one of them, without a dump; nil when there is none.
	link(ctx context.Context, name string) (*link, error)
	// pins are all slots that have a pin, a dead one included.
	pins(context.Context) ([]key, error)
	// insides looks into the namespaces, in the order of keys.
	insides(ctx context.Context, keys []key) ([]inside, error)
	// build makes the slot, or makes it again.
	build(context.Context, Slot) error
	// remove removes what there is of the slot.
	remove(context.Context, Slot) error
}

// link is a host end.
type link struct {
	name, alias, kind string
	index             int
	lower             int // the link that it stands on, of this namespace; or 0
	up                bool
	addrs             []netip.Prefix    // IPv4
	sysctls           map[string]string // of [hostSysctls], those that the kernel has
	odd               []string          // what else it is or has that no host end does
}

type linux struct{ dir rundir.Dir }

// attempts is how often an interrupted dump is asked for again.
const attempts = 20

// dump repeats f while the kernel says that what it dumped changed meanwhile:
// a list with holes looks like drift.
func dump[T any](ctx context.Context, f func() ([]T, error)) ([]T, error) {
	for i := 0; ; i++ {
		out, err := f()
		if err == nil {
			return out, nil
		}
		changed := errors.Is(err, netlink.ErrDumpInterrupted) || errors.Is(err, netask.ErrChanged)
		if !changed || i == attempts {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

func (k linux) links(ctx context.Context) ([]link, error) {
	s, err := netask.New(unix.NETLINK_ROUTE, make([]byte, netask.Room))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	all, err := listLinks(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var out []link
	ours := map[int]bool{}
	for _, l := range all {
		if _, marked := l.key(); marked || named(l.name) {
			ours[l.index] = true
			out = append(out, l)
		}
	}
	addrs, err := listAddrs(ctx, s, ours)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	filtered, err := ingresses(ctx, 0)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].addrs = addrs[out[i].index]
		out[i].addOdd(filtered, all)
	}
	return out, nil
}

// named tells whether a slot's host end could have that name.
func named(name string) bool {
	_, _, ok := specs.ParseInterface(name)
	return ok
}

func (k linux) link(ctx context.Context, name string) (*link, error) {
	l, err := find(name)
	if err != nil || l == nil {
		return nil, err
	}
	l.addrs, err = addrsOf(ctx, l.index)
	if err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", name, err)
	}
	filtered, err := ingresses(ctx, l.index)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var all []link
	if l.carries() {
		s, err := netask.New(unix.NETLINK_ROUTE, make([]byte, netask.Room))
		if err != nil {
			return nil, err
		}
		defer s.Close()
		if all, err = listLinks(ctx, s); err != nil {
			return nil, fmt.Errorf("list links: %w", err)
		}
	}
	l.addOdd(filtered, all)
	return l, nil
}

func (l *link) addOdd(filtered map[int]bool, all []link) {
	if filtered[l.index] {
		l.odd = append(l.odd, oddIngress)
	}
	l.odd = append(l.odd, l.children(all)...)
}

// path is the file of s for an interface, in the network namespace of the
// thread that opens it.
func (s sysctl) path(iface string) string {
	family, name, _ := strings.Cut(s.name, "/")
	return filepath.Join("/proc/sys/net", family, "conf", iface, name)
}

func (s sysctl) write(iface string) error {
	err := os.WriteFile(s.path(iface), []byte(s.value), 0o644)
	if errors.Is(err, os.ErrNotExist) && strings.HasPrefix(s.name, "ipv6/") {
		if _, err := os.Stat("/proc/sys/net/ipv6"); errors.Is(err, os.ErrNotExist) {
			return nil // no IPv6 in this kernel
		}
	}
	return err
}

func (k linux) insides(ctx context.Context, keys []key) ([]inside, error) {
	out := make([]inside, len(keys))
	err := parallel(len(keys), func() (func(int) error, func(), error) {
		w, err := newWindow()
		if err != nil {
			return nil, nil, err
		}
		return func(i int) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			out[i], err = w.look(ctx, k.dir.Netns(keys[i].network, keys[i].number))
			return err
		}, w.close, nil
	})
	return out, err
}

// window shows one network namespace after the other. It is one thread's, and
// leaves that in the last.
type window struct {
	net         int // /proc/thread-self/net: of the namespace that the thread is in
	home        namespaceID
	buf, answer []byte
}

func newWindow() (*window, error) {
	home, err := ownNamespace()
	if err != nil {
		return nil, err
	}
	const path = "/proc/thread-self/net"
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &window{net: fd, home: home, buf: make([]byte, 4<<10), answer: make([]byte, netask.Room)}, nil
}

func (w *window) close() { _ = unix.Close(w.net) }

// look enters the namespace pinned at path and asks what it shows.
func (w *window) look(ctx context.Context, path string) (inside, error) {
	ns, st, err := pinned(path)
	if err != nil || st != live {
		return inside{state: st}, err
	}
	defer rawsys.Close(ns)
	id, err := identify(ns)
	if err != nil {
		return inside{}, fmt.Errorf("%s: %w", path, err)
	}
	if id == w.home {
		return inside{state: hosts}, nil
	}
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return inside{}, fmt.Errorf("enter %s: %w", path, err)
	}
	in := inside{state: live}
	s, err := netask.New(unix.NETLINK_ROUTE, w.answer)
	if err == nil {
		err = in.ask(ctx, s)
		s.Close()
	}
	if err == nil {
		in.tables, err = w.read("ip_tables_names")
		if errors.Is(err, os.ErrNotExist) { // no iptables in this kernel
			err = nil
		}
	}
	if err != nil {
		return inside{}, fmt.Errorf("%s: %w", path, err)
	}
	return in, nil
}

func (w *window) read(name string) (string, error) {
	b, err := rawsys.ReadFile(w.net, name, w.buf)
	return string(b), err
}
