package bwrap

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// devices are the host's device files that every sandbox has.
func devices() []string { return []string{"full", "null", "random", "tty", "urandom", "zero"} }

// devLinks are the symbolic links in /dev, with what they lead to.
func devLinks() map[string]string {
	return map[string]string{
		"core": "/proc/kcore", "fd": "/proc/self/fd", "ptmx": "pts/ptmx",
		"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	}
}

// stageDev makes the tree's /dev, as bubblewrap's --dev would: but bubblewrap
// reads the whole mount table again for each device. console is a detached
// mount of the session's terminal; -1: it has none.
func (s Spec) stageDev(root, console int) error {
	point, err := openPoint(root, "/dev")
	if err != nil {
		return err
	}
	err = mountTmpfs(fdPath(point), 1<<20, 0o755, 0, 0)
	_ = unix.Close(point)
	if err != nil {
		return err
	}
	dev, err := unix.Openat2(root, "dev", &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: beneath})
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	for _, name := range devices() {
		device, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("open_tree /dev/%s: %w", name, err)
		}
		err = attachDevice(device, dev, name)
		_ = unix.Close(device)
		if err != nil {
			return err
		}
	}
	if console >= 0 {
		if err := attachDevice(console, dev, "console"); err != nil {
			return err
		}
	}
	for name, to := range devLinks() {
		if err := unix.Symlinkat(to, dev, name); err != nil {
			return fmt.Errorf("symlink %s: %w", name, err)
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := unix.Mkdirat(dev, name, 0o755); err != nil {
			return fmt.Errorf("mkdir %s: %w", name, err)
		}
	}
	err = unix.Mount("devpts", fdPath(dev)+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
	if err != nil {
		return fmt.Errorf("mount devpts: %w", err)
	}
	return nil
}

// attachDevice mounts a detached device file on a new file in dev.
func attachDevice(device, dev int, name string) error {
	fd, err := unix.Openat(dev, name, unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_ = unix.Close(fd)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC, Attr_clr: unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(device, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("%s: mount_setattr: %w", name, err)
	}
	if err := unix.MoveMount(device, "", dev, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("%s: move_mount: %w", name, err)
	}
	return nil
}

// cloneConsole makes a detached mount of the terminal that the session's
// descriptor is of.
func (s Spec) cloneConsole() (int, error) {
	if s.TTY < 0 {
		return -1, nil
	}
	fd, err := unix.OpenTree(int(s.Files[s.TTY].Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open_tree of the terminal: %w", err)
	}
	return fd, nil
}

// fdPath is a path to what a descriptor of the calling thread is of.
func fdPath(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }
