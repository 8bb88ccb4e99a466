package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spec is one sandbox to start.
type Spec struct {
	Program  string // of bubblewrap, absolute
	Root     string // directory that becomes /, with all mounts below it, read-only
	Netns    string // a pinned network namespace; "" is a new one with loopback alone
	UID, GID uint32
	Userns   bool   // the user may make user namespaces on this host
	Stage    string // an empty directory, the same after as before
	Nested   bool   // so may the command

	Hostname     string
	Namespaces   []string // of pid, ipc, uts, cgroup
	Mounts       []Mount
	Capabilities []string // kept; with or without CAP_
	Filter       string   // file with the compiled system call filter
	Logged       bool     // the calls that it refuses
	Dir          string   // working directory inside

	Env     []string // exactly what the command gets, less PWD
	Command []string
	Files   [3]*os.File // what become its standard input, output, error
	TTY     int         // which of Files is its controlling terminal; -1 none

	// Enter prepares the cgroup; see session.Groups. It is called when Root,
	// Netns, Filter and the sources of Mounts have been taken.
	Enter func(*syscall.SysProcAttr) (leave func() error, err error)

	tree fileID // of Root, as it is when bubblewrap is started
}

// ErrReplaced is a [Spec.Root] or [Spec.Filter] that was made anew while bubblewrap
// was started. To start it once more is all it takes.
var ErrReplaced = errors.New("it was made anew meanwhile")

// standing is what Root is now.
func (s Spec) standing() (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(s.Root, &st); err != nil {
		return fileID{}, &os.PathError{Op: "stat", Path: s.Root, Err: err}
	}
	return idOf(&st), nil
}

// stands returns [ErrReplaced] when Root is another by now.
func (s Spec) stands() error {
	now, err := s.standing()
	if err == nil && now != s.tree {
		err = fmt.Errorf("%s: %w", s.Root, ErrReplaced)
	}
	return err
}

// openFilter opens Filter. It may be anything yet: nothing is waited for.
func (s Spec) openFilter() (*os.File, error) {
	return os.OpenFile(s.Filter, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// Mount is something put on top of the root. Exactly one of Source, Content
// and Size says what.
type Mount struct {
	To       string
	Source   *Source // a directory or file of the host
	Writable bool    // the Source; and a Content, which is then a file in what is mounted there
	Content  []byte  // a read-only file
	Size     int64   // bytes; a tmpfs
	Mode     uint32  // of the tmpfs or file
	Sealed   bool    // the tmpfs becomes read-only when what is below it has been mounted
}

// ownPids tells whether the sandbox has a pid namespace of its own.
func (s Spec) ownPids() bool { return slices.Contains(s.Namespaces, "pid") }

// sorted returns s with its mounts in order: what is below another after it.
func (s Spec) sorted() Spec {
	s.Mounts = slices.Clone(s.Mounts)
	slices.SortStableFunc(s.Mounts, func(a, b Mount) int { return strings.Compare(a.To, b.To) })
	return s
}

// options are bubblewrap's options; memFile makes a file of content for it and
// returns the number it will have there.
func (s Spec) options(filterFD int, memFile func(content []byte) (int, error)) ([]string, error) {
	o := []string{"--die-with-parent", "--seccomp", strconv.Itoa(filterFD)}
	if s.Userns {
		o = append(o, "--unshare-user")
	}
	if s.Userns && !s.Nested {
		o = append(o, "--disable-userns")
	}
	for _, ns := range s.Namespaces {
		o = append(o, "--unshare-"+ns)
	}
	if slices.Contains(s.Namespaces, "uts") {
		o = append(o, "--hostname", s.Hostname)
	}
	if s.Netns == "" {
		o = append(o, "--unshare-net")
	}
	o = append(o, "--cap-drop", "ALL")
	for _, c := range s.Capabilities {
		o = append(o, "--cap-add", capName(c))
	}
	for _, e := range s.Env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			return nil, errors.New("bubblewrap: a variable without a name")
		}
		o = append(o, "--setenv", name, value)
	}
	o = append(o, "--dev-bind", stagedTree, "/", "--proc", "/proc")
	for _, m := range s.Mounts {
		if err := m.check(); err != nil {
			return nil, err
		}
		if !m.late() {
			continue
		}
		fd, err := memFile(m.Content)
		if err != nil {
			return nil, err
		}
		o = append(o, "--perms", mode(m.Mode), "--file", strconv.Itoa(fd), m.To)
	}
	if s.UID == 0 {
		// Root's id alone, without any capability, may write to the host's
		// settings in /proc/sys, core_pattern among them.
		o = append(o, "--remount-ro", "/proc")
	}
	o = append(o, "--chdir", s.Dir)
	for _, a := range o {
		if strings.ContainsRune(a, 0) {
			return nil, errors.New("bubblewrap: an option holds a NUL")
		}
	}
	return o, nil
}

// check tells whether m says one thing, and where.
func (m Mount) check() error {
	if m.To != path.Clean(m.To) || !path.IsAbs(m.To) || m.To == "/" {
		return fmt.Errorf("bubblewrap: %q is no place to mount on", m.To)
	}
	if m.Source == nil && m.Content == nil && m.Size <= 0 {
		return fmt.Errorf("bubblewrap: nothing to mount on %s", m.To)
	}
	return nil
}

// late tells whether only bubblewrap can do it: a file that is written into
// what is mounted there.
func (m Mount) late() bool { return m.Content != nil && m.Writable }

func mode(m uint32) string { return fmt.Sprintf("%04o", m) }

func capName(c string) string {
	c = strings.ToUpper(c)
	if !strings.HasPrefix(c, "CAP_") {
		c = "CAP_" + c
	}
	return c
}
