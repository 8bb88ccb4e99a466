package cli

import (
	"github.com/aicodesit/cordon/enforcers/cgroup"
	"github.com/aicodesit/cordon/enforcers/network"
	"github.com/aicodesit/cordon/enforcers/root"
	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/enforcers/slot"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

func (a *App) Cgroups() *cgroup.Enforcer { return cgroup.New(cgroup.Options{Parent: a.CgroupParent}) }

// kernel is the enforcers whose resources a session needs.
func (a *App) Kernel(set specs.Set, groups *cgroup.Enforcer) []reconciler.Named {
	log := a.Log()
	return []reconciler.Named{
		{Name: "session", Needs: []string{"cgroup", "seccomp", "root", "network"}, Enforcer: session.New(session.Options{RunDir: a.Rundir(), Log: log, Scrub: a.Scrubber(set)})},
		{Name: "cgroup", Enforcer: groups},
		{Name: "seccomp", Enforcer: seccomp.New(seccomp.Options{Dir: a.Rundir(), Compiler: a.Compiler, Recorded: a.Recorded})},
		{Name: "root", Enforcer: root.New(root.Options{Dir: a.Rundir(), Log: log})},
		{Name: "network", Needs: []string{"slot"}, Enforcer: network.New(network.Options{Dir: a.Rundir(), NoIPv6: network.IPv6Absent()})},
		{Name: "slot", Needs: []string{"network"}, Enforcer: slot.New(slot.Options{Dir: a.Rundir()})},
	}
}
