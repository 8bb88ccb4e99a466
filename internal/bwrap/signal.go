package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Signal sends a signal to the command itself; to none when it has ended.
func (p *Process) Signal(ctx context.Context, sig unix.Signal) error {
	select {
	case fd, ok := <-p.command:
		if !ok {
			return nil
		}
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("signal the command: %w", err)
		}
		return nil
	case <-p.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pinCommand finds the command once, before anything else can take its pid,
// and hands it out until the sandbox ends.
func (p *Process) pinCommand() {
	defer close(p.command)
	pid, err := p.findCommand()
	if err != nil {
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		select {
		case p.command <- fd:
		case <-p.release:
			return
		}
	}
}

// findCommand is the command's pid on the host: the first child of the process
// that bubblewrap leaves as number 1 of a pid namespace, or its first process
// itself without one.
func (p *Process) findCommand() (int, error) {
	if !p.spec.ownPids() {
		return p.child, nil
	}
	var next pause
	for {
		list, err := children(p.child)
		if err != nil {
			return 0, err
		}
		if len(list) > 0 {
			return list[0], nil
		}
		select {
		case <-p.release:
			return 0, os.ErrProcessDone
		default:
			next.wait()
		}
	}
}
