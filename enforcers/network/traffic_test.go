package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/slot"
	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Around the host: an uplink to a world that has a public address, one of a
// neighbour in a private network, that of a cloud's credentials, and one that
// is denied. The world knows no way back to the slots' addresses.
const (
	hostOutside = "203.0.113.1"
	worldNear   = "203.0.113.2"
	public      = "198.51.100.2"
	denied      = "198.51.100.3"
	neighbour   = "10.99.0.2"
	metadata    = "169.254.169.254"
)

// dir is where the slots of these tests are.
const dir = rundir.Dir("/run/cordon")

// site is a host with sessions, and the world around.
type site struct {
	t     *testing.T
	set   specs.Set
	world *os.File
	seen  chan string // addresses that connections to the world come from
}

// on runs f in a network namespace, a new one if ns is nil, on a thread that is
// thrown away.
func on(ns *os.File, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done <- on(ns, f)
			return
		}
		var err error
		if ns == nil {
			err = unix.Unshare(unix.CLONE_NEWNET)
		} else {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// in runs f in a slot.
func (s *site) in(pin string, f func(h *netlink.Handle) error) {
	s.t.Helper()
	network, number, _ := strings.Cut(pin, ".")
	var n int
	if _, err := fmt.Sscan(number, &n); err != nil {
		s.t.Fatal(err)
	}
	ns, err := os.Open(dir.Netns(network, n))
	must(s.t, err)
	defer ns.Close()
	must(s.t, on(ns, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		return f(h)
	}))
}

// dial connects from a slot; local may be "".
func (s *site) dial(pin, local, to string) (conn net.Conn, took time.Duration, err error) {
	s.in(pin, func(*netlink.Handle) error {
		d := net.Dialer{Timeout: 3 * time.Second}
		if local != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(local)}
		}
		start := time.Now()
		conn, err = d.Dial("tcp", to)
		took = time.Since(start)
		return nil
	})
	return conn, took, err
}

// reaches checks that a slot gets an answer from to.
func (s *site) reaches(pin, to string) {
	s.t.Helper()
	conn, _, err := s.dial(pin, "", to)
	if err != nil {
		s.t.Errorf("%s → %s: %v", pin, to, err)
		return
	}
	defer conn.Close()
	must(s.t, conn.SetDeadline(time.Now().Add(3*time.Second)))
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		s.t.Errorf("%s → %s: %v", pin, to, err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		s.t.Errorf("%s → %s: no answer: %v", pin, to, err)
	}
}

// refused checks that a slot is told at once that to is unreachable.
func (s *site) refused(pin, to string) {
	s.t.Helper()
	conn, took, err := s.dial(pin, "", to)
	if err == nil {
		conn.Close()
		s.t.Errorf("%s → %s: connected", pin, to)
		return
	}
	if !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) && !errors.Is(err, unix.EADDRNOTAVAIL) {
		s.t.Errorf("%s → %s: %v, want unreachable", pin, to, err)
	}
	if took > 800*time.Millisecond {
		s.t.Errorf("%s → %s: refused after %v", pin, to, took)
	}
}

// serve answers on all addresses of the calling thread's namespace.
func (s *site) serve(port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return err
	}
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case s.seen <- conn.RemoteAddr().String():
			default:
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return nil
}

func (s *site) reconciler() *reconciler.Reconciler {
	return &reconciler.Reconciler{Enforcers: []reconciler.Named{
		{Name: Name, Enforcer: real()},
		{Name: slot.Name, Enforcer: slot.New(slot.Options{Dir: dir})},
	}}
}

func (s *site) apply(set specs.Set) {
	s.t.Helper()
	r := s.reconciler()
	for _, left := range []bool{true, false} {
		p, err := r.Plan(context.Background(), set)
		must(s.t, err)
		for _, f := range p.Failures {
			s.t.Fatal(f.Err)
		}
		if !left && len(p.Changes) > 0 {
			s.t.Fatalf("not converged: %v", p.Changes)
		}
		must(s.t, r.Apply(context.Background(), p, nil).Err())
	}
}

