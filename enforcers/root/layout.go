package root

import (
	"errors"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/root/closure"
)

// plan is what a tree must hold on the host as it is now.
type plan struct {
	closure.Closure
	FilePoints []string `json:"file_points,omitempty"` // mount points that are files, sorted
}

// resolve reads the host. Its error tells everything that is missing at once.
func resolve(r Resource) (plan, error) {
	c, problems := closure.Of(closure.Request{Programs: r.Programs, Files: r.Files, Covered: r.covered()})
	p := plan{Closure: c, FilePoints: filePoints(r.Points)}
	problems = append(problems, conflicts(r, p)...)
	if len(problems) > 0 {
		return plan{}, errors.New(strings.Join(problems, "; "))
	}
	return p, nil
}

// filePoints are the mount points that are files.
func filePoints(points []Point) []string {
	var out []string
	for _, pt := range points {
		var st unix.Stat_t
		if pt.File {
			out = append(out, pt.Path)
			continue
		}
		if pt.From != "" && unix.Stat(pt.From, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			out = append(out, pt.Path)
		}
	}
	return out
}

// skeleton lists the directories and small files that are made in the tmpfs
// itself: all that leads to a bind, a link or a mount point, and what every
// tree has. What is made below a bound directory is never seen.
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
	for _, name := range slices.Concat(Directories(), p.Dirs) {
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
	return slices.Sorted(maps.Keys(d)), slices.Sorted(maps.Keys(f))
}

// conflicts finds paths that would have to be two things, and mount points
// that would have to be made in a directory of the host.
func conflicts(r Resource, p plan) (problems []string) {
	problem := func(name, what string) { problems = append(problems, name+": "+what) }
	dirs, files := skeleton(r, p)
	for _, name := range dirs {
		if target, ok := p.Links[name]; ok {
			problem(name, "a symbolic link to "+target+" on this host: what is declared below it must name the real path")
		}
		if slices.Contains(files, name) {
			problem(name, "declared as both a file and a directory")
		}
	}
	points := Placeholders()
	for _, pt := range r.Points {
		points = append(points, pt.Path)
	}
	for _, name := range points {
		if !p.InBound(path.Dir(name)) {
			continue
		}
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&os.ModeSymlink != 0 {
			problem(name, "lies in a directory of the host that is bound whole, and nothing can be mounted there")
		}
	}
	return problems
}
