package root

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/root/closure"
)

// Where a path may lead: down from the descriptor, on one file system, by no
// symbolic link; see openat2(2).
const strictly = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// What a tree and all its mounts are.
const treeAttrs = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// beneathTop is MOVE_MOUNT_BENEATH of linux/mount.h.
const beneathTop = 0x200

// sizes bounds the tmpfs of a tree: it holds names, not content.
const sizes = "mode=755,size=1m,nr_inodes=64k"

// mountsBelow reads the mount table: all mounts at dir and below, in the
// order in which they were made.
func mountsBelow(dir string) ([]*mountinfo.Info, error) {
	return mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) { return !within(i.Mountpoint, dir), false })
}

func count(mounts []*mountinfo.Info, at string) int {
	n := 0
	for _, m := range mounts {
		if m.Mountpoint == at {
			n++
		}
	}
	return n
}

// within tells whether p is dir or below it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// newTree mounts an empty, private, writable tmpfs at dir and returns it open.
func newTree(dir string) (int, error) {
	if err := unix.Mount("cordon", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, sizes); err != nil {
		return -1, &os.PathError{Op: "mount tmpfs", Path: dir, Err: err}
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	if err := private(root); err != nil {
		_ = unix.Close(root)
		return -1, &os.PathError{Op: "mount_setattr", Path: dir, Err: err}
	}
	return root, nil
}

func private(fd int) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE})
}

// openIn opens name in the tree at root.
func openIn(root int, name string, flags uint64) (int, error) {
	name = strings.TrimPrefix(name, "/")
	if name == "" {
		name = "."
	}
	fd, err := unix.Openat2(root, name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: strictly})
	if err != nil {
		return -1, &os.PathError{Op: "open in the tree", Path: name, Err: err}
	}
	return fd, nil
}

// makeIn calls do with the directory of name in the tree, and name's last part.
func makeIn(root int, name string, do func(dir int, base string) error) error {
	dir, err := openIn(root, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := do(dir, path.Base(name)); err != nil {
		return &os.PathError{Op: "make in the tree", Path: name, Err: err}
	}
	return nil
}

// makeDir makes a directory that everyone may enter, whatever the umask.
func makeDir(root int, name string) error {
	return makeIn(root, name, func(dir int, base string) error {
		if err := unix.Mkdirat(dir, base, 0o755); err != nil {
			return err
		}
		return unix.Fchmodat(dir, base, 0o755, 0)
	})
}

func makeLink(root int, name, target string) error {
	return makeIn(root, name, func(dir int, base string) error { return unix.Symlinkat(target, dir, base) })
}

// makeFile makes a file that everyone may read, whatever the umask.
func makeFile(root int, name, content string) error {
	return makeIn(root, name, func(dir int, base string) error {
		fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		if err := f.Chmod(0o644); err != nil {
			return err
		}
		_, err = f.WriteString(content)
		return err
	})
}

// bind attaches f of the host at its path in the tree, read-only from the
// first moment on. It fails when f is no longer what was resolved.
func bind(root int, f closure.File) error {
	src, err := unix.Openat2(unix.AT_FDCWD, f.Path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: f.Path, Err: err}
	}
	defer unix.Close(src)
	var st unix.Stat_t
	if err := unix.Fstat(src, &st); err != nil {
		return &os.PathError{Op: "stat", Path: f.Path, Err: err}
	}
	if !f.Is(&st) {
		return fmt.Errorf("%s: replaced on the host meanwhile", f.Path)
	}
	flags, recursive := uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH), uint(0)
	if f.Dir {
		recursive = unix.AT_RECURSIVE
	}
	tree, err := unix.OpenTree(src, "", flags|recursive)
	if err != nil {
		return &os.PathError{Op: "open_tree", Path: f.Path, Err: err}
	}
	defer unix.Close(tree)
	attr := &unix.MountAttr{Attr_set: treeAttrs, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|recursive, attr); err != nil {
		return &os.PathError{Op: "mount_setattr", Path: f.Path, Err: err}
	}
	target, err := openIn(root, f.Path, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if err := unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move_mount", Path: f.Path, Err: err}
	}
	return nil
}

// seal makes the tree's own tmpfs read-only.
func seal(root int) error {
	return unix.MountSetattr(root, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: treeAttrs})
}

// replace moves the whole tree at stage to root, in the place of what is
// there. With a single mount there the old one is seen until the new one is
// (Linux 6.5); otherwise root is an empty directory for a moment, in which a
// session finds nothing to start.
func replace(stage, root string, mounted int) error {
	if mounted == 1 {
		if err := unix.MoveMount(unix.AT_FDCWD, stage, unix.AT_FDCWD, root, beneathTop); err == nil {
			return os.NewSyscallError("umount", unix.Unmount(root, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
		}
	}
	if err := unmount(root); err != nil {
		return err
	}
	if err := unix.MoveMount(unix.AT_FDCWD, stage, unix.AT_FDCWD, root, 0); err != nil {
		return &os.PathError{Op: "move_mount", Path: root, Err: err}
	}
	return nil
}

// unmount takes everything off dir, with all below. What others have open or
// mounted elsewhere stays theirs.
func unmount(dir string) error {
	for {
		switch err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err {
		case nil:
		case unix.EINVAL, unix.ENOENT: // no mount point, or not there
			return nil
		default:
			return &os.PathError{Op: "umount", Path: dir, Err: err}
		}
	}
}

// anchor makes dir a private mount of its own: below a shared one no tree
// could be moved into place, and each would show in other namespaces.
func anchor(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	if count(mounts, dir) == 0 {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return &os.PathError{Op: "bind", Path: dir, Err: err}
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		return &os.PathError{Op: "make private", Path: dir, Err: err}
	}
	return nil
}

// realDir is dir as the mount table writes it.
func realDir(dir string) (string, error) { return filepath.EvalSymlinks(dir) }