// newSite makes the host: two sessions and a warm slot in a network that only
// reaches a proxy, and the same in one that reaches the internet too.
func newSite(t *testing.T) *site {
	s := &site{t: t, seen: make(chan string, 100)}
	s.set = specs.Set{
		Sandboxes: []specs.Sandbox{{Name: "s"}},
		Proxies:   []specs.Proxy{{Name: "p", Port: 8181}},
		Networks: []specs.Network{
			{Name: "llm", Pool: netip.MustParsePrefix("10.201.0.0/24"), Egress: specs.EgressNone, Allow: []string{"p"}, Warm: 1},
			{
				Name: "term", Pool: netip.MustParsePrefix("10.202.0.0/24"), Egress: specs.EgressInternet, Allow: []string{"p"}, Warm: 1,
				Deny: []netip.Prefix{netip.MustParsePrefix(denied + "/32")},
			},
		},
		Leases: append(lease("llm", 0, 1), lease("term", 0, 1)...),
	}
	// The kernel bounds the rate of ICMP errors to each address: six at once,
	// then one a second. These tests ask for more.
	must(t, os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0o644))
	must(t, os.WriteFile("/proc/sys/net/ipv6/icmp/ratelimit", []byte("0"), 0o644))
	s.makeWorld()
	must(t, s.serve(8181))
	must(t, s.serve(8182))
	t.Cleanup(func() { s.apply(specs.Set{}) })
	s.apply(s.set)
	return s
}

func (s *site) makeWorld() {
	t := s.t
	must(t, on(nil, func() (err error) {
		s.world, err = os.Open("/proc/thread-self/ns/net")
		return err
	}))
	t.Cleanup(func() { s.world.Close() })
	must(t, netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "uplink"}, PeerName: "near", PeerNamespace: netlink.NsFd(s.world.Fd()),
	}))
	t.Cleanup(func() { sh(t, "ip", "link", "del", "uplink") })
	sh(t, "ip", "addr", "add", hostOutside+"/24", "dev", "uplink")
	sh(t, "ip", "link", "set", "uplink", "up")
	must(t, on(s.world, func() error {
		sh(t, "ip", "link", "set", "lo", "up")
		sh(t, "ip", "addr", "add", worldNear+"/24", "dev", "near")
		sh(t, "ip", "link", "set", "near", "up")
		for _, a := range []string{public, denied, neighbour, metadata} {
			sh(t, "ip", "addr", "add", a+"/32", "dev", "lo")
		}
		return s.serve(80)
	}))
	sh(t, "ip", "route", "add", "default", "via", worldNear)
}

func TestTraffic(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "ip")
	for _, backend := range []string{nft, legacy} {
		t.Run(backend, func(t *testing.T) {
			use(t, backend)
			s := newSite(t)
			for _, c := range []struct {
				name string
				test func(*site)
			}{
				{"a network without egress", (*site).closedNetwork},
				{"a network with egress", (*site).openNetwork},
				{"warm slots", (*site).warmSlots},
				{"from outside", (*site).fromOutside},
				{"connections older than the rules", (*site).olderFlows},
				{"a false source", (*site).falseSource},
				{"a route added inside", (*site).routeAdded},
				{"IPv6", (*site).overIPv6},
				{"the end of a session", (*site).sessionEnds},
			} {
				t.Run(c.name, func(t *testing.T) {
					here := *s
					here.t = t
					c.test(&here)
				})
			}
		})
	}
}

func (s *site) closedNetwork() {
	s.reaches("llm.0", "10.201.0.1:8181")
	s.reaches("llm.1", "10.201.0.5:8181")
	for _, to := range []string{
		"10.201.0.1:8182",     // another port of the host end
		"10.201.0.5:8181",     // the host end of another slot
		"10.201.0.6:8181",     // another session
		"10.202.0.1:8181",     // another network's
		hostOutside + ":8181", // another address of the host
		public + ":80", neighbour + ":80", metadata + ":80", "192.0.2.1:80",
		"[fe80::1%2]:8181", "[2001:db8::1]:80",
	} {
		s.refused("llm.0", to)
	}
}

func (s *site) openNetwork() {
	for len(s.seen) > 0 {
		<-s.seen
	}
	s.reaches("term.0", public+":80")
	if from := <-s.seen; !strings.HasPrefix(from, hostOutside+":") {
		s.t.Errorf("the world sees the address %s", from)
	}
	s.reaches("term.0", "10.202.0.1:8181")
	for _, to := range []string{
		"10.202.0.1:8182", "10.202.0.5:8181", "10.202.0.6:8181", "10.201.0.1:8181", "10.201.0.2:8181",
		hostOutside + ":8181", hostOutside + ":8182",
		neighbour + ":80", metadata + ":80", denied + ":80",
		"[2001:db8::1]:80",
	} {
		s.refused("term.0", to)
	}
}

