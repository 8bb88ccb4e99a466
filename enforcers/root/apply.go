package root

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler"
)

// Apply implements [reconciler.Enforcer]. When a tree can't be built whole,
// the one that is there stays.
func (e *Enforcer) Apply(ctx context.Context, c reconciler.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if c.After == nil {
		err = e.remove(c.Addr())
	} else {
		err = e.build(c.After)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Addr(), err)
	}
	return nil
}

func (e *Enforcer) build(want reconciler.Resource) error {
	r, ok := want.(Resource)
	if !ok {
		return fmt.Errorf("%T is no mount tree", want)
	}
	r.Drift = nil
	p, err := resolve(r)
	if err != nil {
		return err
	}
	e.warn(r, p)
	dir, err := e.trees()
	if err != nil {
		return err
	}
	at := e.paths(r.Sandbox)
	if err := e.stage(at, r, p); err != nil {
		return errors.Join(err, clearPath(at.stage))
	}
	m := &manifest{Layout: layout, Declared: r, Plan: p}
	mounted, err := m.survey(dir, at)
	if err != nil {
		return errors.Join(err, clearPath(at.stage))
	}
	if err := os.MkdirAll(at.root, 0o755); err != nil {
		return errors.Join(err, clearPath(at.stage))
	}
	if err := replace(at.stage, at.root, mounted); err != nil {
		return errors.Join(err, clearPath(at.stage))
	}
	// Killed before this, the manifest names another device than the tree
	// has: that is drift, and the tree is built again.
	if err := m.write(at); err != nil {
		return err
	}
	return clearPath(at.stage)
}

// trees makes the directory of trees and returns it as the mount table writes it.
func (e *Enforcer) trees() (string, error) {
	dir, err := e.dir.Make(filepath.Base(filepath.Dir(e.dir.Root("x"))))
	if err != nil {
		return "", err
	}
	if dir, err = realDir(dir); err != nil {
		return "", err
	}
	return dir, anchor(dir)
}

// stage builds the whole tree at its hidden path.
func (e *Enforcer) stage(at paths, r Resource, p plan) error {
	if err := clearPath(at.stage); err != nil {
		return err
	}
	if err := os.Mkdir(at.stage, 0o755); err != nil {
		return err
	}
	root, err := newTree(at.stage)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := fill(root, r, p); err != nil {
		return err
	}
	return os.NewSyscallError("mount_setattr", seal(root))
}

// fill makes directories, files, links and binds, in this order: while there
// are no links yet, no name can lead through one.
func fill(root int, r Resource, p plan) error {
	dirs, files := skeleton(r, p)
	for _, d := range dirs {
		if err := makeDir(root, d); err != nil {
			return err
		}
	}
	for _, f := range files {
		content := ""
		if f == "/etc/nsswitch.conf" {
			content = "passwd: files\ngroup: files\nhosts: files dns\n"
		}
		if err := makeFile(root, f, content); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Links)) {
		if err := makeLink(root, name, p.Links[name]); err != nil {
			return err
		}
	}
	for _, f := range p.Files {
		if err := bind(root, f); err != nil {
			return err
		}
	}
	return nil
}

// survey puts into m what identifies the staged tree, and returns how many
// mounts are where it shall go.
func (m *manifest) survey(dir string, at paths) (int, error) {
	var st unix.Stat_t
	if err := unix.Lstat(at.stage, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: at.stage, Err: err}
	}
	m.Device, m.Changed = st.Dev, st.Ctim.Nano()
	mounts, err := mountsBelow(dir)
	if err != nil {
		return 0, err
	}
	stage := filepath.Join(dir, filepath.Base(at.stage))
	mounted := map[string]bool{}
	for _, i := range mounts {
		if within(i.Mountpoint, stage) {
			name := strings.TrimPrefix(i.Mountpoint, stage)
			m.Mounts = append(m.Mounts, mountOf(name, i))
			mounted[name] = true
		}
	}
	slices.SortFunc(m.Mounts, func(a, b mount) int { return strings.Compare(a.Path, b.Path) })
	m.Entries, err = entriesOf(stage, func(name string) bool { return mounted[name] }, func(string) bool { return true })
	if err != nil {
		return 0, err
	}
	return count(mounts, filepath.Join(dir, filepath.Base(at.root))), nil
}

// warn tells of sources that others than root may write to.
func (e *Enforcer) warn(r Resource, p plan) {
	for _, f := range p.Files {
		var st unix.Stat_t
		if unix.Lstat(f.Path, &st) != nil {
			continue
		}
		if st.Uid != 0 || st.Mode&0o002 != 0 || st.Gid != 0 && st.Mode&0o020 != 0 {
			e.log.Warn("others than root may change what the sandbox's sessions run",
				slog.String("sandbox", r.Sandbox), slog.String("path", f.Path), slog.String("needed_by", f.By))
		}
	}
}

// remove takes away the tree, its manifest and what a killed build left; with
// the last tree the anchor goes too.
func (e *Enforcer) remove(addr reconciler.Addr) error {
	sandbox, err := sandboxOf(addr)
	if err != nil {
		return err
	}
	at := e.paths(sandbox)
	for _, p := range []string{at.root, at.stage} {
		if err := clearPath(p); err != nil {
			return err
		}
	}
	for _, p := range []string{at.manifest, at.unfinished} {
		if err := ignoreMissing(os.Remove(p)); err != nil {
			return err
		}
	}
	dir := filepath.Dir(at.root)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		return ignoreMissing(err)
	}
	if err := unmount(dir); err != nil {
		return err
	}
	return ignoreMissing(os.Remove(dir))
}

// clearPath unmounts and removes a mount point. The directory must be empty
// below the mounts: nothing is removed recursively.
func clearPath(dir string) error {
	if err := unmount(dir); err != nil {
		return err
	}
	return ignoreMissing(os.Remove(dir))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
