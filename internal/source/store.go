package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/atomicfile"
)

const (
	storeMagic = "cordon-revision 1 "
	// maxStored bounds what is read back: files in base64, and the rest.
	maxStored = MaxTotal/3*4 + 16<<20
)

// Store keeps one revision on disk, for a restart without its source.
type Store struct{ dir string }

// OpenStore makes dir, for its owner alone, and returns the Store in it, without
// what a killed process left unfinished there. It refuses one that another user
// could have written to.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return nil, fmt.Errorf("%s: must be a directory that only its owner, the user cordon runs as, can write to", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	s := &Store{dir: dir}
	return s, atomicfile.Tidy(s.path())
}

// Dir is where the Store is.
func (s *Store) Dir() string { return s.dir }

func (s *Store) path() string { return filepath.Join(s.dir, "revision") }

// Save replaces what is kept, at once or not at all.
func (s *Store) Save(r Revision) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(body) > maxStored {
		return fmt.Errorf("revision %s is too large to be kept: %d bytes", r.ID, len(body))
	}
	return WriteChecked(s.path(), storeMagic, body)
}

// Load returns what is kept. Files that are damaged, or are from another
// origin than the one asked for, are errors.
func (s *Store) Load(origin string) (Revision, error) {
	body, err := ReadChecked(s.path(), storeMagic, maxStored)
	if errors.Is(err, fs.ErrNotExist) {
		return Revision{}, ErrNothingKept
	}
	if err != nil {
		return Revision{}, fmt.Errorf("the kept revision: %w", err)
	}
	var r Revision
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Revision{}, fmt.Errorf("the kept revision: %s: %w", s.path(), err)
	}
	if r.Origin != origin {
		return Revision{}, fmt.Errorf("the kept revision: %s is from %s, not from %s", s.path(), r.Origin, origin)
	}
	return r, nil
}

// WriteChecked writes a file of mode 0600 with the magic and a checksum in its
// first line. A crash leaves the old file or the new one, and perhaps an
// unfinished one that [atomicfile.Tidy] removes.
func WriteChecked(path, magic string, body []byte) error {
	sum := sha256.Sum256(body)
	head := fmt.Appendf(nil, "%s%x\n", magic, sum)
	if err := atomicfile.Write(path, slices.Concat(head, body), 0o600); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadChecked returns the body of a file that WriteChecked wrote, of at most
// limit bytes. A file that differs in one bit, or that another user could have
// written, is an error.
func ReadChecked(path, magic string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		return nil, fmt.Errorf("%s: must be a file that only its owner, the user cordon runs as, can write to", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+int64(len(magic))+2*sha256.Size+2))
	if err != nil {
		return nil, err
	}
	body, ok := checked(b, magic)
	if !ok || int64(len(body)) > limit {
		return nil, fmt.Errorf("%s is damaged: its checksum does not fit", path)
	}
	return body, nil
}

func checked(b []byte, magic string) (body []byte, ok bool) {
	head, body, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return nil, false
	}
	sum := sha256.Sum256(body)
	return body, string(head) == magic+hex.EncodeToString(sum[:])
}
