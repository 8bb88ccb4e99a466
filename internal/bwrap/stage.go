package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// stagedTree is where bubblewrap finds what becomes the sandbox's root, in the
// root that is staged for it; stagedFiles holds what is mounted in it.
const (
	stagedTree  = "/.tree"
	stagedFiles = "/.files"
)

func stagedFile(i int) string { return filepath.Join(stagedFiles, strconv.Itoa(i)) }

// hostDirs are what bubblewrap itself needs of the host: its own file and the
// libraries that it is linked with.
func hostDirs() []string {
	return []string{"bin", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr"}
}

// stage gives the calling thread, which must not be used for anything else
// after, a mount namespace of its own with a root that holds what bubblewrap
// needs and nothing else, and in it the tree with all that is mounted on it.
// bubblewrap, which reads the whole mount table again for each mount it makes,
// is left with one: a start does not take longer the more mounts the host has,
// no source can be swapped, and the session's user needs no way to them. It
// vanishes with the last process of the sandbox.
func (s Spec) stage() error {
	sources, err := s.cloneSources()
	if err != nil {
		return err
	}
	defer func() {
		for _, fd := range sources {
			_ = unix.Close(fd)
		}
	}()
	console, err := s.cloneConsole()
	if err != nil {
		return err
	}
	if console >= 0 {
		defer unix.Close(console)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mounts: %w", err)
	}
	if err := mount("", "/", unix.MS_REC|unix.MS_PRIVATE); err != nil {
		return err
	}
	if err := mountTmpfs(s.Stage, 1<<20, 0o755, 0, 0); err != nil {
		return err
	}
	if err := s.stageHost(); err != nil {
		return err
	}
	return s.stageMounts(sources, console)
}

// cloneSources makes detached copies of the mounts that were pinned. It is
// done before the namespace is left that they are in.
func (s Spec) cloneSources() (map[int]int, error) {
	out := map[int]int{}
	for i, m := range s.Mounts {
		if m.Source == nil {
			continue
		}
		fd, err := unix.OpenTree(m.Source.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			for _, open := range out {
				_ = unix.Close(open)
			}
			return nil, fmt.Errorf("open_tree %s: %w", m.Source.Path, err)
		}
		out[i] = fd
	}
	return out, nil
}

func (s Spec) stageHost() error {
	for _, name := range hostDirs() {
		from, to := "/"+name, filepath.Join(s.Stage, name)
		target, err := os.Readlink(from)
		switch {
		case err == nil:
			if err := os.Symlink(target, to); err != nil {
				return err
			}
			continue
		case errors.Is(err, os.ErrNotExist):
			continue
		}
		if err := bind(from, to, 0); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(s.Stage, "tmp"), 0o755); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(s.Stage, "tmp"), 0o1777); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(s.Stage, stagedFiles), 0o755); err != nil {
		return err
	}
	if err := s.stageProc(); err != nil {
		return err
	}
	return s.stageTree()
}

// stageProc is the host's /proc, or a place for the starter to mount one.
func (s Spec) stageProc() error {
	dir := filepath.Join(s.Stage, "proc")
	if !s.ownPids() {
		// All of it, for who may see a part of it alone may not mount another.
		return bind("/proc", dir, unix.MS_REC)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return s.stageStarter()
}

// stageTree puts the tree in its place, read-only whatever it is itself.
func (s Spec) stageTree() error {
	place := filepath.Join(s.Stage, stagedTree)
	if err := os.Mkdir(place, 0o755); err != nil {
		return err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, s.Root, unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree %s: %w", s.Root, err)
	}
	defer unix.Close(tree)
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return &os.PathError{Op: "stat", Path: s.Root, Err: err}
	}
	if idOf(&st) != s.tree {
		return fmt.Errorf("%s: %w", s.Root, ErrReplaced)
	}
	point, err := unix.Open(place, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: place, Err: err}
	}
	defer unix.Close(point)
	return attach(tree, point, true)
}

// enterRoot makes dir the thread's root and lets go of the old one, as
// pivot_root(2) describes.
func enterRoot(dir string) error {
	if err := unix.Chdir(dir); err != nil {
		return &os.PathError{Op: "chdir", Path: dir, Err: err}
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root %s: %w", dir, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	return unix.Chdir("/")
}

func bind(from, to string, flags uintptr) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	return mount(from, to, unix.MS_BIND|flags)
}

func mount(from, to string, flags uintptr) error {
	if err := unix.Mount(from, to, "", flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", from, to, err)
	}
	return nil
}

func mountTmpfs(dir string, size int64, mode, uid, gid uint32) error {
	data := fmt.Sprintf("size=%d,mode=%o,uid=%d,gid=%d", size, mode, uid, gid)
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return fmt.Errorf("mount a tmpfs on %s: %w", dir, err)
	}
	return nil
}

// checkFiles refuses a directory among the standard files: it would be a way
// to all below and above it.
func (s Spec) checkFiles() error {
	for i, f := range s.Files {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return fmt.Errorf("descriptor %d: %w", i, err)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return fmt.Errorf("descriptor %d is a directory of the host: the session would see all of it", i)
		}
	}
	return nil
}
