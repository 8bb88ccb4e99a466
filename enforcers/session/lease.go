package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/atomicfile"
	"github.com/aicodesit/cordon/internal/rawsys"
	"github.com/aicodesit/cordon/specs"
)

// The files of a session's directory.
const (
	leaseFile   = "lease.json"
	lockFile    = "lock"
	restartFile = "restart" // there while the session's command ends in order to start again
)

// record is what lease.json holds.
type record struct {
	specs.Lease
	Seccomp string        `json:"seccomp,omitempty"` // name of the filter that it was started with
	Grace   time.Duration `json:"grace,omitempty"`   // how long it has to end when asked

	Transcript *Transcript `json:"transcript,omitempty"` // nil: none, or done
}

// entry is a session's directory as found.
type entry struct {
	record
	held   bool  // a process runs the session
	broken error // why lease.json could not be read; the record then has the id alone
}

// decodeRecord reads a lease.json.
func decodeRecord(b []byte, id string) (record, error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, err
	}
	if r.ID != id {
		return record{}, fmt.Errorf("it is the lease of %q", r.ID)
	}
	return r, nil
}

// sessions are the directories of one run directory.
type sessions string

func (s sessions) dir(id string) string { return filepath.Join(string(s), id) }

func (s sessions) list() ([]entry, error) {
	names, err := os.ReadDir(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, n := range names {
		if !n.IsDir() || !specs.ValidSessionID(n.Name()) {
			continue
		}
		e, ok, err := s.get(n.Name())
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, e)
		}
	}
	return out, nil
}

func (s sessions) get(id string) (e entry, ok bool, err error) {
	e.ID = id
	dir := s.dir(id)
	if e.held, err = held(dir + "/" + lockFile); err != nil {
		return e, false, err
	}
	b, err := rawsys.ReadFile(unix.AT_FDCWD, dir+"/"+leaseFile, nil)
	if err == nil {
		var r record
		if r, err = decodeRecord(b, id); err == nil {
			e.record = r
			return e, true, nil
		}
	}
	if _, gone := os.Lstat(dir); errors.Is(gone, fs.ErrNotExist) {
		return e, false, nil
	} else if gone != nil {
		return e, false, gone
	}
	e.broken = fmt.Errorf("%s/%s: %w", dir, leaseFile, err)
	return e, true, nil
}

// held tells whether another open of the file has it locked.
func held(path string) (bool, error) {
	fd, err := rawsys.Open(unix.AT_FDCWD, path, unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer rawsys.Close(fd)
	locked, err := rawsys.Locked(fd)
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	return locked, nil
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// write makes the session's directory as a whole, or replaces its lease. The
// directory appears with its lease in it and, when hold is set, locked.
func (s sessions) write(r record, hold bool) (lock *os.File, err error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(s.dir(r.ID)); err == nil {
		return nil, atomicfile.Write(filepath.Join(s.dir(r.ID), leaseFile), b, 0o600)
	}
	lock, err = s.create(r.ID, b)
	if err == nil && !hold {
		return nil, lock.Close()
	}
	return lock, err
}

// making is a file that only its owner can lock, unlike the directory that it is
// in, which others may read. Who makes a session's directory has it locked: what
// stands there unfinished when nobody has is left from someone who was killed.
const making = ".making"

// create makes a session's directory as a whole, locked.
func (s sessions) create(id string, lease []byte) (lock *os.File, err error) {
	making, err := os.OpenFile(filepath.Join(string(s), making), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer making.Close()
	if err := flock(making, unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", making.Name(), err)
	}
	tmp, err := os.MkdirTemp(string(s), newPrefix)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp) // it is gone when all went well
	// The proxy relies on inotify to tell of the lock's end: it does of a file that is
	// open for writing, and of close(2) only.
	f, err := os.OpenFile(filepath.Join(tmp, lockFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = os.WriteFile(filepath.Join(tmp, leaseFile), lease, 0o600)
	}
	if err == nil {
		err = os.Rename(tmp, s.dir(id))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// newPrefix begins the names of directories that are being made, before the
// digits of [os.MkdirTemp].
const newPrefix = ".new-"

// unfinished calls do with what processes left that were killed while they made a
// session's directory: its path each time. While anybody makes one there is nothing
// that is known to be left.
func (s sessions) unfinished(do func(path string) error) error {
	lock, err := os.Open(filepath.Join(string(s), making))
	if errors.Is(err, fs.ErrNotExist) { // nobody has ever made one
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	switch err := flock(lock, unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil
	case err != nil:
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	names, err := os.ReadDir(string(s))
	for _, n := range names {
		digits, ok := strings.CutPrefix(n.Name(), newPrefix)
		if ok && n.IsDir() && digits != "" && strings.Trim(digits, "0123456789") == "" {
			err = errors.Join(err, do(filepath.Join(string(s), n.Name())))
		}
	}
	return err
}

func (s sessions) sweep() error { return s.unfinished(os.RemoveAll) }

func (s sessions) remove(id string) error { return os.RemoveAll(s.dir(id)) }
