package slot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rundir"
)

// kernel is what this package wants of the host. Names of pins are
// NETWORK.NUMBER.
type kernel interface {
	// links are the host's links that bear a mark of ours or a name as slots
	// have, of one dump of links and one of addresses.
	links(context.Context) ([]link, error)
	// link is one of them, without a dump; nil when there is none.
	link(ctx context.Context, name string) (*link, error)
	// pins are the names of all pins, dead ones included.
	pins(context.Context) ([]string, error)
	// insides looks into the namespaces, in the order of pins.
	insides(ctx context.Context, pins []string) ([]inside, error)
	// build makes the slot, or makes it again.
	build(context.Context, Slot) error
	// remove removes what there is of the slot.
	remove(context.Context, Slot) error
}

// link is a host end.
type link struct {
	name, alias, kind string
	index             int
	up                bool
	addrs             []netip.Prefix    // IPv4
	sysctls           map[string]string // of [hostSysctls], those that the kernel has
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
		if !errors.Is(err, netlink.ErrDumpInterrupted) || i == attempts {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

func (k linux) links(ctx context.Context) ([]link, error) {
	all, err := dump(ctx, netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addrs, err := dump(ctx, func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	byIndex := map[int][]netip.Prefix{}
	for _, a := range addrs {
		if p, ok := prefix(a); ok {
			byIndex[a.LinkIndex] = append(byIndex[a.LinkIndex], p)
		}
	}
	var out []link
	for _, l := range all {
		k := host(l)
		if _, marked := k.key(); !marked && !named(k.name) {
			continue
		}
		k.addrs = byIndex[k.index]
		k.sysctls = readSysctls(k.name)
		out = append(out, k)
	}
	return out, nil
}

// named tells whether a slot's host end could have that name.
func named(name string) bool {
	rest, ok := strings.CutPrefix(name, "c-")
	_, is := parseKey(rest)
	return ok && is
}

func host(l netlink.Link) link {
	a := l.Attrs()
	return link{name: a.Name, alias: a.Alias, kind: l.Type(), index: a.Index, up: a.RawFlags&unix.IFF_UP != 0}
}

func prefix(a netlink.Addr) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(a.IP.To4())
	bits, _ := a.Mask.Size()
	return netip.PrefixFrom(addr, bits), ok
}

func (k linux) link(_ context.Context, name string) (*link, error) {
	l, err := find(name)
	if err != nil || l == nil {
		return nil, err
	}
	found := host(l)
	found.addrs, err = addrsOf(found.index)
	if err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", name, err)
	}
	found.sysctls = readSysctls(name)
	return &found, nil
}

// find returns the link called name, or nil.
func find(name string) (netlink.Link, error) {
	l, err := netlink.LinkByName(name)
	var none netlink.LinkNotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	return l, nil
}

func readSysctls(name string) map[string]string {
	out := map[string]string{}
	for _, s := range hostSysctls("internet") {
		// What can't be read does not exist: IPv6 is not in this kernel, or the
		// link went away since.
		if b, err := os.ReadFile(s.path(name)); err == nil {
			out[s.name] = strings.TrimSpace(string(b))
		}
	}
	return out
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

func (k linux) pinDir() string { return filepath.Dir(k.dir.Netns("n", 0)) }

func (k linux) pins(context.Context) ([]string, error) {
	entries, err := os.ReadDir(k.pinDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (k linux) insides(ctx context.Context, pins []string) ([]inside, error) {
	out := make([]inside, len(pins))
	err := parallel(len(pins), func(i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		out[i], err = look(filepath.Join(k.pinDir(), pins[i]))
		return err
	})
	return out, err
}

// look enters the namespace pinned at path and reads what it shows. The
// calling thread stays in it.
func look(path string) (inside, error) {
	ns, st, err := openPin(path)
	if err != nil || st != live {
		return inside{state: st}, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return inside{}, fmt.Errorf("enter %s: %w", path, err)
	}
	in := inside{state: live, files: map[string]string{}}
	for _, name := range []string{"dev", "route", "fib_trie", "if_inet6"} {
		b, err := os.ReadFile("/proc/thread-self/net/" + name)
		if name == "if_inet6" && errors.Is(err, os.ErrNotExist) {
			continue // no IPv6 in this kernel
		}
		if err != nil {
			return inside{}, fmt.Errorf("%s: %w", path, err)
		}
		in.files[name] = string(b)
	}
	for _, iface := range []string{"all", inner} {
		if b, err := os.ReadFile(sysctl{"ipv6/disable_ipv6", ""}.path(iface)); err == nil {
			in.files["disable_ipv6 "+iface] = string(b)
		}
	}
	return in, nil
}

// openPin opens a pin and tells whether a namespace is mounted on it. The file
// is nil unless it is live.
func openPin(path string) (*os.File, state, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, absent, nil
	}
	if errors.Is(err, unix.ELOOP) {
		return nil, dead, nil
	}
	if err != nil {
		return nil, absent, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		_ = f.Close()
		return nil, absent, fmt.Errorf("statfs %s: %w", path, err)
	}
	if fs.Type != unix.NSFS_MAGIC {
		_ = f.Close()
		return nil, dead, nil
	}
	return f, live, nil
}
