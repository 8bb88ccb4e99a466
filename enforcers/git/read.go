package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// maxConfig bounds a configuration, in bytes.
const maxConfig = 1 << 20

// Read implements reconciler.Enforcer: the marked repositories, and those in
// which something is amiss.
func (e *Enforcer) Read(ctx context.Context) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	for _, p := range e.options.Projects {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if p.Git == nil {
			continue
		}
		r, ok, err := readRepository(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", reconciler.NewAddr(enforcerName, p.Name), err)
		}
		if ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// ReadPart implements reconciler.PartReader.
func (e *Enforcer) ReadPart(_ context.Context, addrs []reconciler.Addr) ([]reconciler.Resource, error) {
	var out []reconciler.Resource
	for _, p := range e.options.Projects {
		for _, a := range addrs {
			if p.Git == nil || a != reconciler.NewAddr(enforcerName, p.Name) {
				continue
			}
			r, ok, err := readRepository(p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a, err)
			}
			if ok {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// readRepository never fails for what the project itself has made of its
// directory: that is drift of this one, and must not keep the others from
// being read.
func readRepository(p specs.Project) (r Repository, ok bool, err error) {
	r = Repository{project: p.Name, directory: p.Directory}
	g, err := openGit(p.Directory)
	var odd *oddError
	switch {
	case errors.As(err, &odd):
		r.Drift = []string{odd.what}
		return r, true, nil
	case errors.Is(err, unix.ENOENT):
		return r, false, nil
	case err != nil:
		return r, false, err
	}
	defer g.close()
	st, err := g.state(p.Name)
	if err != nil {
		return r, false, err
	}
	r.Remote, r.Drift = st.remote, st.drift
	return r, st.marked || len(st.drift) > 0, nil
}

// oddError is something in a project's directory that is not as git makes it.
type oddError struct{ what string }

func (e *oddError) Error() string { return e.what }

// gitDir is a project's .git directory, open.
type gitDir struct {
	fd  int
	uid uint32 // whose it is
	gid uint32
}

// openGit opens .git below directory without following links. It returns
// ENOENT when directory or .git does not exist.
func openGit(directory string) (*gitDir, error) {
	top, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: directory, Err: err}
	}
	defer unix.Close(top)
	fd, err := openIn(top, ".git", unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case err == unix.ELOOP || err == unix.ENOTDIR:
		return nil, &oddError{what: ".git is a file or a link, and may lead anywhere"}
	case err == unix.EXDEV:
		return nil, &oddError{what: ".git is on another file system"}
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: directory + "/.git", Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, &os.PathError{Op: "stat", Path: directory + "/.git", Err: err}
	}
	return &gitDir{fd: fd, uid: st.Uid, gid: st.Gid}, nil
}

func (g *gitDir) close() { _ = unix.Close(g.fd) }

func openIn(dir int, name string, flags uint64) (int, error) {
	for range 100 {
		fd, err := unix.Openat2(dir, name, &unix.OpenHow{
			Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
		})
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// state is what the configuration says; what can't be read is drift too.
func (g *gitDir) state(project string) (state, error) {
	text, err := g.config()
	var odd *oddError
	if errors.As(err, &odd) {
		return g.redirected(state{drift: []string{odd.what}}), nil
	}
	if errors.Is(err, unix.ENOENT) {
		return g.redirected(state{}), nil
	}
	if err != nil {
		return state{}, err
	}
	settings, err := parse(text)
	if err != nil {
		return g.redirected(state{drift: []string{"config can't be read: " + err.Error()}}), nil
	}
	return g.redirected(examine(settings, project)), nil
}

// redirections are files that make git look for its configuration elsewhere.
func redirections() []string { return []string{"commondir", "config.worktree"} }

func (g *gitDir) redirected(st state) state {
	for _, name := range redirections() {
		var s unix.Stat_t
		if unix.Fstatat(g.fd, name, &s, unix.AT_SYMLINK_NOFOLLOW) == nil {
			st.drift = append(st.drift, "the file "+name)
		}
	}
	return st
}

// config returns the text of the configuration.
func (g *gitDir) config() (string, error) {
	fd, err := openIn(g.fd, "config", unix.O_PATH)
	if err != nil {
		return "", fmt.Errorf("open config: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", fmt.Errorf("stat config: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", &oddError{what: "config is not a regular file"}
	case st.Nlink > 1:
		return "", &oddError{what: "config has another name elsewhere"}
	case st.Size > maxConfig:
		return "", &oddError{what: "config is too large"}
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open config: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return "", fmt.Errorf("read config: %w", err)
	}
	if len(b) > maxConfig {
		return "", &oddError{what: "config is too large"}
	}
	return string(b), nil
}