func (s *site) warmSlots() {
	s.refused("llm.2", "10.201.0.9:8181")
	s.refused("term.2", "10.202.0.9:8181")
	s.refused("term.2", public+":80")
}

func (s *site) fromOutside() {
	for _, pin := range []string{"llm.0", "term.0"} {
		s.in(pin, func(*netlink.Handle) error { return s.serve(80) })
	}
	must(s.t, on(s.world, func() error {
		for _, to := range []string{"10.201.0.0/24", "10.202.0.0/24"} {
			sh(s.t, "ip", "route", "add", to, "via", hostOutside)
		}
		for _, to := range []string{"10.201.0.2:80", "10.202.0.2:80"} {
			conn, err := net.DialTimeout("tcp", to, 2*time.Second)
			if err == nil {
				conn.Close()
				s.t.Errorf("the world reaches %s", to)
			} else if !errors.Is(err, unix.ENETUNREACH) {
				s.t.Errorf("the world → %s: %v", to, err)
			}
		}
		for _, to := range []string{"10.201.0.0/24", "10.202.0.0/24"} {
			sh(s.t, "ip", "route", "del", to)
		}
		return nil
	}))
}

// olderFlows makes connections while the hooks are gone: they must not live on
// for being established once the rules are back.
func (s *site) olderFlows() {
	sh(s.t, "iptables", "-D", "INPUT", "1")
	sh(s.t, "iptables", "-D", "FORWARD", "1")
	s.in("term.0", func(*netlink.Handle) error { return s.serve(81) })
	toHost, _, err := s.dial("llm.0", "", "10.201.0.1:8182")
	must(s.t, err)
	defer toHost.Close()
	var toSlot net.Conn
	must(s.t, on(s.world, func() (err error) {
		sh(s.t, "ip", "route", "add", "10.202.0.0/24", "via", hostOutside)
		toSlot, err = net.DialTimeout("tcp", "10.202.0.2:81", 2*time.Second)
		return err
	}))
	defer toSlot.Close()
	if !echoes(toHost, 3*time.Second) || !echoes(toSlot, 3*time.Second) {
		s.t.Fatal("without the rules there is no answer")
	}
	s.apply(s.set)
	if echoes(toHost, 300*time.Millisecond) {
		s.t.Error("an older connection to a closed port of the host lives on")
	}
	if echoes(toSlot, 300*time.Millisecond) {
		s.t.Error("an older connection from outside lives on")
	}
	// Nothing that is sent again may disturb the counts of the next test.
	must(s.t, toHost.(*net.TCPConn).SetLinger(0))
	must(s.t, on(s.world, func() error {
		sh(s.t, "ip", "route", "del", "10.202.0.0/24")
		return nil
	}))
}

// accepted is how many packets the chain's rules with a port have accepted.
func (s *site) accepted(chain string) (accepted, rejected int) {
	s.t.Helper()
	for _, line := range strings.Split(sh(s.t, "iptables-save", "-c"), "\n") {
		if !strings.Contains(line, "-A "+chain+" ") {
			continue
		}
		var packets int
		if _, err := fmt.Sscanf(line, "[%d:", &packets); err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		if strings.HasSuffix(line, "-j ACCEPT") {
			accepted += packets
		} else {
			rejected += packets
		}
	}
	return accepted, rejected
}

// falseSource sends with the address of another session. The reverse path
// filter drops it before the rules see it; without the filter, the rules do.
func (s *site) falseSource() {
	s.in("llm.0", func(h *netlink.Handle) error {
		eth0, err := h.LinkByName("eth0")
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr("10.201.0.6/32")
		if err != nil {
			return err
		}
		return h.AddrAdd(eth0, a)
	})
	filter := "/proc/sys/net/ipv4/conf/c-llm.0/rp_filter"
	send := func() (accepted, rejected int) {
		a, r := s.accepted("CORDON-IN-llm")
		conn, _, err := s.dialBriefly("llm.0", "10.201.0.6", "10.201.0.1:8181")
		if err == nil {
			conn.Close()
			s.t.Error("connected with the address of another session")
		}
		a2, r2 := s.accepted("CORDON-IN-llm")
		return a2 - a, r2 - r
	}
	if a, r := send(); a+r > 0 {
		s.t.Errorf("the filter lets it through: %d accepted, %d rejected", a, r)
	}
	must(s.t, os.WriteFile(filter, []byte("0"), 0o644))
	if a, r := send(); a > 0 || r == 0 {
		s.t.Errorf("without the filter: %d accepted, %d rejected", a, r)
	}
	s.apply(s.set)
}

