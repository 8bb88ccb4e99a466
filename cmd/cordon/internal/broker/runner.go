package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Runner is the side of a session's client, in the process that runs it.
type Runner struct {
	Job Job
	// What the client wants, once received.
	Command []string
	Environ []string
	Files   [3]*os.File

	*remote
	control *net.UnixConn
}

// beginTimeout is how long a client may take to say what to run.
const beginTimeout = 10 * time.Second

// Attach takes the connections that the daemon started this process with, and
// the job. Only a process that was started as "cordon runner" has them.
func Attach() (*Runner, error) {
	conn, err := adopt(connFD)
	if err != nil {
		return nil, err
	}
	control, err := adopt(controlFD)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	r := &Runner{remote: &remote{conn: conn}, control: control}
	_ = control.SetReadDeadline(time.Now().Add(jobTimeout))
	err = readFrame(control, maxAnswer, &r.Job)
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		return nil, r.failed(fmt.Errorf("the daemon ended: %w", err))
	}
	if err := leaveProtection(); err != nil {
		return nil, r.failed(err)
	}
	return r, nil
}

// failed tells the client too.
func (r *Runner) failed(err error) error {
	_ = r.send(answer{Kind: answerDone, Error: err.Error()})
	return err
}

// leaveProtection gives up what keeps a daemon from the kernel's out-of-memory
// killer: sessions would have it too.
func leaveProtection() error {
	const file = "/proc/self/oom_score_adj"
	b, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(b), "-") {
		return err
	}
	return os.WriteFile(file, []byte("0"), 0)
}

// Receive asks the client for the command, the environment and the standard
// files. What it answers is wrong in any way is an error that it was told.
func (r *Runner) Receive() error {
	if err := r.send(answer{Kind: answerReady}); err != nil {
		return err
	}
	_ = r.conn.SetReadDeadline(time.Now().Add(beginTimeout))
	defer r.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // a connection that is gone is found out by the next read
	var b begin
	var err error
	if r.Files, err = receive(r.conn, &b); err != nil {
		return r.failed(fmt.Errorf("the request: %w", err))
	}
	r.Command, r.Environ = texts(b.Command), texts(b.Environ)
	return nil
}

// receive reads a frame that comes with three descriptors. It leaves none open
// when there is an error.
func receive(c *net.UnixConn, v any) (files [3]*os.File, err error) {
	var header [headerLen]byte
	oob := make([]byte, unix.CmsgSpace(len(files)*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(header[:], oob)
	fds, e := descriptors(oob[:oobn])
	defer func() {
		if err != nil {
			closeAll(fds)
		}
	}()
	if err = errors.Join(err, e); err != nil {
		return files, err
	}
	if flags&unix.MSG_CTRUNC != 0 || len(fds) != len(files) {
		return files, fmt.Errorf("it must come with %d descriptors, and no more", len(files))
	}
	if n == 0 {
		return files, io.ErrUnexpectedEOF
	}
	if _, err = io.ReadFull(c, header[n:]); err != nil {
		return files, err
	}
	if err = readBody(c, header, maxBegin, v); err != nil {
		return files, err
	}
	for i, fd := range fds {
		if err = usable(fd); err != nil {
			return files, fmt.Errorf("descriptor %d: %w", i, err)
		}
	}
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), [...]string{"standard input", "standard output", "standard error"}[i])
	}
	return files, nil
}

// descriptors are all that a control message brought.
func descriptors(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, m := range messages {
		fds, e := unix.ParseUnixRights(&m)
		err = errors.Join(err, e)
		out = append(out, fds...)
	}
	return out, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// errDaemonEnded tells who waited for a turn that there is none.
var errDaemonEnded = errors.New("the daemon ended before the session began; ask again")

// Admit waits until the daemon says that it is this session's turn. Where it
// ends first the session does not begin: the next daemon may permit it no more,
// and ends what runs, which this does not yet.
func (r *Runner) Admit(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = r.control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := r.control.Write([]byte{runnerReady})
	var b [1]byte
	if err == nil {
		_, err = r.control.Read(b[:])
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil || b[0] != runnerGo:
		return errDaemonEnded
	}
	return nil
}

// Started tells the daemon that the next one may start. It returns an error when
// that daemon is gone: what there is of another may have looked at the sessions
// before this was one.
func (r *Runner) Started() error {
	_, err := r.control.Write([]byte{runnerStarted})
	return err
}

// Write tells the user something, as on standard error.
func (r *Runner) Write(p []byte) (int, error) {
	return len(p), r.send(answer{Kind: answerSay, Text: string(p)})
}

// Exit tells the exit code.
func (r *Runner) Exit(code int) error { return r.send(answer{Kind: answerExit, Code: code}) }
