package root

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler"
)

// Read implements [reconciler.Enforcer]: every tree, manifest or half-built
// tree in the directory of trees. The mount table is read once.
func (e *Enforcer) Read(ctx context.Context) ([]reconciler.Resource, error) {
	return e.read(ctx, nil)
}

// ReadPart implements [reconciler.PartReader].
func (e *Enforcer) ReadPart(ctx context.Context, addrs []reconciler.Addr) ([]reconciler.Resource, error) {
	wanted := make(map[string]bool, len(addrs))
	for _, a := range addrs {
		sandbox, err := sandboxOf(a)
		if err != nil {
			return nil, err
		}
		wanted[sandbox] = true
	}
	return e.read(ctx, wanted)
}

// sandboxOf is the inverse of [Resource.Addr].
func sandboxOf(a reconciler.Addr) (string, error) {
	parts := a.Parts()
	if len(parts) != 2 || parts[0] != Name {
		return "", fmt.Errorf("%s: not the address of a tree", a)
	}
	return parts[1], nil
}

func (e *Enforcer) read(ctx context.Context, wanted map[string]bool) ([]reconciler.Resource, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := realDir(filepath.Dir(e.dir.Root("x")))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	mounts, err := mountsBelow(dir)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	names, err := treeNames(dir, mounts)
	if err != nil {
		return nil, err
	}
	var out []reconciler.Resource
	for _, n := range names {
		if wanted != nil && !wanted[n] {
			continue
		}
		r, err := e.readTree(n, dir, mounts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Addr(), err)
		}
		out = append(out, r)
	}
	return out, nil
}

// treeNames are the sandboxes of which there is anything, sorted.
func treeNames(dir string, mounts []*mountinfo.Info) ([]string, error) {
	names := map[string]bool{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := strings.TrimPrefix(e.Name(), ".")
		if base, ok := strings.CutSuffix(name, ".json"); ok {
			name = base
		}
		names[name] = true
	}
	for _, m := range mounts {
		if rel := strings.TrimPrefix(m.Mountpoint, dir+"/"); rel != m.Mountpoint {
			first, _, _ := strings.Cut(rel, "/")
			names[strings.TrimPrefix(first, ".")] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// readTree compares one tree with its manifest and the host.
func (e *Enforcer) readTree(name, dir string, mounts []*mountinfo.Info) (Resource, error) {
	at := e.paths(name)
	r := Resource{Sandbox: name}
	root := filepath.Join(dir, name)
	m, err := readManifest(at.manifest)
	var unusable *unusableError
	switch {
	case err == nil:
		r.Programs, r.Files, r.Points = m.Declared.Programs, m.Declared.Files, m.Declared.Points
		if r.Drift, err = m.treeDrift(root, mounts); err != nil {
			return r, err
		}
		r.Drift = append(r.Drift, m.hostDrift(r)...)
	case errors.Is(err, os.ErrNotExist):
		r.Drift = append(r.Drift, "the manifest is missing")
	case errors.As(err, &unusable):
		r.Drift = append(r.Drift, err.Error())
	default:
		return r, err
	}
	left, err := exists(at.stage)
	if err != nil {
		return r, err
	}
	if left {
		r.Drift = append(r.Drift, "a half-built tree was left behind")
	}
	r.Drift = sorted(r.Drift)
	if len(r.Drift) == 0 {
		r.Drift = nil
	}
	return r, nil
}

// treeDrift compares the tree at root with what was built.
func (m *manifest) treeDrift(root string, mounts []*mountinfo.Info) ([]string, error) {
	var here []*mountinfo.Info
	seen := map[string]int{}
	for _, i := range mounts {
		if within(i.Mountpoint, root) {
			here = append(here, i)
			seen[strings.TrimPrefix(i.Mountpoint, root)]++
		}
	}
	if seen[""] == 0 {
		return []string{"the tree is not mounted"}, nil
	}
	if !m.built(root) {
		return []string{"the tree is not the one that the manifest describes"}, nil
	}
	drift := append(m.mountDrift(root, here, seen), m.inodeDrift(root, seen)...)
	more, err := m.entryDrift(root, func(name string) bool { return seen[name] > 0 })
	return append(drift, more...), err
}

// mountDrift compares the mounts here, which are seen so often, with those
// that were made.
func (m *manifest) mountDrift(root string, here []*mountinfo.Info, seen map[string]int) []string {
	var drift []string
	made := make(map[string]mount, len(m.Mounts))
	for _, was := range m.Mounts {
		made[was.Path] = was
		if seen[was.Path] == 0 {
			drift = append(drift, show(was.Path)+": not mounted")
		}
	}
	for _, i := range here {
		name := strings.TrimPrefix(i.Mountpoint, root)
		was, ours := made[name]
		switch {
		case !ours:
			drift = append(drift, show(name)+": foreign mount")
		case seen[name] > 1:
			drift = append(drift, show(name)+": mounted over")
		case i.Optional != "":
			drift = append(drift, fmt.Sprintf("%s: not a private mount (%s)", show(name), i.Optional))
		case was != mountOf(name, i):
			drift = append(drift, fmt.Sprintf("%s: mounted with %s %s, was %s %s", show(name), i.Options, i.VFSOptions, was.Options, was.Super))
		}
		if lacking := lacking(i); lacking != "" {
			drift = append(drift, fmt.Sprintf("%s: mounted %s", show(name), lacking))
		}
	}
	return drift
}

// built tells whether the tree's own tmpfs is the one that was made.
func (m *manifest) built(root string) bool {
	var st unix.Stat_t
	return unix.Lstat(root, &st) == nil && st.Dev == m.Device && st.Ctim.Nano() == m.Changed
}

// inodeDrift looks at what the mounts show.
func (m *manifest) inodeDrift(root string, seen map[string]int) []string {
	var st unix.Stat_t
	var drift []string
	for _, f := range m.Plan.Files {
		if seen[f.Path] == 0 {
			continue
		}
		if err := unix.Lstat(root+f.Path, &st); err != nil || !f.Is(&st) {
			drift = append(drift, f.Path+": shows another file than was bound")
		}
	}
	return drift
}

func show(name string) string {
	if name == "" {
		return "the tree"
	}
	return name
}

// lacking names what a mount of a tree should not allow and does.
func lacking(i *mountinfo.Info) string {
	var out []string
	has := strings.Split(i.Options, ",")
	for _, o := range []struct{ option, without string }{{"ro", "writable"}, {"nosuid", "without nosuid"}, {"nodev", "without nodev"}} {
		if !slices.Contains(has, o.option) {
			out = append(out, o.without)
		}
	}
	return strings.Join(out, ", ")
}
