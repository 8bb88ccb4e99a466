package bwrap

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// The exit codes that shells have for a command that can't be started.
const (
	notExecutable = 126
	notFound      = 127
)

// CommandError is a command that can't be started, with a shell's exit code
// for it.
type CommandError struct {
	Command string
	Code    int
}

func (e *CommandError) Error() string {
	if e.Code == notFound {
		return e.Command + ": command not found in the sandbox"
	}
	return e.Command + ": not executable in the sandbox"
}

// defaultPath is where execvp(3) looks without PATH.
const defaultPath = "/bin:/usr/bin"

// Lookup tells whether the command is there and executable, as the sandbox
// sees it, and returns a *CommandError when not. It needs [Process.Verify]
// before.
func (p *Process) Lookup() error {
	name := p.spec.Command[0]
	if strings.Contains(name, "/") {
		return p.executable(name, p.inside(name))
	}
	code := notFound
	for dir := range strings.SplitSeq(p.searchPath(), ":") {
		var failed *CommandError
		err := p.executable(name, path.Join(p.inside(dir), name))
		if !errors.As(err, &failed) {
			return err
		}
		code = min(code, failed.Code)
	}
	return &CommandError{Command: name, Code: code}
}

func (p *Process) searchPath() string {
	for _, e := range p.spec.Env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			return v
		}
	}
	return defaultPath
}

// inside makes a path absolute, from the working directory on.
func (p *Process) inside(file string) string {
	if path.IsAbs(file) {
		return file
	}
	return path.Join(p.spec.Dir, file)
}

// executable looks at one file as the session's user would.
func (p *Process) executable(name, file string) error {
	fd, err := unix.Openat2(int(p.root.Fd()), strings.TrimPrefix(file, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		return &CommandError{Command: name, Code: notFound}
	case err != nil:
		return fmt.Errorf("%s inside: %w", file, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%s inside: %w", file, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || !mayExecute(st, p.spec.UID, p.spec.GID) {
		return &CommandError{Command: name, Code: notExecutable}
	}
	return nil
}

// mayExecute is what the mode says; root too needs one of the bits.
func mayExecute(st unix.Stat_t, uid, gid uint32) bool {
	switch {
	case uid == 0:
		return st.Mode&0o111 != 0
	case st.Uid == uid:
		return st.Mode&0o100 != 0
	case st.Gid == gid:
		return st.Mode&0o010 != 0
	}
	return st.Mode&0o001 != 0
}
