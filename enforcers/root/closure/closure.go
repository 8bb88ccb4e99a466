// Package closure finds what programs need of the host in order to run: their
// interpreters and shared libraries, and the symbolic links that lead there.
// It reads the host and changes nothing. What exactly is followed is told in
// the documentation of package root.
package closure

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Request is what is asked for. All paths are absolute and clean.
type Request struct {
	Programs []string // with all they need to run
	Files    []string // files and directories as they are
	Covered  []string // where nothing is of use: what lies below is refused
}

// File is a file or directory of the host.
type File struct {
	Path  string `json:"path"` // real: no component is a symbolic link
	Dir   bool   `json:"dir,omitempty"`
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size,omitempty"`  // bytes; 0 unless the content decides what else is needed
	Mtime int64  `json:"mtime,omitempty"` // nanoseconds; likewise
	By    string `json:"by"`              // what needs it
}

func newFile(p, by string, st *unix.Stat_t) File {
	return File{Path: p, By: by, Dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, Dev: st.Dev, Ino: st.Ino}
}

func (f File) withContent(st *unix.Stat_t) File {
	f.Size, f.Mtime = st.Size, st.Mtim.Nano()
	return f
}

// ID is device:inode.
func (f File) ID() string { return fmt.Sprintf("%d:%d", f.Dev, f.Ino) }

// Is tells whether st is of the very file or directory.
func (f File) Is(st *unix.Stat_t) bool {
	return f.Dev == st.Dev && f.Ino == st.Ino && f.Dir == (st.Mode&unix.S_IFMT == unix.S_IFDIR)
}

// Closure is all that was found.
type Closure struct {
	Files   []File              `json:"files,omitempty"`   // sorted by path; none lies in another
	Links   map[string]string   `json:"links,omitempty"`   // symbolic links: path → target as written; none lies in a File
	Dirs    []string            `json:"-"`                 // directories that links lead through, sorted
	Lookups map[string][]string `json:"lookups,omitempty"` // library name → paths in the loader's cache
	Cache   File                `json:"cache"`             // the loader's cache then
}

// resolver finds what a request needs of the host.
type resolver struct {
	covered  []string
	files    map[string]File
	links    map[string]string
	dirs     map[string]bool
	programs map[string]bool    // that are done, by real path
	objects  map[string]*object // that were parsed, by path; nil: no ELF file
	cache    map[string][]string
	lookups  map[string][]string
	problems []string
}

// Of reads the host. The problems, sorted, are all that is missing or can't
// be had: "/usr/bin/rg: no such file on this host (needed by programs)".
func Of(r Request) (c Closure, problems []string) {
	s := &resolver{
		covered: r.Covered, files: map[string]File{}, links: map[string]string{}, dirs: map[string]bool{},
		programs: map[string]bool{}, objects: map[string]*object{}, lookups: map[string][]string{},
	}
	state := statCache() // before what depends on it
	var err error
	if s.cache, err = readCache(); err != nil {
		s.problem(cachePath, err.Error(), "programs")
	}
	for _, p := range r.Programs {
		s.program(p, "programs", 0)
	}
	for _, p := range r.Files {
		s.add(p, "files")
	}
	c = s.closure()
	c.Cache = state
	slices.Sort(s.problems)
	return c, slices.Compact(s.problems)
}

// closure is what was found, without what lies in a directory that was found.
func (s *resolver) closure() Closure {
	c := Closure{Lookups: s.lookups}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if !c.InBound(name) { // a directory sorts before what is in it
			c.Files = append(c.Files, s.files[name])
		}
	}
	for name, target := range s.links {
		if !c.InBound(name) {
			if c.Links == nil {
				c.Links = map[string]string{}
			}
			c.Links[name] = target
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.dirs)) {
		if !c.InBound(name) {
			c.Dirs = append(c.Dirs, name)
		}
	}
	return c
}

// File returns the file at the real path name.
func (c Closure) File(name string) (File, bool) {
	i, ok := slices.BinarySearchFunc(c.Files, name, func(f File, n string) int { return strings.Compare(f.Path, n) })
	if !ok {
		return File{}, false
	}
	return c.Files[i], true
}

// InBound tells whether name lies in (or is) a directory of c.
func (c Closure) InBound(name string) bool {
	for dir := name; dir != "/"; dir = path.Dir(dir) {
		if f, ok := c.File(dir); ok && f.Dir {
			return true
		}
	}
	return false
}

// Fresh tells whether the host still looks, by stat alone, as it did: then
// [Of] would find the same, but for a library that came up earlier in some
// directory of a search path.
func (c Closure) Fresh() bool {
	if !c.sameLookups() {
		return false
	}
	for name, target := range c.Links {
		if now, err := os.Readlink(name); err != nil || now != target {
			return false
		}
	}
	for _, f := range c.Files {
		var st unix.Stat_t
		if unix.Lstat(f.Path, &st) != nil || !f.Is(&st) {
			return false
		}
		if f.Mtime != 0 && f != newFile(f.Path, f.By, &st).withContent(&st) {
			return false
		}
	}
	return true
}
