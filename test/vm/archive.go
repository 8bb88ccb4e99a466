package vm

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// File is a file of a machine. Directories above it are made as needed.
type File struct {
	Path string      // absolute, in the machine
	From string      // path on this host to copy; or
	Data string      // the content itself; or
	Link string      // where a symbolic link leads
	Mode os.FileMode // permissions; of From, or 0644, when 0
}

// Types of a file in an archive, as in st_mode.
const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeLink = 0o120000
)

// archive writes cpio's "new ASCII" format, which the kernel unpacks (kernel
// documentation, early-userspace/buffer-format). All belongs to root.
type archive struct {
	w     *bufio.Writer
	inode int
	made  map[string]bool
	err   error
}

// writeArchive writes files; of two with one path the later one wins. As on
// Debian, /bin, /sbin, /lib and /lib64 are links to their likes below /usr.
func writeArchive(w io.Writer, files []File) error {
	a := &archive{w: bufio.NewWriter(w), made: map[string]bool{"/": true}}
	for _, dir := range merged() {
		if err := a.add(File{Path: dir, Link: "usr" + dir}); err != nil {
			return err
		}
	}
	for _, f := range slices.Backward(files) {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
			return fmt.Errorf("%q: must be a clean absolute path", f.Path)
		}
		for _, dir := range merged() {
			if strings.HasPrefix(f.Path, dir+"/") {
				f.Path = "/usr" + f.Path
			}
		}
		if a.made[f.Path] {
			continue
		}
		if err := a.add(f); err != nil {
			return err
		}
	}
	a.entry("TRAILER!!!", 0, nil)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}

func merged() []string { return []string{"/bin", "/sbin", "/lib", "/lib64"} }

func (a *archive) add(f File) error {
	a.parents(f.Path)
	a.made[f.Path] = true
	if f.Link != "" {
		a.entry(f.Path, typeLink|0o777, []byte(f.Link))
		return a.err
	}
	content, mode := []byte(f.Data), f.Mode
	if f.From != "" {
		var err error
		if content, err = os.ReadFile(f.From); err != nil {
			return err
		}
		if mode == 0 {
			info, err := os.Stat(f.From)
			if err != nil {
				return err
			}
			mode = info.Mode().Perm()
		}
	}
	if mode == 0 {
		mode = 0o644
	}
	a.entry(f.Path, typeFile|int(mode.Perm()), content)
	return a.err
}

func (a *archive) parents(p string) {
	dir := path.Dir(p)
	if a.made[dir] {
		return
	}
	a.parents(dir)
	a.made[dir] = true
	a.entry(dir, typeDir|0o755, nil)
}

func (a *archive) entry(name string, mode int, content []byte) {
	if a.err != nil {
		return
	}
	a.inode++
	name = strings.TrimPrefix(name, "/")
	fields := []int{a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0}
	a.write("070701")
	for _, v := range fields {
		a.write(fmt.Sprintf("%08X", v))
	}
	a.write(name + "\x00")
	a.pad(6 + 8*len(fields) + len(name) + 1)
	a.write(string(content))
	a.pad(len(content))
}

// pad fills up to a multiple of four bytes.
func (a *archive) pad(n int) { a.write("\x00\x00\x00"[:(4-n%4)%4]) }

func (a *archive) write(s string) {
	if a.err == nil {
		_, a.err = a.w.WriteString(s)
	}
}
