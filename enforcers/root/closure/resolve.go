package closure

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The kernel gives up after as many.
const (
	maxLinks   = 40 // path_resolution(7)
	maxScripts = 4  // execve(2)
)

// usualPath is where env finds what a script names.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (s *resolver) problem(p, what, by string) {
	s.problems = append(s.problems, fmt.Sprintf("%s: %s (needed by %s)", p, what, by))
}

// walk resolves p on the host, one component after the other, and remembers
// the symbolic links and directories on the way.
func (s *resolver) walk(p string) (string, *unix.Stat_t, error) {
	at, rest, links := "/", components(p), 0
	st := new(unix.Stat_t)
	if err := unix.Lstat(at, st); err != nil {
		return "", nil, err
	}
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		if err := unix.Lstat(next, st); err != nil {
			return "", nil, err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, err := os.Readlink(next)
			if err != nil {
				return "", nil, err
			}
			if links++; links > maxLinks {
				return "", nil, unix.ELOOP
			}
			s.links[next] = target
			rest = append(components(target), rest...)
			if path.IsAbs(target) {
				at = "/"
			}
		case unix.S_IFDIR:
			at = next
			s.dirs[at] = true
		default:
			if len(rest) > 0 {
				return "", nil, unix.ENOTDIR
			}
			return next, st, nil
		}
	}
	return at, st, unix.Lstat(at, st)
}

func components(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

// add puts the file or directory p into the tree; "" means that it can't.
func (s *resolver) add(p, by string) string {
	real, st, err := s.walk(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.problem(p, "no such file on this host", by)
		return ""
	case err != nil:
		s.problem(p, err.Error(), by)
		return ""
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFREG && kind != unix.S_IFDIR {
		s.problem(p, "neither a file nor a directory", by)
		return ""
	}
	if real == "/" {
		s.problem(p, "the whole host", by)
		return ""
	}
	for _, c := range s.covered {
		if within(real, c) {
			s.problem(p, "lies below "+c+", where a session sees its own mount", by)
			return ""
		}
	}
	if _, known := s.files[real]; !known {
		s.files[real] = newFile(real, by, st)
	}
	return real
}

// within tells whether p is dir or below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

// program puts p with all that it needs to run into the tree.
func (s *resolver) program(p, by string, depth int) {
	real := s.add(p, by)
	if real == "" || s.programs[real] {
		return
	}
	s.programs[real] = true
	s.parsed(real)
	f, err := os.Open(real)
	if err != nil {
		s.problem(p, err.Error(), by)
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		s.problem(p, "not a program: no file that may be executed", by)
		return
	}
	head := make([]byte, 256) // BINPRM_BUF_SIZE
	n, _ := f.Read(head)
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		s.elf(real)
	case bytes.HasPrefix(head, []byte("#!")):
		s.script(real, head, depth)
	}
}

// script follows the first line of a script.
func (s *resolver) script(p string, head []byte, depth int) {
	line, _, _ := bytes.Cut(head[2:], []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return
	}
	if depth >= maxScripts {
		s.problem(p, "too many scripts that interpret each other", "#!")
		return
	}
	s.program(words[0], p, depth+1)
	if filepath.Base(words[0]) != "env" {
		return
	}
	for _, w := range words[1:] {
		if strings.HasPrefix(w, "-") || strings.Contains(w, "=") {
			continue
		}
		if found := lookPath(w); found != "" {
			s.program(found, p, depth+1)
		} else {
			s.problem(w, "no such program in "+usualPath, p)
		}
		return
	}
}

func lookPath(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range strings.Split(usualPath, ":") {
		p := filepath.Join(dir, name)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// parsed notes that the content of the file at a real path matters.
func (s *resolver) parsed(real string) {
	var st unix.Stat_t
	if f, ok := s.files[real]; ok && unix.Lstat(real, &st) == nil {
		s.files[real] = f.withContent(&st)
	}
}

// elf adds the interpreter and, breadth first as the loader does, all
// libraries of the program at the real path p.
func (s *resolver) elf(p string) {
	program, err := readObject(p)
	if err != nil {
		s.problem(p, err.Error(), "programs")
		return
	}
	have := map[string]bool{}
	if program.interp != "" {
		s.add(program.interp, p)
		have[filepath.Base(program.interp)] = true // the loader is the library of that name
	}
	defaults := program.defaultDirs()
	for queue := []*object{program}; len(queue) > 0; queue = queue[1:] {
		for _, name := range queue[0].needed {
			if have[name] {
				continue
			}
			have[name] = true
			queue = append(queue, s.library(queue[0], name, p, defaults)...)
		}
	}
}

// library finds the library called name that o needs, with the variants of it
// that the cache knows.
func (s *resolver) library(o *object, name, by string, defaults []string) []*object {
	if _, known := s.lookups[name]; !known {
		s.lookups[name] = s.cache[name]
	}
	paths, byCache := o.candidates(name, s.cache, defaults)
	for _, p := range paths {
		if variant(p) || !s.fits(p, o) {
			continue
		}
		found := s.load(nil, p, by, o)
		for _, v := range s.cache[name] {
			if variant(v) && s.fits(v, o) {
				found = s.load(found, v, by, o)
			}
		}
		if byCache[p] {
			s.add(cachePath, by)
		}
		return found
	}
	s.problem(name, "no such library on this host", by)
	return nil
}

// fits tells whether the file at p is a library that o could load.
func (s *resolver) fits(p string, o *object) bool {
	lib := s.object(p)
	return lib != nil && lib.class == o.class && lib.machine == o.machine
}

// load adds the library at p and appends it to list.
func (s *resolver) load(list []*object, p, by string, loader *object) []*object {
	real := s.add(p, by)
	if real == "" {
		return list
	}
	s.parsed(real)
	lib := *s.object(p)
	lib.loader = loader
	return append(list, &lib)
}

// object parses the file at p once; nil when it can't be.
func (s *resolver) object(p string) *object {
	if o, known := s.objects[p]; known {
		return o
	}
	o, err := readObject(p)
	if err != nil {
		o = nil
	}
	s.objects[p] = o
	return o
}
