package watch

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/specs"
)

// Projects watches the configuration of projects' repositories. Projects may
// write there what they like, so that little is looked at and not more often
// than a few times a second.
type Projects struct{ List []specs.Project }

// gitRest is [rest] for what sessions can make happen.
const gitRest = 250 * time.Millisecond

// Name implements [Watcher].
func (Projects) Name() string { return "projects" }

// Parts implements [Watcher].
func (Projects) Parts() []string { return []string{git} }

// Run implements [Watcher].
func (p Projects) Run(ctx context.Context, wake Wake) error {
	return named(ctx, p.Name(), func() error { return follow(ctx, wake, gitRest, p.Parts(), p.tops()) })
}

// tops are the directories that projects are in: a project's own may come.
func (p Projects) tops() []place {
	in := map[string][]string{} // projects' directories by the one they are in
	for _, project := range p.List {
		if project.Git != nil {
			parent := filepath.Dir(project.Directory)
			in[parent] = append(in[parent], project.Directory)
		}
	}
	var out []place
	for parent, dirs := range in {
		out = append(out, place{
			path: parent,
			open: func() (int, error) { return openDir(unix.AT_FDCWD, parent, 0) },
			parts: func(name string) []string {
				for _, d := range dirs {
					if filepath.Base(d) == name {
						return p.Parts()
					}
				}
				return nil
			},
			below: func(string) (out []place) {
				for _, d := range dirs {
					out = append(out, p.project(d))
				}
				return out
			},
		})
	}
	return out
}

func (p Projects) project(dir string) place {
	return place{
		path:  dir,
		open:  func() (int, error) { return openDir(unix.AT_FDCWD, dir, 0) },
		parts: only(".git", p.Parts()...),
		below: func(string) []place {
			return []place{{
				path: filepath.Join(dir, ".git"),
				open: func() (int, error) {
					top, err := openDir(unix.AT_FDCWD, dir, 0)
					if err != nil {
						return -1, err
					}
					defer unix.Close(top)
					return openDir(top, ".git", unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS|unix.RESOLVE_NO_XDEV)
				},
				parts: func(name string) []string {
					switch name {
					case "", "config", "commondir", "config.worktree":
						return p.Parts()
					}
					return nil
				},
			}}
		},
	}
}

func openDir(at int, path string, resolve uint64) (int, error) {
	for {
		fd, err := unix.Openat2(at, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolve})
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}
