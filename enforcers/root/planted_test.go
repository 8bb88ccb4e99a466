package root

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

const closed = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV

// planted is a change by another hand in the tree's own tmpfs, which is opened
// for it and looks as before after it.
func planted(tree, name string, do func(tree string) error) enforcertest.Damage {
	return enforcertest.Damage{Name: name, Do: func(t *testing.T) {
		must(t, unix.Mount("", tree, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, ""))
		must(t, do(tree))
		must(t, unix.Mount("", tree, "", unix.MS_REMOUNT|unix.MS_BIND|closed, ""))
	}}
}

// plantings are changes of every kind, of the tree that TestConformance makes.
func plantings(tree, script string) []enforcertest.Damage {
	remount := func(at string, flags uintptr, data string) func(t *testing.T) {
		return func(t *testing.T) { must(t, unix.Mount("", at, "", unix.MS_REMOUNT|flags, data)) }
	}
	return []enforcertest.Damage{
		planted(tree, "a preloaded library planted", func(tree string) error {
			return os.WriteFile(tree+"/etc/ld.so.preload", []byte("/work/evil.so\n"), 0o644)
		}),
		planted(tree, "a directory planted", func(tree string) error { return os.MkdirAll(tree+"/sys/x/y", 0o755) }),
		planted(tree, "a device planted", func(tree string) error { return unix.Mknod(tree+"/etc/sda", unix.S_IFBLK|0o666, 0x800) }),
		planted(tree, "a name removed", func(tree string) error { return os.Remove(tree + "/var/cache/x") }),
		planted(tree, "a file replaced", func(tree string) error {
			if err := os.WriteFile(tree+"/etc/new", []byte("127.0.0.1 x\n"), 0o644); err != nil {
				return err
			}
			return os.Rename(tree+"/etc/new", tree+"/etc/hosts")
		}),
		planted(tree, "a file written to", func(tree string) error { return os.WriteFile(tree+"/etc/hosts", []byte("x"), 0o644) }),
		planted(tree, "a file written to, as long as it was", func(tree string) error {
			b, err := os.ReadFile(tree + "/etc/nsswitch.conf")
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(tree+"/etc/nsswitch.conf", &st); err != nil {
				return err
			}
			slices.Reverse(b)
			if err := os.WriteFile(tree+"/etc/nsswitch.conf", b, 0o644); err != nil {
				return err
			}
			return unix.UtimesNanoAt(unix.AT_FDCWD, tree+"/etc/nsswitch.conf", []unix.Timespec{st.Atim, st.Mtim}, 0)
		}),
		planted(tree, "a directory closed", func(tree string) error { return os.Chmod(tree+"/usr", 0o700) }),
		planted(tree, "a directory open to all", func(tree string) error { return os.Chmod(tree+"/etc", 0o777) }),
		planted(tree, "the tree closed", func(tree string) error { return os.Chmod(tree, 0o700) }),
		planted(tree, "a directory given away", func(tree string) error { return os.Chown(tree+"/etc", 1234, 0) }),
		planted(tree, "a directory given to a group", func(tree string) error { return os.Chown(tree+"/etc", 0, 1234) }),
		planted(tree, "a symbolic link led elsewhere", func(tree string) error {
			if err := os.Remove(tree + "/bin"); err != nil {
				return err
			}
			return os.Symlink("/work", tree+"/bin")
		}),
		planted(tree, "an extended attribute", func(tree string) error { return unix.Setxattr(tree+"/etc", "trusted.x", []byte("x"), 0) }),
		planted(tree, "a name that came and went", func(tree string) error {
			if err := os.Mkdir(tree+"/etc/x", 0o755); err != nil {
				return err
			}
			return os.Remove(tree + "/etc/x")
		}),
		{Name: "the tree without execution", Do: remount(tree, unix.MS_BIND|closed|unix.MS_NOEXEC, "")},
		{Name: "a bind without execution", Do: remount(tree+script, unix.MS_BIND|closed|unix.MS_NOEXEC, "")},
		{Name: "the tree made larger", Do: remount(tree, closed, "size=1g")},
		{Name: "the tree made shared", Do: func(t *testing.T) { must(t, unix.Mount("", tree, "", unix.MS_SHARED, "")) }},
		{Name: "a bind made shared", Do: func(t *testing.T) { must(t, unix.Mount("", tree+script, "", unix.MS_SHARED, "")) }},
		{Name: "all made unbindable", Do: func(t *testing.T) { must(t, unix.Mount("", tree, "", unix.MS_REC|unix.MS_UNBINDABLE, "")) }},
	}
}

// Whatever mask the caller has, everyone may enter and read the tree.
func TestModesDontDependOnTheCaller(t *testing.T) {
	h := host(t)
	trees := map[int][]entry{}
	for _, mask := range []int{0o022, 0o077, 0o777, 0} {
		was := syscall.Umask(mask)
		e := newEnforcer(h + "/cordon")
		err := tryApply(e, sandbox("s", specs.Filesystem{Programs: []string{"/bin/sh"}, Tmpfs: []specs.Tmpfs{{Path: "/a/b"}}}))
		syscall.Umask(was)
		must(t, err)
		m, err := readManifest(rundir.Dir(h+"/cordon").Root("s") + ".json")
		must(t, err)
		for _, en := range m.Entries {
			en.Changed = 0
			trees[mask] = append(trees[mask], en)
		}
		apply(t, e)
	}
	for mask, entries := range trees {
		if len(entries) < 10 || !slices.Equal(entries, trees[0o022]) {
			t.Errorf("mask %#o: %v, want %v", mask, entries, trees[0o022])
		}
	}
}
