package vm_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/cordontest"
	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/test/vm"
)

// manager starts systemd as the first process of namespaces of its own: to it,
// and to what it runs, that is the host.
const manager = `#!/bin/bash
set -e
mkdir -p /etc/systemd/system /root
echo 'root:x:0:0::/root:/bin/bash' >/etc/passwd
echo 'shop:x:4101:4101::/:/bin/false' >>/etc/passwd
echo 'root:x:0:' >/etc/group
echo 'shop:x:4101:' >>/etc/group
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
mkdir -p /srv/shop
chown 4101:4101 /srv/shop
echo token >/etc/token
# As the first process of a machine it would share its mounts itself.
container=other unshare --pid --mount --fork --mount-proc bash -c 'mount --make-rshared / && exec "$@"' - /usr/lib/systemd/systemd --system --log-target=console --show-status=no --unit=basic.target >/tmp/manager 2>&1 &
systemd=
for try in {1..300}; do
	[ -z "$systemd" ] && systemd=$(cat /proc/$!/task/$!/children 2>/dev/null | tr -d ' ')
	[ -S /proc/${systemd:-none}/root/run/systemd/private ] && break
	sleep 0.1
done
exec nsenter --target $systemd --pid --mount --wd=/conf /bin/bash /sbin/under
`

const underSystemd = `PS4='+ $SECONDS s: ' # where it stands when the machine's time is over
set -ex
export PATH=/usr/sbin:/usr/bin
soon() {
	local end=$((SECONDS + 100))
	while ((SECONDS < end)); do
		if "$@"; then return; fi
		sleep 1
	done
	echo "not within 100 s: $*"
	cordon plan || true
	cordon status || true
	exit 1
}
main() { systemctl show --property=MainPID --value cordon; }
converged() { cordon plan --detailed-exitcode >/dev/null; }
cordon install --now --interval 1h --listen= --credential git=/etc/token
active() { systemctl is-active --quiet cordon; }
active
soon converged
tr '\0' '\n' </proc/$(main)/environ | grep CREDENTIALS_DIRECTORY
test "$(cat /run/credentials/cordon.service/git)" = token
stat -c %a /var/lib/cordon | grep 700
grep -x 'NoNewPrivs:.1' /proc/$(main)/status
cordon run --project shop shell -- bash -c 'read -u 3 3<> <(:)' &
session() { cordon ps --json | grep -o '"pid": [0-9]*'; }
soon session
id=$(session)

# A restart, a reload and a crash leave the session, and repair what happened.
systemctl reload cordon
before=$(main)
systemctl restart cordon
test "$(main)" != $before
test "$(session)" = "$id"
kill -KILL $(main)
soon active
iptables -F
soon converged
test "$(session)" = "$id"
# One that hangs is started again. Stopped, it does not even take the abort.
mkdir -p /run/systemd/system/cordon.service.d
printf '[Service]\nWatchdogSec=20s\nTimeoutAbortSec=1s\n' >/run/systemd/system/cordon.service.d/soon.conf
systemctl daemon-reload
systemctl restart cordon
before=$(main)
kill -STOP $before
another() { active && test "$(main)" != $before; }
soon another
iptables -F
soon converged
test "$(session)" = "$id"
systemctl stop cordon
test "$(session)" = "$id"
iptables-save | grep -q CORDON-INPUT
echo all done
`

// The unit does what it says, under systemd itself.
func TestUnitUnderSystemd(t *testing.T) {
	const systemd = "/usr/lib/systemd/systemd"
	if _, err := exec.LookPath(systemd); err != nil {
		kerneltest.Missing(t, "systemd")
	}
	bin := cordontest.Build(t)
	files := append(vm.HostPrograms(t), vm.Program(t, bin, bin+"-full", systemd, "systemctl", "unshare", "nsenter", "kill")...)
	for _, unit := range []string{"basic", "sysinit", "shutdown", "multi-user", "network-online", "network", "umount"} {
		path := "/usr/lib/systemd/system/" + unit + ".target"
		files = append(files, vm.File{Path: path, From: path})
	}
	files = append(files,
		vm.File{Path: "/usr/bin/cordon", From: bin, Mode: 0o755},
		vm.File{Path: "/usr/bin/cordon-full", From: bin + "-full", Mode: 0o755},
		vm.File{Path: "/conf/all.hcl", Data: declared},
		vm.File{Path: "/sbin/under", Data: underSystemd})
	r := vm.Run(t, vm.Machine{Memory: 2048, Modules: vm.HostModules(), Files: files, Script: manager})
	if r.Status != 0 || !strings.Contains(r.Output, "\nall done\n") {
		t.Fatal(r)
	}
}
