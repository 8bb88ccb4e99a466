package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// staleLock is how old a lock on a configuration is that its process has left
// behind: git holds it for the time of one write.
const staleLock = time.Minute

// Apply implements reconciler.Enforcer.
func (e *Enforcer) Apply(_ context.Context, c reconciler.Change) error {
	p := e.project(c.Addr())
	if p == nil {
		if c.After == nil {
			return nil
		}
		return fmt.Errorf("%s: no such project", c.Addr())
	}
	if err := e.apply(p, c.After); err != nil {
		return fmt.Errorf("%s: %w", c.Addr(), err)
	}
	return nil
}

func (e *Enforcer) project(a reconciler.Addr) *specs.Project {
	for i, p := range e.options.Projects {
		if reconciler.NewAddr(enforcerName, p.Name) == a {
			return &e.options.Projects[i]
		}
	}
	return nil
}

func (e *Enforcer) apply(p *specs.Project, after reconciler.Resource) error {
	g, err := openGit(p.Directory)
	switch {
	case errors.Is(err, unix.ENOENT) && after == nil:
		return nil
	case errors.Is(err, unix.ENOENT):
		if g, err = initGit(p.Directory); err != nil {
			return err
		}
	case err != nil:
		var odd *oddError
		if errors.As(err, &odd) {
			return fmt.Errorf("%w: remove it, or make it a directory", err)
		}
		return err
	}
	defer g.close()
	st, err := g.state(p.Name)
	if err != nil {
		return err
	}
	if st.exposed {
		e.options.Log.Warn("a credential stood where the project's sessions can read it; it must be taken for known to them", "address", reconciler.NewAddr(enforcerName, p.Name))
	}
	if after == nil {
		// What is no longer declared keeps its remote, and loses what must not
		// be there for the last time.
		return g.write(format(st.unmarked()))
	}
	rec, err := reconciler.Record(after)
	if err != nil {
		return err
	}
	remote, err := remoteOf(rec)
	if err != nil {
		return err
	}
	return g.write(format(st.wanted(p.Name, remote)))
}

// unmarked is what stays of a repository that is not cordon's any more.
func (st state) unmarked() []setting {
	all := st.wanted("", st.remote)
	return all[:len(all)-1] // without the mark
}

// initGit makes an empty repository below directory, for its owner. A program
// of git's is not needed for that, and would read what its owner configured.
func initGit(directory string) (*gitDir, error) {
	top, err := unix.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: directory, Err: err}
	}
	defer unix.Close(top)
	var owner unix.Stat_t
	if err := unix.Fstat(top, &owner); err != nil {
		return nil, &os.PathError{Op: "stat", Path: directory, Err: err}
	}
	// Made whole under another name: half a repository would be taken for one.
	const unfinished = ".git.cordon-new"
	if err := unix.Mkdirat(top, unfinished, 0o755); err != nil && err != unix.EEXIST {
		return nil, fmt.Errorf("make .git: %w", err)
	}
	fd, err := openIn(top, unfinished, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("make .git: %w", err)
	}
	g := &gitDir{fd: fd, uid: owner.Uid, gid: owner.Gid}
	err = errors.Join(g.skeleton(), unix.Renameat2(top, unfinished, top, ".git", unix.RENAME_NOREPLACE))
	if err != nil {
		g.close()
		return nil, fmt.Errorf("make .git: %w", err)
	}
	return g, nil
}

func (g *gitDir) skeleton() error {
	for _, d := range []string{"objects", "refs"} {
		if err := unix.Mkdirat(g.fd, d, 0o755); err != nil && err != unix.EEXIST {
			return err
		}
		fd, err := openIn(g.fd, d, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		err = unix.Fchown(fd, int(g.uid), int(g.gid))
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
	if err := g.replace("HEAD", "ref: refs/heads/main\n"); err != nil {
		return err
	}
	return unix.Fchown(g.fd, int(g.uid), int(g.gid))
}

// write makes text the configuration, and removes what leads away from it.
func (g *gitDir) write(text string) error {
	for _, name := range redirections() {
		if err := unix.Unlinkat(g.fd, name, 0); err != nil && err != unix.ENOENT {
			return fmt.Errorf("remove .git/%s: %w", name, err)
		}
	}
	return g.replace("config", text)
}

// replace writes a file under git's own lock on it and puts it in the place of
// the old one, whatever that was: a link is replaced, not followed.
func (g *gitDir) replace(name, text string) error {
	lock := name + ".lock"
	fd, err := g.lock(lock)
	if err != nil {
		return fmt.Errorf("lock .git/%s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), lock)
	_, err = io.WriteString(f, text)
	err = errors.Join(err, unix.Fchown(fd, int(g.uid), int(g.gid)), unix.Fdatasync(fd), f.Close())
	if err == nil {
		err = unix.Renameat(g.fd, lock, g.fd, name)
	}
	if err != nil {
		_ = unix.Unlinkat(g.fd, lock, 0)
		return fmt.Errorf("write .git/%s: %w", name, err)
	}
	return nil
}

func (g *gitDir) lock(name string) (int, error) {
	for try := 0; ; try++ {
		fd, err := unix.Openat(g.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
		if err != unix.EEXIST || try == 1 {
			return fd, err
		}
		var st unix.Stat_t
		if err := unix.Fstatat(g.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return -1, err
		}
		if time.Since(time.Unix(st.Ctim.Unix())) < staleLock && st.Mode&unix.S_IFMT == unix.S_IFREG {
			return -1, errors.New("another git is changing it")
		}
		if err := unix.Unlinkat(g.fd, name, 0); err != nil {
			return -1, err
		}
	}
}
