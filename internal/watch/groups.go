package watch

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/aicodesit/cordon/specs"
)

// Groups watches the cgroups of sessions in every hierarchy.
type Groups struct{ Parent string }

// Name implements [Watcher].
func (Groups) Name() string { return "cgroups" }

// Parts implements [Watcher].
func (Groups) Parts() []string { return []string{cgroup} }

// Run implements [Watcher].
func (g Groups) Run(ctx context.Context, wake Wake) error {
	return named(ctx, g.Name(), func() error {
		mounts, err := hierarchies()
		if err != nil {
			return err
		}
		var tops []place
		for _, m := range mounts {
			tops = append(tops, g.down(m, strings.Split(g.Parent, "/")))
		}
		return follow(ctx, wake, rest, g.Parts(), tops)
	})
}

// hierarchies is where cgroup v2 is mounted, and those of v1 with a controller
// that bounds sessions.
func hierarchies() ([]string, error) {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		controllers := strings.Split(m.VFSOptions, ",")
		v1 := m.FSType == "cgroup" &&
			slices.ContainsFunc([]string{"memory", "cpu", "pids"}, func(c string) bool { return slices.Contains(controllers, c) })
		return !v1 && m.FSType != "cgroup2", false
	})
	var paths []string
	for _, m := range mounts {
		paths = append(paths, m.Mountpoint)
	}
	return paths, err
}

// down is dir, in which the groups of path come one below the other.
func (g Groups) down(dir string, path []string) place {
	if len(path) == 0 {
		return place{
			path: dir,
			parts: func(name string) []string {
				if name != "" && !specs.ValidSessionID(name) {
					return nil
				}
				return g.Parts()
			},
			below: func(dir string) []place { return subdirs(dir, specs.ValidSessionID, g.limits) },
		}
	}
	return place{
		path:  dir,
		parts: only(path[0], g.Parts()...),
		below: func(dir string) []place { return []place{g.down(filepath.Join(dir, path[0]), path[1:])} },
	}
}

// limits is woken by the files that bound a group, and by the group itself.
// What the kernel counts in others changes all the time.
func (g Groups) limits(name string) []string {
	switch name {
	case "", "memory.max", "memory.swap.max", "cpu.max", "pids.max",
		"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "cpu.cfs_quota_us", "cpu.cfs_period_us":
		return g.Parts()
	}
	return nil
}
