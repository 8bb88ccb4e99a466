package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/source"
)

// errAway is a directory that is not there: a file system that is not mounted
// yet, or a name that was mistyped.
var errAway = errors.New("no such directory; it is waited for")

// ours tells whether a name is of a file that cordon reads.
func ours(name string) bool {
	return strings.HasSuffix(name, ".hcl") && !strings.HasPrefix(name, ".")
}

// read returns the *.hcl files of a directory. What can't be read is an error:
// files that are missing must not be taken to mean that all they declared
// should be removed.
func read(dir string) (source.Revision, error) {
	r := source.Revision{Origin: dir}
	entries, err := os.ReadDir(dir) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s: %w", dir, errAway)
	}
	if err != nil {
		return r, err
	}
	total := 0
	for _, e := range entries {
		if !ours(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		b, changed, err := readFile(path)
		if err != nil {
			return r, fmt.Errorf("%s: %w", path, err)
		}
		if total += len(b); total > source.MaxTotal {
			return r, fmt.Errorf("%s: all files together have more than %d bytes", dir, source.MaxTotal)
		}
		if changed.After(r.Time) {
			r.Time = changed
		}
		r.Files = append(r.Files, source.File{Name: path, Bytes: b})
	}
	if len(r.Files) == 0 {
		return r, fmt.Errorf("%s: no *.hcl file in it: an empty directory declares nothing, and is never taken to mean that all should be removed", dir)
	}
	r.ID = identify(r.Files)
	return r, nil
}

// readFile reads a regular file, or what a symbolic link to one leads to. It
// never blocks on a FIFO.
func readFile(path string) ([]byte, time.Time, error) {
	var never time.Time
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, never, errors.Unwrap(err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	info, err := f.Stat()
	if err != nil {
		return nil, never, err
	}
	if !info.Mode().IsRegular() {
		return nil, never, errors.New("a name that ends in .hcl must be a file or a symbolic link to one")
	}
	b, err := io.ReadAll(io.LimitReader(f, source.MaxFile+1))
	if err != nil {
		return nil, never, err
	}
	if len(b) > source.MaxFile {
		return nil, never, fmt.Errorf("it has more than %d bytes", source.MaxFile)
	}
	return b, info.ModTime(), nil
}

// identify returns the ID of files: a hash of names and contents, each with
// its length.
func identify(files []source.File) string {
	h := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(h, "%d %s %d ", len(f.Name), f.Name, len(f.Bytes))
		_, _ = h.Write(f.Bytes)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// stamp is what tells that a directory's files are being changed: of each
// name and of where it leads, the inode, size and times. age is how long ago
// the last change was.
func stamp(dir string) (stamps []string, age time.Duration) {
	var last time.Time
	add := func(path string) {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			stamps = append(stamps, path+": "+err.Error())
			return
		}
		stamps = append(stamps, fmt.Sprintf("%s %d %d %d %d %d", path, st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()))
		if t := time.Unix(st.Ctim.Unix()); t.After(last) {
			last = t
		}
	}
	add(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		stamps = append(stamps, err.Error())
	}
	for _, e := range entries {
		if ours(e.Name()) {
			add(filepath.Join(dir, e.Name()))
		}
	}
	// Clocks may be turned back; then the file is as old as can be.
	if age = time.Since(last); age < 0 {
		age = time.Hour
	}
	return stamps, age
}
