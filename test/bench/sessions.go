package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/specs"
)

// sessions times a plan with nothing to do, and the start of one more session
// that has to have its slot made for it, at numbers of running sessions. Those
// that run are their leases, held by this process: what they need of the host
// is real, only nobody is inside.
func (b *bench) sessions() error {
	conf := filepath.Join(b.work, "sessions")
	if err := write(filepath.Join(conf, "all.hcl"), fmt.Sprintf(sandboxHCL, 0, ""), 0o644); err != nil {
		return err
	}
	if err := b.do("-C", conf, "apply", "--auto-approve"); err != nil {
		return err
	}
	set, diags := hcl.Load(conf, hcl.Options{Environ: os.Environ()})
	if diags.HasErrors() {
		return fmt.Errorf("%s: does not load", conf)
	}
	var rows []growth
	held := 0
	for _, size := range append([]int{0}, b.sizes...) {
		for ; held < size; held++ {
			lock, err := hold(set, held)
			if err != nil {
				return err
			}
			defer lock.Close()
		}
		if err := b.do("-C", conf, "apply", "--auto-approve"); err != nil {
			return err
		}
		field := []*contender{
			{name: "plan", argv: []string{b.cordon, "-C", conf, "plan", "--detailed-exitcode"}},
			{name: "run, slot made", argv: []string{b.cordon, "-C", conf, "run", "--project", "shop", "claude-code", "--", "true"}},
		}
		race(max(5, b.n/4), field)
		rows = append(rows, growth{size: size, field: field})
	}
	grown("A plan with nothing to do, and one more session with a slot of its own, by the number of sessions", "sessions", rows)
	return nil // the sessions end with this process, and the host with it
}

// hold writes the lease of the session in a slot, as enforcers/session lays
// it out, and keeps it alive until the file is closed.
func hold(set specs.Set, slot int) (*os.File, error) {
	id := fmt.Sprintf("%08x", slot+1)
	dir := rundir.Dir("/run/cordon").Session(id)
	lease := struct {
		specs.Lease
		Seccomp string `json:"seccomp"`
	}{specs.Lease{
		ID: id, Sandbox: "claude-code", Project: "shop", User: "shop", Network: "llm-only", Slot: slot,
		Limits: set.Sandboxes[0].Limits, Digest: set.SandboxDigest("claude-code"),
		Started: time.Now(), Command: []string{"true"}, PID: os.Getpid(),
	}, "agent"}
	text, err := json.Marshal(lease)
	if err != nil {
		return nil, err
	}
	if err := write(filepath.Join(dir, "lease.json"), string(text), 0o600); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return lock, unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}
