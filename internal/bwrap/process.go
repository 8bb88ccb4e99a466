package bwrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a bubblewrap that was started.
type Process struct {
	spec    Spec
	outer   *os.Process
	child   int // pid of the sandbox's first process, the host's number
	gate    *os.File
	filter  *os.File
	open    bool    // the gate
	loader  *loader // nil without Spec.Logged
	program string  // the command's file, once found by Lookup
	release chan struct{}
	root    *os.File // the sandbox's /, once seen by Verify
	once    sync.Once

	command chan int // yields the command's pidfd, again and again; closed when there is none
}

// Start starts bubblewrap. The command waits for [Process.Release], which
// wants [Process.Verify] before. The caller must [Process.Wait] in the end.
func Start(s Spec) (*Process, error) {
	s = s.sorted()
	// A descriptor that our own caller left open would be a way out.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close_range: %w", err)
	}
	if err := s.checkFiles(); err != nil {
		return nil, err
	}
	var err error
	if s.tree, err = s.standing(); err != nil {
		return nil, err
	}
	filter, err := s.openFilter()
	if err != nil {
		return nil, err
	}
	var files fileList
	defer files.close()
	for _, f := range s.Files {
		files.borrow(f)
	}
	gateR, gateW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, filter.Close())
	}
	p := &Process{spec: s, gate: gateW, filter: filter, release: make(chan struct{}), command: make(chan int)}
	if err := p.start(&files, gateR); err != nil {
		close(p.release)
		return nil, errors.Join(err, p.closeGate())
	}
	return p, nil
}

func (p *Process) start(files *fileList, gateR *os.File) error {
	options, err := p.spec.options(files.own(gateR), files.memory)
	if err != nil {
		return err
	}
	args, err := files.memory([]byte(strings.Join(options, "\x00") + "\x00"))
	if err != nil {
		return err
	}
	argv := []string{p.spec.Program, "--args", fmt.Sprint(args), "--"}
	if p.spec.Logged {
		if p.loader, err = newLoader(files); err != nil {
			return err
		}
		argv = append(argv, p.loader.path())
	}
	argv = append(argv, p.spec.Command...)
	p.outer, err = p.spec.spawn(argv, files.all, p.release)
	return err
}

// findChild waits for the sandbox's first process, bubblewrap's only child.
// bubblewrap would tell its pid (--json-status-fd), but in its own namespace's
// numbers.
func (p *Process) findChild(ctx context.Context) error {
	var next pause
	for p.child == 0 {
		list, err := children(p.outer.Pid)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			p.child = list[0]
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, p.outer.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil {
			return fmt.Errorf("wait for bubblewrap: %w", err)
		}
		if info.Signo != 0 {
			return errors.New("bubblewrap could not set the sandbox up (it says why on standard error)")
		}
		next.wait()
	}
	return nil
}

// children are a process's children, in the order of their birth.
func children(pid int) ([]int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, f := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// closeGate closes what Release reads and writes to.
func (p *Process) closeGate() error {
	_ = p.filter.Close()
	if p.loader != nil {
		_ = p.loader.file.Close() // in memory: what was written is there
	}
	return p.gate.Close()
}

// Release lets the command run. With [Spec.Logged] it needs [Process.Lookup]
// before.
func (p *Process) Release() error {
	filter, err := io.ReadAll(p.filter)
	if err == nil && (len(filter) == 0 || len(filter)%8 != 0) {
		err = fmt.Errorf("%s: not a system call filter", p.spec.Filter)
	}
	if err != nil {
		return err
	}
	if p.loader != nil {
		if err := p.loader.write(p.program, filter); err != nil {
			return err
		}
	}
	if _, err := p.gate.Write(filter); err != nil {
		return fmt.Errorf("bubblewrap ended before its command could start: %w", err)
	}
	if err := p.closeGate(); err != nil {
		return err
	}
	p.open = true
	go p.pinCommand()
	return nil
}

// Kill ends the sandbox, whatever state it is in, and waits for its end.
func (p *Process) Kill() error {
	_ = p.outer.Signal(unix.SIGKILL)
	if p.child > 0 {
		_ = unix.Kill(p.child, unix.SIGKILL)
	}
	_, err := p.Wait()
	var failed *SetupError
	if errors.As(err, &failed) {
		return nil
	}
	return err
}

// SetupError is a bubblewrap that ended without having run the command.
type SetupError struct{ Code int }

func (e *SetupError) Error() string {
	return fmt.Sprintf("bubblewrap ended with %d before its command began (it says why on standard error)", e.Code)
}

// Wait waits for the command's end and returns its exit code, 128+n when
// signal n ended it. It returns a *SetupError when [Process.Release] was not
// called before the end.
func (p *Process) Wait() (int, error) {
	state, err := p.outer.Wait()
	p.once.Do(func() {
		close(p.release)
		_ = p.closeGate()
		if p.root != nil {
			_ = p.root.Close()
		}
	})
	if err != nil {
		return 0, fmt.Errorf("wait for bubblewrap: %w", err)
	}
	ws, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case !p.open:
		return 0, &SetupError{Code: ws.ExitStatus()}
	case ws.Signaled():
		return 128 + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}

// fileList numbers the files that a child gets.
type fileList struct {
	all   []*os.File
	owned []*os.File
}

func (l *fileList) borrow(f *os.File) int {
	l.all = append(l.all, f)
	return len(l.all) - 1
}

func (l *fileList) own(f *os.File) int {
	l.owned = append(l.owned, f)
	return l.borrow(f)
}

// memory adds a file in memory with this content.
func (l *fileList) memory(content []byte) (int, error) {
	fd, err := unix.MemfdCreate("cordon", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	n := l.own(f)
	if _, err := f.Write(content); err != nil {
		return 0, err
	}
	_, err = f.Seek(0, 0)
	return n, err
}

func (l *fileList) close() {
	for _, f := range l.owned {
		_ = f.Close()
	}
	l.owned = nil
}
