package watch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/specs"
)

func TestMounts(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "unshare", "nsenter")
	dir := newDir(t)
	run := func(script string) func() { return doing(t, in(dir, script)) }
	sh(t, in(dir, `
mount --bind RUN/roots RUN/roots; mount --make-private RUN/roots
mkdir RUN/roots/agent; mount -t tmpfs cordon RUN/roots/agent; touch RUN/roots/agent/sh; mount --bind /bin/sh RUN/roots/agent/sh
mount -o remount,bind,ro RUN/roots/agent/sh
mkdir -p /tmp/elsewhere.$PPID`))
	t.Cleanup(func() { sh(t, in(dir, `umount -l RUN/roots; rmdir /tmp/elsewhere.$PPID`)) })
	w := watching(t, Mounts{dir}, 2*rest)
	w.steps([]step{
		{"a writable remount", root, run(`mount -o remount,bind,rw RUN/roots/agent/sh`)},
		{"unmounted", root, run(`umount RUN/roots/agent/sh`)},
		{"mounted over", root, run(`mount -t tmpfs over RUN/roots/agent`)},
		{"over the whole run directory", root, run(`mount --bind RUN/roots RUN`)},
		{"and off", root, run(`umount RUN`)},
		{"a pin", slot, run(`touch RUN/netns/n.0; unshare --net=RUN/netns/n.0 true`)},
		{"a pin taken away", slot, run(`umount RUN/netns/n.0`)},
		{"elsewhere", "", run(`mount -t tmpfs x /tmp/elsewhere.$PPID; umount /tmp/elsewhere.$PPID`)},
		{"in another namespace", "", run(`unshare --mount --propagation private sh -c 'mount -t tmpfs x RUN/roots/agent'`)},
	})
}

func TestFiles(t *testing.T) {
	kerneltest.Host(t)
	dir := newDir(t)
	run := func(script string) func() { return doing(t, in(dir, script)) }
	sh(t, in(dir, `echo x >RUN/seccomp/a.bpf; mkdir RUN/sessions/0123abcd; echo '{}' >RUN/sessions/0123abcd/lease.json; touch RUN/sessions/0123abcd/lock`))
	w := watching(t, Files{dir}, 2*rest)
	w.steps([]step{
		{"reading", "", run(`cat RUN/seccomp/a.bpf; ls -lR RUN; flock -s RUN/sessions/0123abcd/lock true`)},
		{"a filter altered in place", seccomp, run(`printf y | dd of=RUN/seccomp/a.bpf conv=notrunc status=none`)},
		{"a filter's mode", seccomp, run(`chmod 666 RUN/seccomp/a.bpf`)},
		{"a filter replaced", seccomp, run(`echo z >RUN/seccomp/.new; mv RUN/seccomp/.new RUN/seccomp/a.bpf`)},
		{"a filter removed", seccomp, run(`rm RUN/seccomp/a.bpf`)},
		{"a manifest", root, run(`echo '{}' >RUN/roots/agent.json`)},
		{"a lease altered", session, run(`echo ' ' >>RUN/sessions/0123abcd/lease.json`)},
		{"what else a session has", "", run(`echo token >RUN/sessions/0123abcd/token`)},
		{"another session", session, run(`mkdir RUN/sessions/.new-1; touch RUN/sessions/.new-1/lease.json; mv RUN/sessions/.new-1 RUN/sessions/89abcdef`)},
		{"its lease altered", session, run(`echo ' ' >>RUN/sessions/89abcdef/lease.json`)},
		{"a session's cgroup hears of it too", cgroup, run(`rm -r RUN/sessions/89abcdef`)},
		{"a pin", slot, run(`touch RUN/netns/n.0`)},
		{"forwarding", network, run(`echo 0 >RUN/forwarding`)},
		{"kept rules", "", run(`echo x >RUN/rules.ipv4; touch RUN/lock`)},
		{"all filters", seccomp, run(`rm -r RUN/seccomp`)},
		{"made again", seccomp, run(`mkdir RUN/seccomp`)},
		{"a filter in the new ones", seccomp, run(`echo x >RUN/seccomp/b.bpf`)},
		{"another directory in its place", seccomp, run(`mv RUN/seccomp RUN/old; mkdir RUN/seccomp`)},
		{"a filter in that", seccomp, run(`echo x >RUN/seccomp/c.bpf`)},
		{"one in the old", "", run(`echo x >RUN/old/c.bpf`)},
		{"everything", session, run(`rm -r RUN`)},
		{"everything is back", session, run(`mkdir -p RUN/sessions/0123abcd RUN/seccomp`)},
		{"a lease there", session, run(`echo '{}' >RUN/sessions/0123abcd/lease.json`)},
	})
}

func TestFilesOverrun(t *testing.T) {
	kerneltest.Host(t)
	const limit = "/proc/sys/fs/inotify/max_queued_events"
	old, err := os.ReadFile(limit)
	if err != nil {
		t.Fatal(err)
	}
	dir := newDir(t)
	// The limit is the one when an instance is made.
	if err := os.WriteFile(limit, []byte("16"), 0o644); err != nil {
		kerneltest.Missing(t, "the right to set "+limit)
	}
	w := watching(t, Files{dir}, 2*rest)
	if err := os.WriteFile(limit, old, 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		_ = os.WriteFile(filepath.Join(string(dir), "seccomp", string(rune('a'+i%26))), nil, 0o600)
		_ = os.Chmod(filepath.Join(string(dir), "seccomp", string(rune('a'+i%26))), os.FileMode(0o600+i%2))
	}
	w.all() // no filter wakes more than seccomp
	w.quiet()
	sh(t, in(dir, `touch RUN/roots/x`))
	w.wakes(root)
}

// lease leaves one of a process that runs until end is called.
func lease(t *testing.T, dir rundir.Dir, id string) (end func()) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(end)
	b, err := json.Marshal(specs.Lease{ID: id, PID: cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	making := filepath.Join(string(dir), "sessions", ".new-1")
	for _, err := range []error{os.Mkdir(making, 0o700), os.WriteFile(filepath.Join(making, "lease.json"), b, 0o600), os.Rename(making, dir.Session(id))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return end
}

func TestProcesses(t *testing.T) {
	kerneltest.Host(t)
	dir := newDir(t)
	first := lease(t, dir, "00000001")
	w := watching(t, Processes{dir}, 2*rest)
	var second func()
	w.steps([]step{
		{"a session from before is killed", session, first},
		{"one starts", session, func() { second = lease(t, dir, "00000002") }},
		{"it is killed", network, func() { second() }},
	})
}
