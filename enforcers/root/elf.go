package root

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cachePath is the loader's cache; see ldconfig(8).
const cachePath = "/etc/ld.so.cache"

// object is what an ELF file asks of its loader.
type object struct {
	class   elf.Class
	machine elf.Machine
	interp  string // "" : none
	needed  []string
	rpath   []string // colon lists split, $ORIGIN not expanded
	runpath []string
	origin  string  // directory of the file
	loader  *object // which first needed it; nil for a program
}

// readObject parses the file at path; origin is the directory $ORIGIN stands for.
func readObject(path, origin string) (*object, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o := &object{class: f.Class, machine: f.Machine, origin: origin}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		if p.Filesz > 4096 { // PATH_MAX, as in the kernel's binfmt_elf
			return nil, fmt.Errorf("%s: the interpreter's path is too long", path)
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return nil, fmt.Errorf("%s: interpreter: %w", path, err)
		}
		o.interp = string(bytes.TrimRight(b, "\x00"))
	}
	if o.needed, err = dynamic(f, elf.DT_NEEDED); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	rpath, err := dynamic(f, elf.DT_RPATH)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	runpath, err := dynamic(f, elf.DT_RUNPATH)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	o.rpath, o.runpath = splitPaths(rpath), splitPaths(runpath)
	return o, nil
}

// dynamic is [elf.File.DynString], with nothing for a file without a dynamic section.
func dynamic(f *elf.File, tag elf.DynTag) ([]string, error) {
	if f.SectionByType(elf.SHT_DYNAMIC) == nil {
		return nil, nil
	}
	return f.DynString(tag)
}

func splitPaths(lists []string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, strings.FieldsFunc(l, func(r rune) bool { return r == ':' })...)
	}
	return out
}

// expand replaces $ORIGIN. Paths that are relative, or hold another token of
// the loader ($LIB, $PLATFORM), are not searched: "" is returned.
func (o *object) expand(dir string) string {
	dir = strings.NewReplacer("${ORIGIN}", o.origin, "$ORIGIN", o.origin).Replace(dir)
	if strings.Contains(dir, "$") || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

// candidates are the paths at which the loader looks for a library that o
// needs, in its order; see ld.so(8). byCache tells which of them only the
// cache knows.
func (o *object) candidates(name string, cache map[string][]string, defaults []string) (paths []string, byCache map[string]bool) {
	if strings.Contains(name, "/") {
		return []string{o.expand(name)}, nil
	}
	if len(o.runpath) == 0 { // a RUNPATH switches all RPATHs off
		for l := o; l != nil; l = l.loader {
			if len(l.runpath) == 0 {
				paths = l.appendDirs(paths, l.rpath, name)
			}
		}
	}
	paths = o.appendDirs(paths, o.runpath, name)
	byCache = map[string]bool{}
	for _, p := range cache[name] {
		byCache[p] = !slices.Contains(defaults, filepath.Dir(p))
		paths = append(paths, p)
	}
	return o.appendDirs(paths, defaults, name), byCache
}

func (o *object) appendDirs(paths, dirs []string, name string) []string {
	for _, d := range dirs {
		if d = o.expand(d); d != "" {
			paths = append(paths, filepath.Join(d, name))
		}
	}
	return paths
}

// fits tells whether the file at path is a library that o could load.
func (o *object) fits(path string) (*object, bool) {
	lib, err := readObject(path, filepath.Dir(path))
	return lib, err == nil && lib.class == o.class && lib.machine == o.machine
}

// defaultDirs are the directories built into the host's loader: Debian's for
// the machine where they exist, else those of the others.
func (o *object) defaultDirs() []string {
	triplet := map[elf.Machine]string{
		elf.EM_X86_64:  "x86_64-linux-gnu",
		elf.EM_AARCH64: "aarch64-linux-gnu",
		elf.EM_386:     "i386-linux-gnu",
		elf.EM_ARM:     "arm-linux-gnueabihf",
	}[o.machine]
	if triplet != "" {
		if _, err := os.Stat("/usr/lib/" + triplet); err == nil {
			return []string{"/lib/" + triplet, "/usr/lib/" + triplet, "/lib", "/usr/lib"}
		}
	}
	if o.class == elf.ELFCLASS64 {
		return []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}
	}
	return []string{"/lib", "/usr/lib", "/usr/local/lib"}
}

// The format of /etc/ld.so.cache since glibc 2.2, sysdeps/generic/dl-cache.h:
// a header of 48 bytes, then entries of 24 bytes with offsets of two strings,
// counted from the header.
const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48
	cacheEntry  = 24
)

// parseCache returns the paths of each library name, in the cache's order,
// without variants for particular processors.
func parseCache(b []byte) (map[string][]string, error) {
	at := bytes.Index(b, []byte(cacheMagic))
	if at < 0 || len(b) < at+cacheHeader {
		return nil, errors.New("not in a format that is known")
	}
	b = b[at:]
	n := int(binary.NativeEndian.Uint32(b[len(cacheMagic):]))
	if n < 0 || n > (len(b)-cacheHeader)/cacheEntry {
		return nil, errors.New("cut short")
	}
	out := make(map[string][]string, n)
	for i := range n {
		e := b[cacheHeader+i*cacheEntry:]
		name, ok1 := cString(b, binary.NativeEndian.Uint32(e[4:]))
		path, ok2 := cString(b, binary.NativeEndian.Uint32(e[8:]))
		if !ok1 || !ok2 {
			return nil, errors.New("cut short")
		}
		if !strings.Contains(path, "/glibc-hwcaps/") {
			out[name] = append(out[name], path)
		}
	}
	return out, nil
}

func cString(b []byte, at uint32) (string, bool) {
	if uint64(at) >= uint64(len(b)) {
		return "", false
	}
	s, _, ok := bytes.Cut(b[at:], []byte{0})
	return string(s), ok
}
