package vm_test

import (
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/cordontest"
	"github.com/aicodesit/cordon/test/vm"
)

// declared is all that the machine below is to have.
const declared = `
environment "safe" { allow = ["LANG"] }

network "closed" {
  pool     = "10.202.0.0/24"
  fallback = "refuse"
  warm     = 1
}

seccomp "logged" { log = true }

sandbox "shell" {
  seccomp     = seccomp.logged
  namespaces  = ["pid", "ipc", "uts", "cgroup"]
  network     = network.closed
  environment = environment.safe

  filesystem {
    programs = ["/bin/bash", "/bin/busybox"]
    tmpfs "/tmp" { size = "16MiB" }
    bind "/work" {
      from     = session.project.directory
      writable = true
    }
  }

  limits {
    memory = "128MiB"
    cpu    = "50%"
    pids   = 32
  }
}

project "shop" {
  directory = "/srv/shop"
  user      = "shop"
  sandboxes = [sandbox.shell]
}
`

// What is shown in the session is the proof; the rest of the script must
// succeed line by line.
const freshHost = `#!/bin/bash
set -ex
echo 'shop:x:4101:4101::/:/bin/false' >>/etc/passwd
echo 'shop:x:4101:' >>/etc/group
mkdir -p /srv/shop
chown 4101:4101 /srv/shop
cd /conf
cordon validate
cordon doctor || true
cordon apply --auto-approve
cordon plan --detailed-exitcode
LANG=C.UTF-8 SECRET=leak cordon run --project shop shell -- bash -c '
	echo "uid=$UID"
	while read -r key value _; do case $key in CapBnd: | NoNewPrivs: | Seccomp: | Seccomp_filters:) echo "$key$value" ;; esac; done </proc/self/status
	echo "secret=${SECRET-none}"
	busybox chroot / true || true
	(exec 3<>/dev/tcp/192.0.2.1/80) 2>&1 || true
	echo made >/work/made
'
test "$(stat -c %u /srv/shop/made)" = 4101
dmesg | grep 'type=1326 .* uid=4101 .* comm="busybox" .* syscall=161 .* code=0x50000'
status=0
cordon run --project shop shell -- bash -c 'x=x; while :; do x=$x$x; done' || status=$?
echo "out of memory: $status"
cordon plan --detailed-exitcode
iptables -F
status=0
cordon plan --detailed-exitcode >/dev/null || status=$?
test "$status" = 2
cordon apply --auto-approve
cordon plan --detailed-exitcode
cordon destroy --auto-approve
! { iptables-save; ip6tables-save; } | grep CORDON
! grep /run/cordon/ /proc/self/mountinfo
test "$(ip -o link | wc -l)" = 1
echo all done
`

// From files to a session and back to nothing, where no cordon ever was.
func TestCordonOnAFreshHost(t *testing.T) {
	bin := cordontest.Build(t)
	files := append(vm.HostPrograms(t), vm.Program(t, bin, bin+"-full")...)
	files = append(files,
		vm.File{Path: "/usr/bin/cordon", From: bin},
		vm.File{Path: "/usr/bin/cordon-full", From: bin + "-full"},
		vm.File{Path: "/conf/all.hcl", Data: declared})
	r := vm.Run(t, vm.Machine{Memory: 2048, Modules: vm.HostModules(), Files: files, Script: freshHost})
	if r.Status != 0 || !strings.HasSuffix(r.Output, "\nall done\n") {
		t.Fatal(r)
	}
	for _, want := range []string{
		"uid=4101\n", "CapBnd:0000000000000000\n", "NoNewPrivs:1\n", "Seccomp:2\n", "Seccomp_filters:2\n", "secret=none\n",
		"Network is unreachable", "out of memory: 137\n",
	} {
		if !strings.Contains(r.Output, want) {
			t.Errorf("no %q in\n%s", want, r.Output)
		}
	}
}
