package vm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/test/vm"
)

func TestScriptRunsAsRootOnAFreshHost(t *testing.T) {
	r := vm.Run(t, vm.Machine{
		Files:  []vm.File{{Path: "/data/greeting", Data: "good morning\n"}},
		Script: "#!/bin/sh\ncat /data/greeting; id -u; cat /sys/fs/cgroup/cgroup.controllers; ls /sys/class/net; exit 7",
	})
	if r.Status != 7 {
		t.Errorf("status %d, want the script's 7", r.Status)
	}
	lines := strings.Split(r.Output, "\n")
	if len(lines) < 3 || lines[0] != "good morning" || lines[1] != "0" {
		t.Fatalf("output:\n%s", r.Output)
	}
	for _, c := range []string{"cpu", "memory", "pids"} {
		if !strings.Contains(" "+lines[2]+" ", " "+c+" ") {
			t.Errorf("cgroup v2 without the controller %s: %s", c, lines[2])
		}
	}
	if got := strings.Join(lines[3:], " "); strings.TrimSpace(got) != "lo" {
		t.Errorf("links: %s, want only lo", got)
	}
}

// A kernel that changes its text while all its processors are at work goes on, and
// its clock too.
func TestKernelChangesItsText(t *testing.T) {
	r := vm.Run(t, vm.Machine{
		Timeout: 2 * time.Minute,
		Script: `#!/bin/sh
set -e
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/a
for busy in 1 2 3; do while :; do /bin/true; done & done
for change in $(seq 500); do
	echo "50000 100000" >/sys/fs/cgroup/a/cpu.max
	echo max >/sys/fs/cgroup/a/cpu.max
done
sleep 1
echo all done
`,
	})
	if r.Status != 0 || r.Output != "all done\n" {
		t.Error(r)
	}
}

// What cordon needs of a host works there: else a test on it proves nothing.
func TestHostHasWhatCordonNeeds(t *testing.T) {
	kerneltest.Program(t, "bwrap", "ipset", "ip", "iptables-nft", "iptables-legacy")
	r := vm.Run(t, vm.Machine{
		Files:   vm.HostPrograms(t),
		Modules: vm.HostModules(),
		Script: `#!/bin/bash
set -ex
ip link add veth-a type veth peer name veth-b
ip netns add slot
ip link set veth-b netns slot
ipset create members hash:net,iface family inet
ipset add members 10.9.0.2/32,veth-a
for iptables in iptables-nft ip6tables-nft iptables-legacy ip6tables-legacy; do
	$iptables -N CLOSED
	$iptables -A CLOSED -i veth+ -m conntrack --ctstate ESTABLISHED -m comment --comment mark -j ACCEPT
	$iptables -A CLOSED -p tcp --dport 3000 -j REJECT
	$iptables -A FORWARD -j CLOSED
done
iptables -A CLOSED -m set --match-set members src,src -j RETURN
iptables -t nat -A POSTROUTING -o veth-a -j MASQUERADE
iptables -S CLOSED
bwrap --unshare-all --uid 7 --gid 7 --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp id -u
`,
	})
	if r.Status != 0 || !strings.HasSuffix(r.Output, "\n7\n") {
		t.Error(r)
	}
}
