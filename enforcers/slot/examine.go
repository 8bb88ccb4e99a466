package slot

import (
	"context"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rawsys"
	"github.com/aicodesit/cordon/reconciler"
)

// Examine implements [reconciler.Examiner]: it makes a namespace with a veth
// pair in it, both gone when it returns.
func (e *Enforcer) Examine(context.Context) []reconciler.Finding {
	f := reconciler.Finding{Subject: "network namespaces", Status: reconciler.OK, Text: "a namespace and a veth pair can be made"}
	if err := alone(try); err != nil {
		f.Status, f.Text = reconciler.Fail, err.Error()
		f.Remedy = "Run as root with CAP_SYS_ADMIN and CAP_NET_ADMIN, on a kernel with CONFIG_NET_NS and CONFIG_VETH. Sessions with a network are refused, or run without any where fallback is \"isolated\"."
	}
	return []reconciler.Finding{f, examineReversePath()}
}

func try() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: inner, TxQLen: -1}, PeerName: "peer"}
	if err := h.LinkAdd(pair); err != nil {
		return fmt.Errorf("make a veth pair: %w", err)
	}
	return nil
}

// examineReversePath tells whether the host's own setting weakens that of the
// host ends: the kernel takes the larger of the two.
func examineReversePath() reconciler.Finding {
	f := reconciler.Finding{Subject: "reverse path filter", Status: reconciler.OK, Text: "strict on slots"}
	v, err := rawsys.ReadFile(unix.AT_FDCWD, "/proc/sys/net/ipv4/conf/all/rp_filter", nil)
	switch {
	case err != nil && !os.IsNotExist(err):
		f.Status, f.Text = reconciler.Warn, err.Error()
	case len(v) > 0 && v[0] == '2':
		f.Status, f.Text = reconciler.Warn, "net.ipv4.conf.all.rp_filter is 2 (loose), which holds for slots too: false sources are refused by the firewall only"
		f.Remedy = "sysctl -w net.ipv4.conf.all.rp_filter=1, if no asymmetric routing needs the loose mode."
	}
	return f
}
