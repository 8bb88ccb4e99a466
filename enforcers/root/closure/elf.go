package closure

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// object is what an ELF file asks of its loader.
type object struct {
	class   elf.Class
	machine elf.Machine
	interp  string // "" : none
	needed  []string
	rpath   []string // colon lists split, $ORIGIN not expanded
	runpath []string
	origin  string  // what $ORIGIN stands for: the directory of the file
	loader  *object // which first needed it; nil for a program
}

// readObject parses the file at path.
func readObject(path string) (*object, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o := &object{class: f.Class, machine: f.Machine, origin: filepath.Dir(path)}
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
