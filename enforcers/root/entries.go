package root

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// entry is a name in the tree's own tmpfs. What lies below a mount is never
// seen and is no entry.
type entry struct {
	Path    string `json:"path"` // "" is the tree
	Mode    uint32 `json:"mode"` // with its type, see inode(7)
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Size    int64  `json:"size"`
	Changed int64  `json:"changed"` // ctime, in nanoseconds
	Target  string `json:"target,omitempty"`
}

func (e entry) dir() bool { return e.Mode&unix.S_IFMT == unix.S_IFDIR }

// entryAt is the entry called name of the tree at root.
func entryAt(root, name string) (entry, error) {
	var st unix.Stat_t
	if err := unix.Lstat(root+name, &st); err != nil {
		return entry{}, &os.PathError{Op: "stat", Path: root + name, Err: err}
	}
	e := entry{Path: name, Mode: st.Mode, UID: st.Uid, GID: st.Gid, Size: st.Size, Changed: st.Ctim.Nano()}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return e, nil
	}
	var err error
	e.Target, err = os.Readlink(root + name)
	return e, err
}

// entriesOf lists the tree at root, sorted by path. It goes into those
// directories that descend allows, and past the mounts.
func entriesOf(root string, mounted func(name string) bool, descend func(dir string) bool) ([]entry, error) {
	var out []entry
	for todo := []string{""}; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		e, err := entryAt(root, name)
		if errors.Is(err, os.ErrNotExist) {
			continue // gone since it was listed
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		if !e.dir() || !descend(name) {
			continue
		}
		names, err := namesIn(root + name)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if path := name + "/" + n; !mounted(path) {
				todo = append(todo, path)
			}
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func namesIn(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// entryDrift compares the entries that are there with those that were made.
// The time of a change tells what else would not show: content of the same
// size, attributes, a name that came and went.
func (m *manifest) entryDrift(root string, mounted func(name string) bool) ([]string, error) {
	made := make(map[string]entry, len(m.Entries))
	for _, e := range m.Entries {
		made[e.Path] = e
	}
	found, err := entriesOf(root, mounted, func(dir string) bool { _, ok := made[dir]; return ok })
	if err != nil {
		return nil, err
	}
	var drift []string
	for _, now := range found {
		if was, ok := made[now.Path]; !ok {
			drift = append(drift, now.Path+": nothing that was built")
		} else if what := was.changed(now); what != "" {
			drift = append(drift, show(now.Path)+": "+what)
		}
		delete(made, now.Path)
	}
	for name := range made {
		if !mounted(name) {
			drift = append(drift, name+": missing")
		}
	}
	return drift, nil
}

// changed says in what now differs; "" if in nothing.
func (e entry) changed(now entry) string {
	switch {
	case e.Mode != now.Mode:
		return fmt.Sprintf("its mode is %#o, was %#o", now.Mode, e.Mode)
	case e.UID != now.UID || e.GID != now.GID:
		return fmt.Sprintf("its owner is %d:%d, was %d:%d", now.UID, now.GID, e.UID, e.GID)
	case e.Target != now.Target:
		return fmt.Sprintf("it leads to %s, led to %s", now.Target, e.Target)
	case e.Size != now.Size || e.Changed != now.Changed:
		return "changed since it was built"
	}
	return ""
}
