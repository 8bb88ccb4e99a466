package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// beneath is how paths in the tree are resolved: what the session's user may
// have put into a source never leads out of it, nor to another place in it.
const beneath = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// stageMounts puts the mounts on the staged tree, which is sorted so that
// what is below another comes after it. Each gets the flags that bubblewrap
// would give it, so that it finds nothing to change.
func (s Spec) stageMounts(sources map[int]int, console int) error {
	root, err := unix.Open(filepath.Join(s.Stage, stagedTree), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the staged tree: %w", err)
	}
	defer unix.Close(root)
	if err := s.stageDev(root, console); err != nil {
		return fmt.Errorf("/dev: %w", err)
	}
	for i, m := range s.Mounts {
		if err := m.check(); err != nil {
			return err
		}
		if err := s.stageMount(root, i, m, sources[i]); err != nil {
			return fmt.Errorf("%s: %w", m.To, err)
		}
	}
	for _, m := range s.Mounts {
		if m.Sealed {
			if err := seal(root, m.To); err != nil {
				return fmt.Errorf("%s: %w", m.To, err)
			}
		}
	}
	return seal(root, "/dev")
}

func (s Spec) stageMount(root, i int, m Mount, source int) error {
	if m.late() {
		return nil
	}
	point, err := openPoint(root, m.To)
	if err != nil {
		return err
	}
	defer unix.Close(point)
	switch {
	case m.Source != nil:
		return attach(source, point, !m.Writable)
	case m.Content != nil:
		file := filepath.Join(s.Stage, stagedFile(i))
		if err := writeFile(file, m.Content, m.Mode); err != nil {
			return err
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, file, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open_tree: %w", err)
		}
		defer unix.Close(fd)
		return attach(fd, point, true)
	}
	return mountTmpfs(fdPath(point), m.Size, m.Mode, s.UID, s.GID)
}

func writeFile(file string, content []byte, mode uint32) error {
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}
	return os.Chmod(file, os.FileMode(mode)) // whatever the umask
}

// openPoint opens what is to be mounted on. Only in a tmpfs of ours can it be
// missing: then it becomes a directory.
func openPoint(root int, to string) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: beneath}
	fd, err := unix.Openat2(root, "."+to, how)
	if !errors.Is(err, unix.ENOENT) || to == "/" {
		return fd, err
	}
	dir, err := openPoint(root, path.Dir(to))
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	if err := unix.Mkdirat(dir, path.Base(to), 0o755); err != nil {
		return -1, fmt.Errorf("mkdir: %w", err)
	}
	return unix.Openat2(root, "."+to, how)
}

// attach mounts a detached tree on point: what is in it changes nothing
// outside, gains no privilege and opens no device.
func attach(tree, point int, readOnly bool) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	if err := unix.MoveMount(tree, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// seal makes a tmpfs of ours read-only, and not what is mounted below it.
func seal(root int, to string) error {
	fd, err := openPoint(root, to)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}
