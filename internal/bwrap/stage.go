package bwrap

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// staged is where the i-th mount is prepared.
func (s Spec) staged(i int) string { return filepath.Join(s.Stage, strconv.Itoa(i)) }

// stage mounts the bounded tmpfs in a mount namespace that the calling thread
// and its child alone have: what bubblewrap takes for being set-user-ID it does
// not let bound them. They vanish with the last process of the sandbox.
func (s Spec) stage() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := mountTmpfs(s.Stage, 1<<20, 0o755, 0, 0); err != nil {
		return err
	}
	for i, m := range s.Mounts {
		if m.Size == 0 {
			continue
		}
		if err := os.Mkdir(s.staged(i), 0o755); err != nil {
			return err
		}
		if err := mountTmpfs(s.staged(i), m.Size, m.Mode, s.UID, s.GID); err != nil {
			return err
		}
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
