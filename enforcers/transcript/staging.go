package transcript

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// staging is a directory on the tree's file system in which files are written
// before they take their place. The agent can rename it, for it stands in the
// agent's directory, but neither look into it nor change what it holds.
type staging struct {
	root int
	name string
	fd   int
}

const stagingPrefix = ".cordon-scrub-"

func isStaging(name string, st *unix.Stat_t) bool {
	return strings.HasPrefix(name, stagingPrefix) && isClosedDir(st)
}

// isClosedDir tells whether nobody else could ever have got into a directory.
func isClosedDir(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Uid == uint32(os.Geteuid()) && st.Mode&0o077 == 0
}

func newStaging(root int) (*staging, error) {
	for range maxRounds {
		s := &staging{root: root, name: stagingPrefix + rand.Text()}
		if err := unix.Mkdirat(root, s.name, 0o700); err != nil {
			return nil, fmt.Errorf("mkdir %s: %w", s.name, err)
		}
		fd, err := openBeneath(root, s.name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			continue // another run took it for a leftover, or the agent moved it
		}
		s.fd = fd
		var st unix.Stat_t
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil && unix.Fstat(fd, &st) == nil && st.Nlink > 0 && isClosedDir(&st) {
			return s, nil
		}
		_ = unix.Close(fd)
	}
	return nil, errors.New("no directory could be made that is closed to others")
}

func (s *staging) remove() {
	if s == nil {
		return
	}
	_ = unix.Unlinkat(s.root, s.name, unix.AT_REMOVEDIR)
	_ = unix.Close(s.fd)
}

// cleanStaging removes the staging directories of runs that were killed. What
// they hold is an unfinished copy, or a file as it was before it was
// scrubbed.
func cleanStaging(root int) error {
	own, err := openBeneath(root, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(own), "tree")
	defer f.Close()
	for {
		names, err := f.Readdirnames(dirBatch)
		for _, name := range names {
			if strings.HasPrefix(name, stagingPrefix) {
				cleanOne(root, name)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func cleanOne(root int, name string) {
	fd, err := openBeneath(root, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || !isClosedDir(&st) || unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return // another's, or in use
	}
	names, _ := f.Readdirnames(-1) // one run has two files in it at most
	for _, n := range names {
		_ = unix.Unlinkat(fd, n, 0)
	}
	_ = unix.Unlinkat(root, name, unix.AT_REMOVEDIR)
}

// copied is a file's new form, until it takes the old one's place.
type copied struct {
	t      *tree
	src    *os.File
	dir    int
	name   string
	before unix.Stat_t // of src, when its reading began
	sum    hash.Hash32 // of what was read, once there is an out
	out    *os.File    // nil before begin and when there is nothing to discard
}

// newSum is no defence: an agent that changes its file meanwhile may as well
// do so afterwards. It tells an appending client from a rewriting one.
func newSum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

const copyName = "new"

func (c *copied) begin(off int64) (io.Writer, error) {
	if c.t.staging == nil {
		s, err := newStaging(c.t.root)
		if err != nil {
			return nil, err
		}
		c.t.staging = s
	}
	fd, err := unix.Openat(c.t.staging.fd, copyName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create its new form: %w", err)
	}
	c.out = os.NewFile(uintptr(fd), copyName)
	if _, err := io.Copy(io.MultiWriter(c.out, c.sum), io.NewSectionReader(c.src, 0, off)); err != nil {
		return nil, fmt.Errorf("copy: %w", err)
	}
	return c.out, nil
}

func (c *copied) discard() {
	if c.out == nil {
		return
	}
	_ = c.out.Close()
	_ = unix.Unlinkat(c.t.staging.fd, copyName, 0)
}

// finish gives the new form what belongs to the old one. The bits that make a
// program run as its owner are not among it.
func (c *copied) finish() error {
	fd := int(c.out.Fd())
	if int(c.before.Uid) != os.Geteuid() || int(c.before.Gid) != os.Getegid() {
		if err := unix.Fchown(fd, int(c.before.Uid), int(c.before.Gid)); err != nil {
			return fmt.Errorf("keep its owner: %w", err)
		}
	}
	if err := unix.Fchmod(fd, c.before.Mode&0o1777); err != nil {
		return fmt.Errorf("keep its mode: %w", err)
	}
	if err := unix.UtimesNanoAt(c.t.staging.fd, copyName, []unix.Timespec{c.before.Atim, c.before.Mtim}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("keep its time: %w", err)
	}
	return unix.Fdatasync(fd) // else a power cut could leave a file of zeros
}

// exchange puts the new form in the old one's place. It is one step for who
// opens the file, and the old one, in cordon's hands now, shows whether
// somebody wrote to it up to then. It returns errChanged when all is to be
// done again.
func (c *copied) exchange(ctx context.Context, full string) error {
	if now, err := c.state(); err != nil || c.rewritten(now) {
		return errors.Join(err, errChanged)
	}
	if err := c.finish(); err != nil {
		return err
	}
	if c.t.written != nil {
		c.t.written()
	}
	staging := c.t.staging.fd
	err := unix.Renameat2(staging, copyName, c.dir, c.name, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) { // the file system can't
		if err = unix.Renameat(staging, copyName, c.dir, c.name); err == nil {
			_ = c.out.Close()
			c.out = nil
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("take its place: %w", err)
	}
	var old unix.Stat_t
	if err := unix.Fstatat(staging, copyName, &old, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	now, err := c.state()
	if err != nil {
		return err
	}
	if old.Ino != c.before.Ino || old.Dev != c.before.Dev || c.rewritten(now) || !c.appended(now) {
		if err := unix.Renameat2(staging, copyName, c.dir, c.name, unix.RENAME_EXCHANGE); err != nil {
			return fmt.Errorf("give back what took its place: %w", err)
		}
		return errChanged
	}
	// The old one is what discard removes. What a live session appended to it
	// meanwhile goes to the new one.
	return c.carry(ctx, now.Size, full)
}

func (c *copied) state() (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(c.src.Fd()), &st)
	return st, err
}

// rewritten tells whether src differs from what was read by more than a longer
// end.
func (c *copied) rewritten(now unix.Stat_t) bool {
	return now.Size < c.before.Size || now.Size == c.before.Size && now.Mtim != c.before.Mtim
}

// appended tells whether src still begins with what was read.
func (c *copied) appended(now unix.Stat_t) bool {
	if now.Size == c.before.Size {
		return true
	}
	sum := newSum()
	_, err := io.Copy(sum, io.NewSectionReader(c.src, 0, c.before.Size))
	return err == nil && sum.Sum32() == c.sum.Sum32()
}

// carry appends what src got behind what was read.
func (c *copied) carry(ctx context.Context, size int64, full string) error {
	if size == c.before.Size {
		return nil
	}
	if _, err := unix.FcntlInt(c.out.Fd(), unix.F_SETFL, unix.O_APPEND); err != nil {
		return err
	}
	all := func(off int64) (io.Writer, error) {
		_, err := io.Copy(c.out, io.NewSectionReader(c.src, c.before.Size, off-c.before.Size))
		return c.out, err
	}
	r := c.t.rewriter(c.src, size, c.before.Size, full, all)
	if err := r.run(ctx); err != nil {
		return err
	}
	if r.out == nil {
		_, err := all(size)
		return err
	}
	return nil
}
