package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is one Scrub.
type tree struct {
	o       Options
	m       *matcher
	root    int // descriptor of the tree's directory
	staging *staging
	report  Report
	buf     []byte // for one file after the other
	written func() // called when a file's new form is written and not yet in place; for tests
}

const (
	maxDirs   = 100 // directories within each other; each holds a descriptor
	dirBatch  = 256 // names read at once
	maxRounds = 3   // how often a file that changes meanwhile is begun again
)

func (t *tree) scrub(ctx context.Context) error {
	if err := cleanStaging(t.root); err != nil {
		return fmt.Errorf("what is left of another run: %w", err)
	}
	defer func() { t.staging.remove() }()
	return t.dir(ctx, t.root, "", 0)
}

// left takes a note of what can't be scrubbed.
func (t *tree) left(name, why string) {
	t.o.Log.Warn("left as it is", "path", name, "why", why)
	if len(t.report.Left) == maxListed {
		t.report.More++
		return
	}
	t.report.Left = append(t.report.Left, Left{Path: name, Why: why})
}

// dir goes through the directory that fd is, which stays open. Names are read
// from a descriptor of their own: fd's position is nobody else's.
func (t *tree) dir(ctx context.Context, fd int, name string, depth int) error {
	own, err := openBeneath(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		t.left(name, err.Error())
		return nil
	}
	f := os.NewFile(uintptr(own), name)
	defer f.Close()
	for {
		// A batch is done with before the next is read, so memory does not
		// grow with the directory.
		entries, err := f.ReadDir(dirBatch)
		for _, e := range entries {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := t.entry(ctx, fd, e.Name(), path.Join(name, e.Name()), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			t.left(name, err.Error())
			return nil
		}
	}
}

// entry does what has to be done about one name, again when it came to stand
// for something else, or something that changed, meanwhile.
func (t *tree) entry(ctx context.Context, dir int, name, full string, depth int) error {
	var err error
	for range maxRounds {
		err = t.look(ctx, dir, name, full, depth)
		switch {
		case err == nil || errors.Is(err, unix.ENOENT): // done, or gone
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, errChanged):
			t.left(full, reason(err))
			return nil
		}
	}
	t.left(full, err.Error())
	return nil
}

// look finds out what name is before it is opened for reading: opening a FIFO
// or a device is already doing something to it.
func (t *tree) look(ctx context.Context, dir int, name, full string, depth int) error {
	fd, err := openBeneath(dir, name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return t.file(ctx, dir, fd, name, full)
	case unix.S_IFDIR:
		if depth == 0 && isStaging(name, &st) {
			return nil
		}
		if depth == maxDirs {
			return errors.New("too many directories within each other")
		}
		return t.dir(ctx, fd, full, depth+1)
	}
	t.report.Ignored++
	t.o.Log.Debug("not a regular file", "path", full, "mode", fmt.Sprintf("%o", st.Mode))
	return nil
}

// file scrubs one file, which fd names without having it open.
func (t *tree) file(ctx context.Context, dir, fd int, name, full string) error {
	src, st, err := t.open(fd)
	if err != nil {
		return err
	}
	defer src.Close()
	c := &copied{t: t, src: src, dir: dir, name: name, before: st, sum: newSum()}
	defer c.discard()
	r := t.rewriter(src, st.Size, 0, full, c.begin)
	r.read = func(b []byte) { _, _ = c.sum.Write(b) }
	err = r.run(ctx)
	t.buf = r.buf
	if err != nil {
		return err
	}
	if r.out != nil {
		if err := c.exchange(ctx, full); err != nil {
			return err
		}
		t.report.Changed++
	}
	t.report.Files++
	t.report.Bytes += st.Size
	t.report.Addresses += r.counts.addresses
	t.report.Secrets += r.counts.secrets
	t.report.Blocks += r.counts.blocks
	return nil
}

func (t *tree) rewriter(src io.ReaderAt, size, off int64, name string, begin func(int64) (io.Writer, error)) *rewriter {
	lower := strings.ToLower(name)
	isJSON := strings.HasSuffix(lower, ".jsonl") || strings.HasSuffix(lower, ".json") || strings.HasSuffix(lower, ".ndjson")
	return &rewriter{blocks: blocks{m: t.m, src: src, size: size, off: off, isJSON: isJSON, buf: t.buf}, name: t.o.Name, begin: begin}
}

// open opens for reading what fd names, if it is still a file of one name.
// Through /proc it is the same inode, whatever the name has become.
func (t *tree) open(fd int) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	again, err := retried(func() (int, error) {
		return unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, st, err
	}
	f := os.NewFile(uintptr(again), "transcript")
	if err := unix.Fstat(again, &st); err != nil {
		_ = f.Close()
		return nil, st, err
	}
	why := ""
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		why = "not a regular file"
	case st.Nlink > 1:
		why = fmt.Sprintf("it has %d names; the others may be anywhere", st.Nlink)
	case st.Size > t.o.MaxFile:
		why = fmt.Sprintf("%d bytes, more than %d", st.Size, t.o.MaxFile)
	}
	if why != "" {
		_ = f.Close()
		return nil, st, errors.New(why)
	}
	return f, st, nil
}

func openBeneath(dir int, name string, flags uint64) (int, error) {
	return retried(func() (int, error) {
		return unix.Openat2(dir, name, &unix.OpenHow{
			Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
		})
	})
}

func reason(err error) string {
	var p *fs.PathError
	switch {
	case errors.Is(err, unix.EXDEV):
		return "on another file system"
	case errors.Is(err, unix.EWOULDBLOCK):
		return "somebody holds a lease on it"
	case errors.As(err, &p):
		return p.Err.Error()
	}
	return err.Error()
}
