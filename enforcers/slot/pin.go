package slot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rawsys"
	"github.com/aicodesit/cordon/internal/rundir"
)

func (k linux) pinDir() string { return filepath.Dir(k.dir.Netns("n", 0)) }

func (k linux) pins(context.Context) ([]key, error) {
	pins, err := k.dir.Pins()
	keys := make([]key, len(pins))
	for i, p := range pins {
		keys[i] = key{p.Network, p.Slot}
	}
	return keys, err
}

// openPin opens a pin and tells whether a namespace is mounted on it. The file
// is nil unless it is live.
func openPin(path string) (*os.File, state, error) {
	fd, st, err := pinned(path)
	if err != nil || st != live {
		return nil, st, err
	}
	return os.NewFile(uintptr(fd), path), live, nil
}

// pinned is openPin with a descriptor for who opens many: it is to be closed
// if the pin is live.
func pinned(path string) (fd int, st state, err error) {
	fd, err = rawsys.Open(unix.AT_FDCWD, path, unix.O_NOFOLLOW)
	if errors.Is(err, os.ErrNotExist) {
		return -1, absent, nil
	}
	if errors.Is(err, unix.ELOOP) {
		return -1, dead, nil
	}
	if err != nil {
		return -1, absent, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		rawsys.Close(fd)
		return -1, absent, fmt.Errorf("statfs %s: %w", path, err)
	}
	if fs.Type != unix.NSFS_MAGIC {
		rawsys.Close(fd)
		return -1, dead, nil
	}
	return fd, live, nil
}

// pinNew makes a network namespace and pins it at path.
func pinNew(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_ = f.Close()
	return alone(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("pin the namespace at %s: %w", path, err)
		}
		return nil
	})
}

// unpin takes a pin away; what runs in the namespace keeps it.
func unpin(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // nothing is mounted there, not for the first or not any more
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// holdPins makes the directory of pins a mount of its own that is shared with
// other mount namespaces, as iproute2 does with /run/netns: a pin in a private
// copy would keep a removed namespace alive. The directory stays until unlock.
func (k linux) holdPins(ctx context.Context) (unlock func(), err error) {
	for range attempts {
		dir, err := k.makePinDir()
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if err := rundir.Flock(ctx, f, unix.LOCK_SH, nil); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if err := share(dir); err == nil {
			return func() { _ = f.Close() }, nil
		} else if !errors.Is(err, unix.ENOENT) {
			_ = f.Close()
			return nil, err
		}
		_ = f.Close() // removed meanwhile
	}
	return nil, fmt.Errorf("%s: removed again and again", k.pinDir())
}

// makePinDir makes the directory so that root alone can open it: others could
// lock it, and hold up each new slot.
func (k linux) makePinDir() (string, error) {
	if _, err := k.dir.Make(); err != nil {
		return "", err
	}
	_ = os.Mkdir(k.pinDir(), 0o700) // what is there is looked at
	dir, err := k.dir.Make(filepath.Base(k.pinDir()))
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o700) // an older build's
}

func share(dir string) error {
	// Without MS_REC, which would walk all pins; they are shared as what they
	// are mounted in is.
	err := unix.Mount("", dir, "", unix.MS_SHARED, "")
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// Not a mount point yet.
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s on itself: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share %s: %w", dir, err)
	}
	return nil
}

// dropPins removes the directory of pins once it is empty and nobody holds it.
func (k linux) dropPins() error {
	f, err := os.Open(k.pinDir())
	if err != nil {
		return nil // gone
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil
	}
	if names, err := f.Readdirnames(1); err == nil || len(names) > 0 {
		return nil
	}
	return unpin(k.pinDir())
}
