package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// usable refuses a descriptor that is more than a stream. A file could be
// opened anew through /proc by the session, as its own user and with rights
// that the client never had, or be executed; over a socket it could be handed
// others, or speak on the host's network.
func usable(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags&unix.O_PATH != 0 {
		return errors.New("it is opened with O_PATH, neither for reading nor for writing")
	}
	ok, directory, err := stream(fd)
	if directory {
		return errors.New("it is a directory of the host: the session would see all of it")
	}
	if err == nil && !ok {
		err = errors.New("it is neither a pipe, a terminal nor /dev/null: pass a pipe in its place")
	}
	return err
}

// stream tells whether a descriptor is a pipe, a terminal or /dev/null.
func stream(fd int) (ok, directory bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, false, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return true, false, nil
	case unix.S_IFCHR:
		return st.Rdev == unix.Mkdev(1, 3) || term.IsTerminal(fd), false, nil
	}
	return false, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// streams are a client's standard files as a session may have them. The client
// itself copies, with no more rights than it has.
type streams struct {
	files  [3]*os.File
	theirs []*os.File     // the session's ends of pipes
	output sync.WaitGroup // that is copied to the client's files
}

// newStreams puts pipes in place of what is no stream. Directories stay, to be
// refused.
func newStreams(files [3]*os.File) (*streams, error) {
	s := &streams{files: files}
	for i, f := range files {
		ok, directory, err := stream(int(f.Fd()))
		switch {
		case err != nil:
			return s, fmt.Errorf("descriptor %d: %w", i, err)
		case ok || directory:
			continue
		case i == 2 && s.files[1] != files[1] && sameFile(files[1], f): // what is written stays in order
			s.files[2] = s.files[1]
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return s, err
		}
		theirs := r
		if i == 0 {
			go func() { _, _ = io.Copy(w, f); _ = w.Close() }()
		} else {
			theirs = w
			s.output.Go(func() { _, _ = io.Copy(f, r); _ = r.Close() })
		}
		s.files[i], s.theirs = theirs, append(s.theirs, theirs)
		// Whose it is not may open it as /dev/stdout; nobody else can reach it.
		if err := theirs.Chmod(0o666); err != nil {
			return s, err
		}
	}
	return s, nil
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	y, e := b.Stat()
	return err == nil && e == nil && os.SameFile(x, y)
}

// passed closes the session's ends here.
func (s *streams) passed() {
	for _, f := range s.theirs {
		_ = f.Close()
	}
	s.theirs = nil
}

// drain is how long an interrupted client may take to write what is left.
const drain = time.Second

// flush waits until what the session wrote is written.
func (s *streams) flush(ctx context.Context) {
	done := make(chan struct{})
	go func() { s.output.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	select {
	case <-done:
	case <-time.After(drain):
	}
}
