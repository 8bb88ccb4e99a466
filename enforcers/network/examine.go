package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/reconciler"
)

// IPv6Absent tells whether this kernel has no IPv6 at all, not even switched
// off, so that there is nothing to close.
func IPv6Absent() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return errors.Is(err, os.ErrNotExist)
}

// Examine implements [reconciler.Examiner].
func (e *Enforcer) Examine(ctx context.Context) []reconciler.Finding {
	var out []reconciler.Finding
	for _, family := range e.families {
		out = append(out, examineIptables(ctx, family))
	}
	if f, ok := otherBackend(out); ok {
		out = append(out, f)
	}
	return append(out, examineIpset())
}

func examineIptables(ctx context.Context, family string) reconciler.Finding {
	name := strings.TrimSuffix(program(family, ""), "-")
	f := reconciler.Finding{Subject: name, Status: reconciler.OK}
	version, err := run.Output(ctx, name, "--version")
	if err == nil {
		_, err = run.Output(ctx, program(family, "save"))
	}
	if err != nil {
		f.Status, f.Text = reconciler.Fail, err.Error()
		f.Remedy = "Install iptables, and run as root. Networks are refused without it."
		return f
	}
	f.Text = strings.TrimSpace(string(version))
	return f
}

// otherBackend warns of rules that the program on PATH does not show: those of
// the legacy kind when it is of the nf_tables kind. It looks at a file only;
// listing them would make their table.
func otherBackend(found []reconciler.Finding) (reconciler.Finding, bool) {
	if len(found) == 0 || !strings.Contains(found[0].Text, "nf_tables") {
		return reconciler.Finding{}, false
	}
	names, err := os.ReadFile("/proc/net/ip_tables_names")
	if err != nil || len(names) == 0 {
		return reconciler.Finding{}, false
	}
	return reconciler.Finding{
		Subject: "iptables legacy", Status: reconciler.Warn,
		Text:   fmt.Sprintf("the tables %s of the legacy kind exist too; cordon does not see rules in them, and packets pass both", strings.Join(strings.Fields(string(names)), ", ")),
		Remedy: "Use one kind on a host: move these rules over, then flush and unload the legacy tables.",
	}, true
}

func examineIpset() reconciler.Finding {
	f := reconciler.Finding{Subject: "ipset", Status: reconciler.OK}
	version, _, err := netlink.IpsetProtocol()
	if err != nil {
		f.Status, f.Text = reconciler.Fail, err.Error()
		f.Remedy = "Use a kernel with CONFIG_IP_SET and CONFIG_IP_SET_HASH_NETIFACE, and run as root. Networks are refused without it."
		return f
	}
	f.Text = fmt.Sprintf("protocol %d", version)
	return f
}
