// Package kerneltest gives a test binary a host of its own: network and mount
// namespaces in which links, rules, sets and mounts may be made and all vanish
// with the process.
package kerneltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inHost is set for the process that runs inside its own host.
const inHost = "CORDON_TEST_HOST"

// Main runs a package's tests inside a host of their own; call it from
// TestMain. Without root it runs them as they are: those that call [Host] are
// then skipped, or fail where CI is set.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(inHost) != "" {
		if err := settle(); err != nil {
			fmt.Fprintln(os.Stderr, "test host:", err)
			return 1
		}
		return m.Run()
	}
	if os.Geteuid() != 0 {
		return m.Run()
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inHost+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "test host:", err)
		return 1
	}
	return 0
}

// settle makes the new namespaces look like a host: mounts that don't reach
// the outside, an empty /run, loopback up.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

// Host skips the test where [Main] had no privilege to make a host; where CI
// is set it fails it, for there a skipped promise is a broken one.
func Host(t testing.TB) {
	t.Helper()
	if os.Getenv(inHost) == "" {
		Missing(t, "root, to make namespaces")
	}
}

// Program fails or skips like [Host] when one of the programs is not on PATH.
func Program(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			Missing(t, n)
		}
	}
}

// Missing skips the test for lack of what, and fails it in CI.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("needs %s, and CI must have it", what)
	}
	t.Skipf("needs %s", what)
}

// CgroupParent returns the name of a cgroup subtree for this test alone, and
// removes it from every hierarchy at the test's end.
func CgroupParent(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("cordon-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		for _, root := range cgroupRoots() {
			removeTree(filepath.Join(root, name))
		}
	})
	return name
}

func cgroupRoots() []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var roots []string
	for _, line := range strings.Split(string(b), "\n") {
		if _, tail, ok := strings.Cut(line, " - cgroup"); ok && tail != "" {
			roots = append(roots, strings.Fields(line)[4])
		}
	}
	return roots
}

func removeTree(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}
