package root

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// plan is what was found, without what lies in a bound directory anyway.
func (s *resolver) plan() plan {
	var p plan
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		// A directory sorts before what is below it, but not always next to it.
		if !p.inBound(name) {
			p.Files = append(p.Files, s.files[name])
		}
	}
	for name, target := range s.links {
		if !p.inBound(name) {
			if p.Links == nil {
				p.Links = map[string]string{}
			}
			p.Links[name] = target
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.dirs)) {
		if !p.inBound(name) {
			p.dirs = append(p.dirs, name)
		}
	}
	return p
}

// inBound tells whether name lies in (or is) a directory that p binds.
func (p plan) inBound(name string) bool {
	for dir := name; dir != "/"; dir = path.Dir(dir) {
		if f, ok := p.file(dir); ok && f.Dir {
			return true
		}
	}
	return false
}

func (p plan) file(name string) (file, bool) {
	i, ok := slices.BinarySearchFunc(p.Files, name, func(f file, n string) int { return strings.Compare(f.Path, n) })
	if !ok {
		return file{}, false
	}
	return p.Files[i], true
}

// filePoints are the mount points whose source is a file.
func filePoints(points []Point) []string {
	var out []string
	for _, pt := range points {
		var st unix.Stat_t
		if pt.From != "" && unix.Stat(pt.From, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			out = append(out, pt.Path)
		}
	}
	return out
}

// skeleton lists the directories and small files that are made in the tmpfs
// itself: all that leads to a bind, a link or a mount point, and what every
// tree has. What lies in a bound directory is not made but must be there.
func skeleton(r Resource, p plan) (dirs, files []string) {
	d, f := map[string]bool{}, map[string]bool{}
	for _, name := range p.FilePoints {
		f[name] = true
	}
	for _, name := range Placeholders() {
		if _, link := p.Links[name]; !link {
			f[name] = true
		}
	}
	for _, name := range slices.Concat(Directories(), p.dirs) {
		d[name] = true
	}
	for _, pt := range r.Points {
		if !f[pt.Path] {
			d[pt.Path] = true
		}
	}
	for _, b := range p.Files {
		if b.Dir {
			d[b.Path] = true
		} else {
			f[b.Path] = true
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(d)), slices.Collect(maps.Keys(f)), slices.Collect(maps.Keys(p.Links))) {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			d[dir] = true
		}
	}
	// A bound directory is made to be bound on; what is below it is not made.
	drop := func(name string) bool { return p.inBound(path.Dir(name)) }
	maps.DeleteFunc(d, func(name string, _ bool) bool { return drop(name) })
	maps.DeleteFunc(f, func(name string, _ bool) bool { return drop(name) })
	return slices.Sorted(maps.Keys(d)), slices.Sorted(maps.Keys(f))
}

// conflicts finds paths that would have to be two things, and mount points
// that would have to be made in a directory of the host.
func (s *resolver) conflicts(r Resource, p plan) {
	dirs, files := skeleton(r, p)
	for _, name := range dirs {
		if target, ok := p.Links[name]; ok {
			s.problem(name, "a symbolic link to "+target+" on this host: name the real path", "what is declared below it")
		}
		if slices.Contains(files, name) {
			s.problem(name, "both a file and a directory", "what is declared")
		}
	}
	points := Placeholders()
	for _, pt := range slices.Concat(r.Points) {
		points = append(points, pt.Path)
	}
	for _, name := range points {
		if !p.inBound(path.Dir(name)) {
			continue
		}
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&os.ModeSymlink != 0 {
			s.problem(name, "lies in a directory of the host that is bound whole, and nothing can be mounted there", "sessions")
		}
	}
}
