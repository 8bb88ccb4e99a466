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
	Path    string // that was searched, "" for none
}

func (e *CommandError) Error() string {
	switch {
	case e.Code == notFound && e.Path != "":
		return e.Command + ": command not found in the sandbox, whose PATH is " + e.Path
	case e.Code == notFound:
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
	dir, err := p.stat(p.spec.Dir)
	if err != nil {
		return fmt.Errorf("the working directory: %w", err)
	}
	if !mayExecute(dir, p.spec.UID, p.spec.GID) {
		return fmt.Errorf("the working directory %s is closed to the session's user", p.spec.Dir)
	}
	name := p.spec.Command[0]
	if strings.Contains(name, "/") {
		p.program = name
		return p.executable(name, p.inside(name))
	}
	code := notFound
	for dir := range strings.SplitSeq(p.searchPath(), ":") {
		var failed *CommandError
		p.program = path.Join(p.inside(dir), name)
		err := p.executable(name, p.program)
		if !errors.As(err, &failed) {
			return err
		}
		code = min(code, failed.Code)
	}
	return &CommandError{Command: name, Code: code, Path: p.searchPath()}
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
	st, err := p.stat(file)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		return &CommandError{Command: name, Code: notFound}
	case err != nil:
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || !mayExecute(st, p.spec.UID, p.spec.GID) {
		return &CommandError{Command: name, Code: notExecutable}
	}
	interpreter, err := p.interpreter(file)
	if err != nil || interpreter == "" {
		return err
	}
	st, err = p.stat(p.inside(interpreter))
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || !mayExecute(st, p.spec.UID, p.spec.GID) {
		return &CommandError{Command: name + " (by " + interpreter + ")", Code: notExecutable}
	}
	return nil
}

// interpreter is what a script names in its first line; "" for no script. See
// execve(2).
func (p *Process) interpreter(file string) (string, error) {
	fd, err := unix.Openat2(int(p.root.Fd()), strings.TrimPrefix(file, "/"), &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return "", fmt.Errorf("%s inside: %w", file, err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return "", fmt.Errorf("%s inside: %w", file, err)
	}
	line, ok := strings.CutPrefix(string(buf[:max(n, 0)]), "#!")
	if !ok {
		return "", nil
	}
	line, _, _ = strings.Cut(line, "\n")
	if f := strings.Fields(line); len(f) > 0 {
		return f[0], nil
	}
	return "", nil
}

// stat is what a path inside leads to.
func (p *Process) stat(file string) (unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat2(int(p.root.Fd()), strings.TrimPrefix(file, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return st, fmt.Errorf("%s inside: %w", file, err)
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return st, fmt.Errorf("%s inside: %w", file, err)
	}
	return st, nil
}

// mayExecute is what the mode says, for a file to execute and for a directory
// to enter. Root without capabilities is a user like others.
func mayExecute(st unix.Stat_t, uid, gid uint32) bool {
	switch {
	case st.Uid == uid:
		return st.Mode&0o100 != 0
	case st.Gid == gid:
		return st.Mode&0o010 != 0
	}
	return st.Mode&0o001 != 0
}
