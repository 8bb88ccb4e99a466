package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// files is how many files of the host a sandbox shows in the start bench.
const files = 100

// sandboxHCL is the sandbox of all benches: as the agent's in
// examples/aicodesit, with a number of plain files.
const sandboxHCL = `
environment "safe" { allow = ["PATH", "HOME", "TERM", "LANG"] }

proxy "llm" {
  port     = 3000
  upstream = "https://llm.example"
  paths    = ["/v1/messages"]
}

network "llm-only" {
  pool  = "10.202.0.0/16"
  allow = [proxy.llm]
  warm  = %d
}

seccomp "agent" {
  base = "container"
  deny = ["ptrace", "process_vm_readv", "process_vm_writev", "keyctl", "add_key", "io_uring_setup", "userfaultfd", "perf_event_open"]
}

sandbox "claude-code" {
  namespaces  = ["pid", "ipc", "uts", "cgroup"]
  network     = network.llm-only
  environment = environment.safe
  seccomp     = seccomp.agent

  filesystem {
    programs = ["/bin/true", "/bin/bash", "/usr/bin/env"]
    files    = [%s]
    tmpfs "/tmp" { size = "256MiB" }
    bind "/work" {
      from     = session.project.directory
      writable = true
    }
  }

  limits {
    memory = "512MiB"
    cpu    = "80%%"
    pids   = 64
  }
}

project "shop" {
  directory = "/srv/projects/shop"
  user      = "shop"
  sandboxes = [sandbox.claude-code]
}
`

// plainFiles makes n files and returns their paths.
func (b *bench) plainFiles(n int) ([]string, error) {
	var paths []string
	for i := range n {
		p := fmt.Sprintf("/opt/bench/file-%03d", i)
		if err := write(p, "content\n", 0o644); err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

func quoted(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = `"` + s + `"`
	}
	return strings.Join(q, ", ")
}

// start times a session from start to exit, against what else starts one.
func (b *bench) start() error {
	paths, err := b.plainFiles(files)
	if err != nil {
		return err
	}
	conf := filepath.Join(b.work, "start")
	if err := write(filepath.Join(conf, "all.hcl"), fmt.Sprintf(sandboxHCL, 4, quoted(paths)), 0o644); err != nil {
		return err
	}
	if err := b.do("-C", conf, "apply", "--auto-approve"); err != nil {
		return err
	}
	bundle, err := b.bundle(paths)
	if err != nil {
		return err
	}
	readNetns := []string{"/usr/bin/readlink", "/proc/self/ns/net"}
	field := []*contender{
		{name: "cordon run, all isolation, 100 files", argv: []string{b.cordon, "-C", conf, "run", "--project", "shop", "claude-code", "--", "true"}},
		{name: "bwrap, only --unshare-*, 100 --ro-bind", argv: bwrap(paths, "/bin/true"), verify: bwrap(paths, readNetns...)},
		{name: "bwrap, only --unshare-*, almost empty", argv: bwrap(nil, "/bin/true"), verify: bwrap(nil, readNetns...)},
		{name: "runc run, busybox, 100 bind mounts", argv: []string{"sh", "-c", "exec runc --root /run/bench/runc run --no-pivot --bundle " + bundle + " bench-$$"}},
		{name: "firejail, no network, 100 --whitelist", argv: firejail(paths, "/bin/true"), verify: firejail(paths, readNetns...)},
		{name: "no isolation: true", argv: []string{"/bin/true"}},
	}
	race(b.n, field)
	table(fmt.Sprintf("Start to exit of `true` in a sandbox, %d runs of each in turn; ratios to cordon", b.n), field)
	return b.do("-C", conf, "destroy", "--auto-approve")
}

// do runs cordon for its effect.
func (b *bench) do(args ...string) error {
	out, err := exec.Command(b.cordon, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cordon %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func bwrap(paths []string, command ...string) []string {
	argv := []string{
		"bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin",
		"--proc", "/proc", "--dev", "/dev",
	}
	for _, p := range paths {
		argv = append(argv, "--ro-bind", p, p)
	}
	return append(argv, command...)
}

func firejail(paths []string, command ...string) []string {
	argv := []string{"firejail", "--quiet", "--noprofile", "--net=none", "--caps.drop=all", "--seccomp", "--private-tmp"}
	for _, p := range paths {
		argv = append(argv, "--whitelist="+p)
	}
	return append(argv, command...)
}

// bundle makes an OCI bundle of busybox and the files, and returns its path.
func (b *bench) bundle(paths []string) (string, error) {
	dir := filepath.Join(b.work, "bundle")
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return "", err
	}
	binary, err := os.ReadFile(busybox)
	if err != nil {
		return "", err
	}
	if err := write(filepath.Join(dir, "rootfs/bin/true"), string(binary), 0o755); err != nil {
		return "", err
	}
	for _, d := range []string{"proc", "dev", "tmp", "opt/bench"} {
		if err := os.MkdirAll(filepath.Join(dir, "rootfs", d), 0o755); err != nil {
			return "", err
		}
	}
	for _, p := range paths {
		if err := write(filepath.Join(dir, "rootfs", p), "", 0o644); err != nil {
			return "", err
		}
	}
	return dir, write(filepath.Join(dir, "config.json"), ociConfig(paths), 0o644)
}
