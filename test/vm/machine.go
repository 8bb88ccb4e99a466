package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

// Machine is a host to boot.
type Machine struct {
	Memory  int           // MiB; 1024 when 0
	Timeout time.Duration // from power on; 4 minutes when 0
	Files   []File        // beside busybox, which is in /bin
	Modules []string      // of the kernel, as paths below its module directory ("net/netfilter", "drivers/net/veth"); what they need comes along
	Script  string        // run as root with the usual mounts and loopback up; its #! line names the shell (busybox sh takes its own applets before programs)
}

// Result is what the script left behind.
type Result struct {
	Status  int    // its exit status
	Output  string // its standard output and standard error
	Console string // the kernel's messages
}

// String has the output at the end, where it tells how far the script came.
func (r Result) String() string {
	return fmt.Sprintf("--- console\n%s\n--- output\n%s\n--- status %d", r.Console, r.Output, r.Status)
}

// Run boots m, waits until its script has ended and returns what it said. The
// test fails when the script did not end, whatever the reason; its status is
// the caller's to judge.
func Run(t testing.TB, m Machine) Result {
	t.Helper()
	kerneltest.Program(t, "qemu-system-x86_64", "busybox")
	k, err := findKernel()
	if err != nil {
		kerneltest.Missing(t, err.Error())
	}
	dir := t.TempDir()
	initrd := filepath.Join(dir, "initrd")
	if err := m.writeInitrd(initrd, k); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), orDefault(m.Timeout, 4*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", m.arguments(k.image, initrd, dir)...)
	said, runErr := cmd.CombinedOutput()
	r := Result{Status: -1, Output: read(dir, "output"), Console: read(dir, "console")}
	status, err := strconv.Atoi(strings.TrimSpace(read(dir, "status")))
	if err != nil {
		t.Fatalf("the machine's script did not end (qemu: %v, %v)\n%s\n%s", runErr, ctx.Err(), said, r)
	}
	r.Status = status
	return r
}

// arguments gives the machine three serial lines: the kernel's console, the
// script's output and its exit status, so that none can be taken for another. Its
// processors share a thread: with one each, QEMU 7.2 goes on executing what was in
// memory before another of them changed it. The kernel changes its own text, as when
// the first cgroup has a bound on its processor time, and hung.
func (m Machine) arguments(image, initrd, dir string) []string {
	args := []string{
		"-machine", "pc", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2",
		"-m", strconv.Itoa(orDefault(m.Memory, 1024)),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", image, "-initrd", initrd,
		"-append", "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off random.trust_cpu=on tsc=unstable",
	}
	for _, line := range []string{"console", "output", "status"} {
		args = append(args, "-serial", "file:"+filepath.Join(dir, line))
	}
	return args
}

// prologue is the first process: it makes the memory file system a mount of
// its own, because the kernel's first root can't be pivoted away from, and
// hands over to main.
const prologue = `#!/bin/busybox sh
/bin/busybox --install -s /bin
ln -s ../bin/modprobe /sbin/modprobe
mkdir -p /newroot
mount --bind / /newroot
cd /newroot
mount --move . /
exec chroot . /sbin/main
`

const mainScript = `#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
mkdir -p /proc /sys /dev /run /tmp /root /var/tmp
chmod 1777 /tmp /var/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
hostname fresh
ip link set lo up
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo
/sbin/script </dev/null >/dev/ttyS1 2>&1
echo $? >/dev/ttyS2
sync
poweroff -f
`

func (m Machine) writeInitrd(path string, k kernel) error {
	files := []File{
		{Path: "/init", Data: prologue, Mode: 0o755},
		{Path: "/sbin/main", Data: mainScript, Mode: 0o755},
		{Path: "/sbin/script", Data: m.Script, Mode: 0o755},
		{Path: "/etc/passwd", Data: "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"},
		{Path: "/etc/group", Data: "root:x:0:\nnogroup:x:65534:\n"},
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	files = append(files, File{Path: "/bin/busybox", From: busybox})
	modules, err := k.modules(m.Modules)
	if err != nil {
		return err
	}
	files = append(append(files, modules...), m.Files...)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := writeArchive(f, files); err != nil {
		_ = f.Close()
		return fmt.Errorf("initrd: %w", err)
	}
	return f.Close()
}

func read(dir, name string) string {
	b, _ := os.ReadFile(filepath.Join(dir, name)) // not there: the machine never got that far
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}
