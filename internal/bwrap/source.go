package bwrap

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Source is a file or directory of the host, held so that it can be told
// from another that takes its place.
type Source struct {
	Path string
	fd   int
	id   fileID
	dir  bool
}

// fileID tells a file from all others.
type fileID struct{ dev, ino uint64 }

func idOf(st *unix.Stat_t) fileID { return fileID{st.Dev, st.Ino} }

// Pin opens what is at an absolute path without following any symbolic link:
// whoever may write to one of the directories can't lead it elsewhere.
func Pin(path string) (*Source, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err == unix.ELOOP {
		return nil, fmt.Errorf("%s: a symbolic link is on the way: name the real path", path)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return &Source{Path: path, fd: fd, id: idOf(&st), dir: st.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// IsDir tells whether it is a directory.
func (s *Source) IsDir() bool { return s.dir }

// Owner returns whose it is.
func (s *Source) Owner() (uid, gid uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: s.Path, Err: err}
	}
	return st.Uid, st.Gid, nil
}

// Close lets go of it.
func (s *Source) Close() error { return unix.Close(s.fd) }
