package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aicodesit/cordon/reconciler"
)

// Examine implements reconciler.Examiner: which hierarchies there are, and
// which of the limits they can keep.
func (e *Enforcer) Examine(context.Context) []reconciler.Finding {
	hs, err := e.kernel.hierarchies()
	if err != nil || len(hs) == 0 {
		return []reconciler.Finding{{
			Subject: "cgroup", Status: reconciler.Fail, Text: fmt.Sprintf("no hierarchy is mounted (%v): no session can start", err),
			Remedy: "mount -t cgroup2 none /sys/fs/cgroup",
		}}
	}
	out := []reconciler.Finding{version(hs)}
	for _, c := range []string{memory, cpu, pids} {
		f := reconciler.Finding{Subject: "cgroup " + c, Status: reconciler.Fail, Text: "no hierarchy has this controller: a sandbox with such a limit is refused"}
		f.Remedy = "enable it in the kernel (cgroup_enable=" + c + "), or delegate it to where cordon runs"
		for _, h := range hs {
			if h.has(c) {
				f.Status, f.Text, f.Remedy = reconciler.OK, h.String(), ""
			}
		}
		out = append(out, f)
	}
	return append(out, swapFinding(hs))
}

func version(hs []hierarchy) reconciler.Finding {
	var text []string
	v1, v2 := false, false
	for _, h := range hs {
		v1, v2 = v1 || !h.v2, v2 || h.v2
		text = append(text, h.String())
	}
	f := reconciler.Finding{Subject: "cgroup", Status: reconciler.OK, Text: strings.Join(text, ", ")}
	if v1 && !v2 {
		f.Status = reconciler.Warn
		f.Text += ": v1 only, so the processes of a session are killed one by one"
		f.Remedy = "boot with systemd.unified_cgroup_hierarchy=1"
	}
	return f
}

func swapFinding(hs []hierarchy) reconciler.Finding {
	f := reconciler.Finding{Subject: "cgroup swap", Status: reconciler.OK, Text: "bounded together with memory"}
	for _, h := range hs {
		if h.has(memory) && swapAccounted(h) {
			return f
		}
	}
	if !swapInUse() {
		f.Text = "the kernel does not account for swap, and the host has none"
		return f
	}
	f.Status = reconciler.Fail
	f.Text = "the kernel does not account for swap: a sandbox with a memory limit is refused"
	f.Remedy = "boot with swapaccount=1, or turn swap off"
	return f
}

// swapAccounted looks at the root of v1, and at any group of v2, whose root
// has no limits.
func swapAccounted(h hierarchy) bool {
	if !h.v2 {
		_, err := os.Stat(filepath.Join(h.path, "memory.memsw.limit_in_bytes"))
		return err == nil
	}
	found, _ := filepath.Glob(filepath.Join(h.path, "*", "memory.swap.max"))
	below, _ := filepath.Glob(filepath.Join(h.path, "*", "memory.max"))
	return len(found) > 0 || len(below) == 0
}