// dialBriefly is dial for what is not to be answered.
func (s *site) dialBriefly(pin, local, to string) (conn net.Conn, took time.Duration, err error) {
	s.in(pin, func(*netlink.Handle) error {
		d := net.Dialer{Timeout: 200 * time.Millisecond, LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
		conn, err = d.Dial("tcp", to)
		return nil
	})
	return conn, took, err
}

// routeAdded gives a slot without egress a default route: the rules alone
// must hold.
func (s *site) routeAdded() {
	s.in("llm.0", func(h *netlink.Handle) error {
		return h.RouteAdd(&netlink.Route{Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, Gw: net.ParseIP("10.201.0.1")})
	})
	s.reaches("llm.0", "10.201.0.1:8181")
	for _, to := range []string{
		"10.201.0.5:8181", "10.201.0.6:8181", "10.202.0.1:8181", "10.202.0.2:8181",
		hostOutside + ":8181", public + ":80", neighbour + ":80", metadata + ":80",
	} {
		s.refused("llm.0", to)
	}
	s.apply(s.set)
	s.refused("llm.0", public+":80")
}

// overIPv6 switches IPv6 on by hand, at both ends: the rules alone must hold.
func (s *site) overIPv6() {
	host, err := netlink.LinkByName("c-llm.0")
	must(s.t, err)
	var inner netlink.Link
	s.in("llm.0", func(h *netlink.Handle) error {
		inner, err = h.LinkByName("eth0")
		return err
	})
	up := func(h *netlink.Handle, own, other netlink.Link, addr, peer string) error {
		path := "/proc/sys/net/ipv6/conf/" + own.Attrs().Name + "/disable_ipv6"
		if err := os.WriteFile(path, []byte("0"), 0o644); err != nil {
			return err
		}
		a, err := netlink.ParseAddr(addr + "/64")
		if err != nil {
			return err
		}
		a.Flags = unix.IFA_F_NODAD
		if err := h.AddrAdd(own, a); err != nil {
			return err
		}
		return h.NeighSet(&netlink.Neigh{
			LinkIndex: own.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(peer), HardwareAddr: other.Attrs().HardwareAddr,
		})
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	must(s.t, err)
	defer h.Close()
	must(s.t, up(h, host, inner, "fe80::1", "fe80::2"))
	s.in("llm.0", func(h *netlink.Handle) error { return up(h, inner, host, "fe80::2", "fe80::1") })
	to := fmt.Sprintf("[fe80::1%%%d]:8181", inner.Attrs().Index)
	if conn, _, err := s.dial("llm.0", "", to); err == nil {
		conn.Close()
		s.t.Errorf("llm.0 → %s: connected", to)
	}
	// Without the rules it gets through, which shows that they are what holds.
	sh(s.t, "ip6tables", "-D", "INPUT", "1")
	s.reaches("llm.0", to)
	s.apply(s.set)
	s.refused("llm.0", to)
}

// sessionEnds takes sessions out of the sets while their slots stay: their
// connections are cut off, not only new ones refused.
func (s *site) sessionEnds() {
	conns := map[string]net.Conn{}
	for pin, to := range map[string]string{"llm.0": "10.201.0.1:8181", "term.0": public + ":80"} {
		conn, _, err := s.dial(pin, "", to)
		must(s.t, err)
		defer conn.Close()
		conns[pin] = conn
		if !echoes(conn, 3*time.Second) {
			s.t.Fatalf("%s → %s: no answer", pin, to)
		}
	}
	ended := s.set
	ended.Networks = append([]specs.Network{}, s.set.Networks...)
	ended.Leases = append(lease("llm", 1), lease("term", 1)...)
	for i := range ended.Networks {
		ended.Networks[i].Warm = 3
	}
	s.apply(ended)
	for pin, conn := range conns {
		if echoes(conn, 300*time.Millisecond) {
			s.t.Errorf("%s: the connection lives on", pin)
		}
	}
	s.refused("llm.0", "10.201.0.1:8181")
	s.refused("term.0", public+":80")
	s.reaches("llm.1", "10.201.0.5:8181")
	s.reaches("term.1", public+":80")
}

func echoes(conn net.Conn, within time.Duration) bool {
	_ = conn.SetDeadline(time.Now().Add(within))
	if _, err := fmt.Fprint(conn, "x"); err != nil {
		return false
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err == nil
}
