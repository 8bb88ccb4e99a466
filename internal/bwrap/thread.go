package bwrap

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread of its own that ends with f. It is never the
// process's first one, which can't end and which /proc/self stands for.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f() // the thread is thrown away: it stays locked
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			f()
		}()
		<-done
		runtime.UnlockOSThread()
	}()
}

// prepare gives the thread what the child is to inherit: a keyring of its own,
// the network namespace, and the staged root, which become enters.
func (s Spec) prepare() error {
	// A keyring of the caller's login would come along.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && err != unix.ENOSYS {
		return fmt.Errorf("join a session keyring of its own: %w", err)
	}
	if s.Netns != "" {
		fd, err := unix.Open(s.Netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: s.Netns, Err: err}
		}
		err = unix.Setns(fd, unix.CLONE_NEWNET)
		_ = unix.Close(fd)
		if err != nil {
			return fmt.Errorf("join %s: %w", s.Netns, err)
		}
	}
	return s.stage()
}

// become enters the staged root and, where there are no user namespaces, takes
// the ids. From here on the thread has no way to the host.
func (s Spec) become(attr *syscall.SysProcAttr) error {
	if err := enterRoot(s.Stage); err != nil {
		return err
	}
	if s.Userns {
		if !s.ownPids() { // the starter takes them
			attr.Credential = &syscall.Credential{Uid: s.UID, Gid: s.GID, Groups: []uint32{}}
		}
		return nil
	}
	// The thread alone: package syscall would change all threads. The order
	// keeps the right to do the next step.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("setgroups: %w", errno)
	}
	gid, uid := uintptr(s.GID), uintptr(s.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("setresgid: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, 0, 0); errno != 0 {
		return fmt.Errorf("setresuid: %w", errno)
	}
	return nil
}

// spawn starts bubblewrap from a thread that lives until release is closed:
// bubblewrap dies with the thread that started it (PR_SET_PDEATHSIG).
func (s Spec) spawn(argv []string, files []*os.File, release <-chan struct{}) (*os.Process, error) {
	type result struct {
		p   *os.Process
		err error
	}
	started := make(chan result)
	onThread(func() {
		p, err := s.spawnHere(argv, files)
		started <- result{p, err}
		if err == nil {
			<-release
		}
	})
	r := <-started
	return r.p, r.err
}

func (s Spec) spawnHere(argv []string, files []*os.File) (*os.Process, error) {
	attr := &syscall.SysProcAttr{Setsid: true}
	program := s.Program
	if s.ownPids() {
		// bubblewrap itself is number 1 of a namespace that holds all it
		// starts: when it dies, and it dies with us, the kernel ends the rest
		// whatever moment that is. Its own --die-with-parent has gaps.
		attr.Cloneflags = unix.CLONE_NEWPID
		program, argv = starter, append([]string{"cordon"}, argv...)
	}
	if s.TTY >= 0 {
		attr.Setctty, attr.Ctty = true, s.TTY
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	leave := func() error { return nil }
	if s.Enter != nil {
		var err error
		if leave, err = s.Enter(attr); err != nil {
			return nil, err
		}
	}
	if err := s.become(attr); err != nil {
		return nil, errors.Join(err, leave())
	}
	// The command's variables are for the command: LD_PRELOAD and its like
	// would act on bubblewrap, outside of the sandbox.
	p, err := os.StartProcess(program, argv, &os.ProcAttr{Dir: "/", Env: []string{}, Files: files, Sys: attr})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start bubblewrap: %w", err), leave())
	}
	if err := leave(); err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		return nil, err
	}
	return p, nil
}
