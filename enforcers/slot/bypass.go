package slot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/netask"
)

// What comes in by a host end reaches the firewall only if nothing takes it
// before: a bridge, bond or VRF that it is a port of, a link on top of it, a
// filter of tc or a program of XDP.

// mtu is that of Ethernet, which a new pair has.
const mtu = 1500

// oddFlags are what a host end as it was made does not have.
func oddFlags(flags uint32) (odd []string) {
	for _, f := range []struct {
		bit  uint32
		name string
	}{{unix.IFF_NOARP, "noarp"}, {unix.IFF_PROMISC, "promisc"}, {unix.IFF_ALLMULTI, "allmulticast"}} {
		if flags&f.bit != 0 {
			odd = append(odd, "is set to "+f.name)
		}
	}
	return odd
}

// oddAttr is what an attribute of a link tells that a host end as it was made
// does not have; "" for all others.
func oddAttr(kind uint16, value []byte) string {
	number := func() uint32 {
		if len(value) != 4 {
			return 0
		}
		return nl.NativeEndian().Uint32(value)
	}
	switch kind {
	case unix.IFLA_MASTER:
		return fmt.Sprintf("is a port of link %d", number())
	case unix.IFLA_MTU:
		if n := number(); n != mtu {
			return fmt.Sprintf("has an MTU of %d", n)
		}
	case unix.IFLA_QDISC:
		if q := nl.BytesToString(value); q != "noqueue" && q != "noop" { // noop: it is down
			return "has the queueing discipline " + q
		}
	case unix.IFLA_XDP:
		attached := false
		_ = netask.Attributes(value, func(kind uint16, v []byte) error {
			attached = attached || kind == nl.IFLA_XDP_ATTACHED && len(v) == 1 && v[0] != 0
			return nil
		})
		if attached {
			return "has a program of XDP"
		}
	}
	return ""
}

// ingress is how a qdisc at a link's way in shows; clsact is one too. Filters
// hang on nothing else there.
const ingress = 0xfffffff1 // TC_H_INGRESS of linux/pkt_sched.h

const oddIngress = "has a queueing discipline at its way in"

// ingresses are the indices of the links that have one: of all links, or of
// the one with that index.
func ingresses(ctx context.Context, index int) (map[int]bool, error) {
	flags := unix.NLM_F_DUMP
	msg := &nl.TcMsg{Family: unix.AF_UNSPEC}
	if index != 0 {
		// Without ECHO only those who listen for changes are answered.
		flags, msg.Ifindex, msg.Parent = unix.NLM_F_ACK|unix.NLM_F_ECHO, int32(index), ingress
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETQDISC, flags)
	req.AddData(msg)
	msgs, err := dump(ctx, func() ([][]byte, error) { return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC) })
	// ENODEV: the link has just gone, and whoever asks for its addresses is told.
	if index != 0 && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("queueing disciplines: %w", err)
	}
	out := map[int]bool{}
	for _, m := range msgs {
		if len(m) < nl.SizeofTcMsg {
			return nil, errors.New("a queueing discipline's message is cut off")
		}
		if q := nl.DeserializeTcMsg(m); q.Parent == ingress {
			out[int(q.Ifindex)] = true
		}
	}
	return out, nil
}

// children are what of all stands on top of l: macvlan, vlan and the like. The
// other end of a pair is none.
func (l link) children(all []link) (odd []string) {
	for _, c := range all {
		if c.lower == l.index && c.kind != "veth" {
			odd = append(odd, fmt.Sprintf("carries %s, a %s", c.name, c.kind))
		}
	}
	slices.Sort(odd)
	return odd
}

// carries tells whether anything may stand on top of l. The kernel shows that
// in sysfs; where that is another namespace's, the answer is yes.
func (l link) carries() bool {
	dir := "/sys/class/net/" + l.name
	index, err := os.ReadFile(dir + "/ifindex")
	if err != nil || strings.TrimSpace(string(index)) != fmt.Sprint(l.index) {
		return true
	}
	f, err := os.Open(dir)
	if err != nil {
		return true
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "upper_") })
}
