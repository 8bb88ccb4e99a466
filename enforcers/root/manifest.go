package root

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/aicodesit/cordon/internal/atomicfile"
)

// layout is the version of what a tree holds beside its binds: it rises with
// every change of [skeleton] or of the manifest, and older trees are rebuilt.
const layout = 2

// manifest says what a tree was built from. It stands beside the tree.
type manifest struct {
	Layout   int      `json:"layout"`
	Declared Resource `json:"declared"`
	Device   uint64   `json:"device"`  // of the tree's own tmpfs; the kernel gives numbers again
	Changed  int64    `json:"changed"` // when its root last was, in nanoseconds: before it was sealed
	Plan     plan     `json:"plan"`
	Mounts   []mount  `json:"mounts"`  // at the tree and below, sorted by path
	Entries  []entry  `json:"entries"` // of the tree's own tmpfs, sorted by path
}

// mount is one of a tree's.
type mount struct {
	Path    string `json:"path"`            // "" is the tree
	Options string `json:"options"`         // of the mount
	Super   string `json:"super,omitempty"` // of the tree's own tmpfs: its size
}

// mountOf is what is kept of a mount called name. The options of file systems
// of the host are the host's.
func mountOf(name string, i *mountinfo.Info) mount {
	m := mount{Path: name, Options: i.Options}
	if name == "" {
		m.Super = i.VFSOptions
	}
	return m
}

// paths are where the things of one tree are.
type paths struct{ root, stage, manifest, unfinished string }

func (e *Enforcer) paths(sandbox string) paths {
	root := e.dir.Root(sandbox)
	hidden := filepath.Join(filepath.Dir(root), "."+sandbox) // a dot can't occur in a block's name
	return paths{root: root, stage: hidden, manifest: root + ".json", unfinished: hidden + ".json"}
}

// unusableError is what stands in a manifest and is none of this build's.
type unusableError struct{ why string }

func (e *unusableError) Error() string { return "the manifest can't be used: " + e.why }

func readManifest(path string) (*manifest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := new(manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, &unusableError{err.Error()}
	}
	if m.Layout != layout {
		return nil, &unusableError{fmt.Sprintf("its layout is %d, this build's is %d", m.Layout, layout)}
	}
	return m, nil
}

func (m *manifest) write(at paths) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return atomicfile.Replace(at.unfinished, at.manifest, b, 0o644)
}

// hostDrift lists what the declaration needs now and the tree does not have.
func (m *manifest) hostDrift(r Resource) []string {
	if m.Plan.Fresh() {
		return pointDrift(m.Plan.FilePoints, filePoints(r.Points))
	}
	now, err := resolve(r)
	if err != nil {
		return strings.Split(err.Error(), "; ")
	}
	drift := pointDrift(m.Plan.FilePoints, now.FilePoints)
	for _, f := range now.Files {
		old, ok := m.Plan.File(f.Path)
		switch {
		case !ok:
			drift = append(drift, fmt.Sprintf("%s: now also needed (by %s)", f.Path, f.By))
		case old.ID() != f.ID() || old.Dir != f.Dir:
			drift = append(drift, fmt.Sprintf("%s: replaced on the host (device:inode %s is now %s)", f.Path, old.ID(), f.ID()))
		}
	}
	for _, f := range m.Plan.Files {
		if _, ok := now.File(f.Path); !ok {
			drift = append(drift, f.Path+": no longer needed")
		}
	}
	for name, target := range now.Links {
		if old := m.Plan.Links[name]; old != target {
			drift = append(drift, fmt.Sprintf("%s: is now a symbolic link to %s", name, target))
		}
	}
	for name := range m.Plan.Links {
		if _, ok := now.Links[name]; !ok {
			drift = append(drift, name+": the symbolic link is no longer needed")
		}
	}
	return drift
}

func pointDrift(was, now []string) []string {
	var drift []string
	kinds := map[string]int{}
	for _, p := range was {
		kinds[p]--
	}
	for _, p := range now {
		kinds[p]++
	}
	for p, n := range kinds {
		switch {
		case n > 0:
			drift = append(drift, p+": what is bound there is now a file")
		case n < 0:
			drift = append(drift, p+": what is bound there is no longer a file")
		}
	}
	return drift
}

// exists is for errors that are no answer.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
