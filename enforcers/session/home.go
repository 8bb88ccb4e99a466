package session

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/agent"
	"github.com/aicodesit/cordon/internal/bwrap"
	"github.com/aicodesit/cordon/specs"
)

// home is a project's kept home: what is in it was left by earlier sessions,
// and others may be running in it.
type home struct {
	path string
	fd   int
}

// maxHomeFile bounds what is read of a file in a kept home, in bytes.
const maxHomeFile = 16 << 20

// keptHome mounts the project's own home of the sandbox, and makes it when it
// is not there.
func (r *Runner) keptHome(p *plan) error {
	a := p.sandbox.Agent
	if a == nil || a.Home != specs.HomeProject || p.project == nil || p.at(p.who.home()) >= 0 {
		return nil
	}
	if r.StateDir == "" {
		return errors.New("no directory to keep homes in")
	}
	dir, err := r.makeHome(p)
	if err != nil {
		return fmt.Errorf("the home of project %q: %w", p.project.Name, err)
	}
	source, err := bwrap.Pin(dir)
	if err != nil {
		return err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Join(&os.PathError{Op: "open", Path: dir, Err: err}, source.Close())
	}
	p.home = &home{path: dir, fd: fd}
	p.add(bwrap.Mount{To: p.who.home(), Source: source, Writable: true})
	return nil
}

// makeHome makes STATE/homes/PROJECT/SANDBOX, the last one the user's and all
// above root's alone, so that no path below can be led elsewhere.
func (r *Runner) makeHome(p *plan) (string, error) {
	if err := os.MkdirAll(r.StateDir, 0o755); err != nil {
		return "", err
	}
	base, err := filepath.EvalSymlinks(r.StateDir)
	if err != nil {
		return "", err
	}
	dir := base
	for _, next := range []string{"homes", p.project.Name} {
		dir = filepath.Join(dir, next)
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return "", &os.PathError{Op: "stat", Path: dir, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
			return "", fmt.Errorf("%s: must be a directory that only the user cordon runs as can write to", dir)
		}
	}
	dir = filepath.Join(dir, p.sandbox.Name)
	return dir, makeOwn(dir, p.who)
}

// makeOwn makes a directory that is who's alone.
func makeOwn(dir string, who account) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	fresh := st.Uid == uint32(os.Geteuid())
	if st.Uid != who.uid && !fresh {
		return fmt.Errorf("%s: belongs to user %d, and the project's sessions are user %d", dir, st.Uid, who.uid)
	}
	if st.Uid == who.uid && st.Gid == who.gid && st.Mode&0o7777 == 0o700 {
		return nil
	}
	return cmp.Or(unix.Fchown(fd, int(who.uid), int(who.gid)), unix.Fchmod(fd, 0o700))
}

// put makes a file of the home anew. What bears its name is read only if it is
// a plain file of the user's with no second name, and is replaced, never
// written to: a link planted there leads nowhere.
func (h *home) put(f agent.HomeFile, who account) error {
	content, err := f.Make(h.read(f.Name, who))
	if err != nil {
		return err
	}
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	suffix := "." + hex.EncodeToString(random)
	if err := h.create(f.Name+suffix, content, who); err != nil {
		return errors.Join(err, ignoreMissing(unix.Unlinkat(h.fd, f.Name+suffix, 0)))
	}
	err = unix.Renameat(h.fd, f.Name+suffix, h.fd, f.Name)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		err = cmp.Or(unix.Renameat(h.fd, f.Name, h.fd, f.Name+suffix+".old"), unix.Renameat(h.fd, f.Name+suffix, h.fd, f.Name))
	}
	return err
}

func (h *home) create(name string, content []byte, who account) error {
	fd, err := unix.Openat(h.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), name)
	_, err = out.Write(content)
	return errors.Join(err, out.Chown(int(who.uid), int(who.gid)), out.Close())
}

// read returns a file of the home, nil when it can't be trusted to be one.
func (h *home) read(name string, who account) []byte {
	fd, err := unix.Openat2(h.fd, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != who.uid || st.Nlink != 1 || st.Size > maxHomeFile {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxHomeFile))
	if err != nil {
		return nil
	}
	return b
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (h *home) close() error {
	if h == nil {
		return nil
	}
	return unix.Close(h.fd)
}
