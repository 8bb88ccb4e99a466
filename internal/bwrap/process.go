package bwrap

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
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
	status  *os.File
	reader  *bufio.Reader
	release chan struct{}
	root    *os.File // the sandbox's /, once seen by Verify
	once    sync.Once

	command chan int // yields the command's pidfd, again and again; closed when there is none
}

// Start starts bubblewrap and returns when the sandbox's first process
// exists; the command waits for [Process.Release]. The caller must [Process.Wait]
// in the end.
func Start(s Spec) (*Process, error) {
	s = s.sorted()
	// A descriptor that our own caller left open would be a way out.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("close_range: %w", err)
	}
	if err := s.checkFiles(); err != nil {
		return nil, err
	}
	var files fileList
	defer files.close()
	for _, f := range s.Files {
		files.borrow(f)
	}
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	gateR, gateW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, statusR.Close(), statusW.Close())
	}
	p := &Process{spec: s, gate: gateW, status: statusR, reader: bufio.NewReader(statusR), release: make(chan struct{}), command: make(chan int)}
	if err := p.start(&files, statusW, gateR); err != nil {
		close(p.release)
		return nil, errors.Join(err, statusR.Close(), gateW.Close())
	}
	files.close() // our copy of the status pipe's end, so that its other end is told of bubblewrap's death
	if err := p.readChild(); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

func (p *Process) start(files *fileList, statusW, gateR *os.File) error {
	status, filter := files.own(statusW), files.own(gateR)
	options, err := p.spec.options(status, filter, files.memory)
	if err != nil {
		return err
	}
	args, err := files.memory([]byte(strings.Join(options, "\x00") + "\x00"))
	if err != nil {
		return err
	}
	argv := append([]string{"bwrap", "--args", fmt.Sprint(args), "--"}, p.spec.Command...)
	p.outer, err = p.spec.spawn(argv, files.all, p.release)
	return err
}

// readChild waits for the first line of status, which comes when the
// namespaces are there.
func (p *Process) readChild() error {
	line, err := p.reader.ReadBytes('\n')
	var first struct {
		Child int `json:"child-pid"`
	}
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	if err != nil || first.Child <= 1 {
		return errors.New("bubblewrap could not set the sandbox up (it says why on standard error)")
	}
	p.child = first.Child
	return nil
}

// Release lets the command run.
func (p *Process) Release() error {
	filter, err := os.ReadFile(p.spec.Filter)
	if err == nil && (len(filter) == 0 || len(filter)%8 != 0) {
		err = fmt.Errorf("%s: not a system call filter", p.spec.Filter)
	}
	if err != nil {
		return err
	}
	if _, err := p.gate.Write(filter); err != nil {
		return fmt.Errorf("bubblewrap ended before its command could start: %w", err)
	}
	if err := p.gate.Close(); err != nil {
		return err
	}
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
	return fmt.Sprintf("bubblewrap ended with %d before its command did (it says why on standard error)", e.Code)
}

// Wait waits for the command's end and returns its exit code, 128+n when
// signal n ended it. It returns a *SetupError when the command did not run.
func (p *Process) Wait() (int, error) {
	code, exited := 0, false
	for {
		line, err := p.reader.ReadBytes('\n')
		if err != nil {
			break
		}
		var ended struct {
			Code *int `json:"exit-code"`
		}
		if json.Unmarshal(line, &ended) == nil && ended.Code != nil {
			code, exited = *ended.Code, true
		}
	}
	state, err := p.outer.Wait()
	p.once.Do(func() {
		close(p.release)
		_ = p.gate.Close()
		_ = p.status.Close()
		if p.root != nil {
			_ = p.root.Close()
		}
	})
	if err != nil {
		return 0, fmt.Errorf("wait for bubblewrap: %w", err)
	}
	if exited {
		return code, nil
	}
	ws, _ := state.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return 0, &SetupError{Code: ws.ExitStatus()}
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
