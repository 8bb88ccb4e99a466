package watch

import (
	"context"
	"os"
	"path/filepath"

	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/specs"
)

// Files watches what enforcers keep in the run directory.
type Files struct{ Dir rundir.Dir }

// Name implements [Watcher].
func (Files) Name() string { return "files" }

// Parts implements [Watcher].
func (Files) Parts() []string { return []string{seccomp, root, session, cgroup, slot, network} }

// Run implements [Watcher].
func (f Files) Run(ctx context.Context, wake Wake) error {
	return named(ctx, f.Name(), func() error {
		return follow(ctx, wake, rest, f.Parts(), []place{{
			path:  filepath.Dir(string(f.Dir)),
			parts: only(filepath.Base(string(f.Dir)), f.Parts()...),
			below: func(string) []place { return []place{f.top()} },
		}})
	})
}

// only wakes parts when the name changes.
func only(name string, parts ...string) func(string) []string {
	return func(changed string) []string {
		if changed != name {
			return nil
		}
		return parts
	}
}

func always(parts ...string) func(string) []string { return func(string) []string { return parts } }

// ofSessions are the parts that a session that comes or goes has to do with.
func ofSessions() []string { return []string{session, cgroup, slot, network} }

func (f Files) top() place {
	dirs := map[string][]string{
		filepath.Base(filepath.Dir(f.Dir.Seccomp(""))):   {seccomp},
		filepath.Base(filepath.Dir(f.Dir.Root("x"))):     {root},
		filepath.Base(filepath.Dir(f.Dir.Netns("n", 0))): {slot},
		filepath.Base(filepath.Dir(f.Dir.Session("x"))):  ofSessions(),
	}
	return place{
		path: string(f.Dir),
		parts: func(name string) []string {
			if name == filepath.Base(f.Dir.Forwarding()) {
				return []string{network}
			}
			return dirs[name]
		},
		below: func(dir string) []place {
			var out []place
			for name, parts := range dirs {
				p := place{path: filepath.Join(dir, name), parts: always(parts...)}
				if p.path == filepath.Dir(f.Dir.Session("x")) {
					p.below = sessionDirs
				}
				out = append(out, p)
			}
			return out
		},
	}
}

// sessionDirs are those of leases, in which others are being made.
func sessionDirs(dir string) []place {
	return subdirs(dir, specs.ValidSessionID, func(name string) []string {
		if name == leaseFile || name == "lock" || name == "" {
			return ofSessions()
		}
		return nil
	})
}

// subdirs are the directories in dir whose names are wanted.
func subdirs(dir string, wanted func(string) bool, parts func(string) []string) []place {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // gone: its parent tells
	}
	var out []place
	for _, e := range entries {
		if e.IsDir() && wanted(e.Name()) {
			out = append(out, place{path: filepath.Join(dir, e.Name()), parts: parts})
		}
	}
	return out
}
