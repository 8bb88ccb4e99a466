package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/specs"
)

// Job is what a runner is started for.
type Job struct {
	By       string          `json:"by"`                 // of events
	Operator *uint32         `json:"operator,omitempty"` // who asks, unless that is root
	Project  string          `json:"project,omitempty"`
	Sandbox  string          `json:"sandbox"`
	Set      specs.Set       `json:"set"` // without facts
	Settings json.RawMessage `json:"settings,omitempty"`
}

// What runner and daemon tell each other, besides the job: one byte each.
const (
	runnerReady   = 'r' // all is there: it waits for its turn
	runnerGo      = 'g'
	runnerStarted = 's'
)

// The descriptors of a runner.
const (
	connFD    = 3
	controlFD = 4
)

const (
	jobTimeout   = 10 * time.Second
	startTimeout = time.Minute // after which a start does not keep others waiting
)

// run starts a runner for the client, and stays with it until it ends.
func (v *visit) run(ctx context.Context) error {
	var q runRequest
	if err := decode(v.Body, &q); err != nil {
		return fmt.Errorf("the request: %w", err)
	}
	if err := v.who.mayRun(v.set, q, v.root); err != nil {
		return v.refused(q.declared(v.set), err)
	}
	settings, err := json.Marshal(v.Settings)
	if err != nil {
		return err
	}
	cmd, control, err := v.fork(v.conn, q)
	if err != nil {
		return fmt.Errorf("the session's process: %w", err)
	}
	_ = v.conn.Close() // it is the runner's now
	stop := context.AfterFunc(ctx, func() { _ = control.Close() })
	defer stop()
	_ = control.SetWriteDeadline(time.Now().Add(jobTimeout))
	job := Job{By: "user:" + v.who.name, Project: q.Project, Sandbox: q.Sandbox, Set: v.set, Settings: settings}
	if !v.root {
		job.Operator = &v.peer.uid
	}
	if err = writeFrame(control, job); err == nil {
		v.attend(ctx, control, q)
	}
	_ = control.Close()
	if ctx.Err() != nil {
		return nil // init takes the runner over
	}
	// Its end of the connection is closed, so it ends or has: no thread waits
	// for long here, however many sessions run.
	if err := errors.Join(err, cmd.Wait()); err != nil {
		v.Log.WarnContext(ctx, "a session's process", "by", v.who.name, "project", q.Project, "sandbox", q.Sandbox, "error", err)
	}
	return nil
}

// fork starts a runner that has the connection.
func (s *Server) fork(c *net.UnixConn, r runRequest) (*exec.Cmd, *net.UnixConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	control, err := adopt(pair[0])
	if err != nil {
		return nil, nil, err
	}
	client, err := c.File()
	if err != nil {
		return nil, nil, errors.Join(err, control.Close())
	}
	defer client.Close()
	cmd := &exec.Cmd{
		Path: s.Program(), Args: []string{"cordon", "runner", "--", r.Project, r.Sandbox}, Env: runnerEnviron(os.Environ()),
		Stderr: os.Stderr, ExtraFiles: []*os.File{client, theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, control.Close())
	}
	return cmd, control, nil
}

// runnerEnviron is the daemon's own environment, for the secrets that are
// found there, without what its service manager said to it alone.
func runnerEnviron(environ []string) []string {
	own := []string{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(own, name)
	})
}

// attend gives a runner its turn, and returns when its end of the connection
// is closed.
func (v *visit) attend(ctx context.Context, control *net.UnixConn, q runRequest) {
	done := func() {}
	defer func() { done() }()
	var b [1]byte
	for {
		if _, err := control.Read(b[:]); err != nil {
			return
		}
		switch b[0] {
		case runnerReady:
			var err error
			if done, err = v.turns.take(ctx, v.peer.uid); err != nil {
				return
			}
			late := time.AfterFunc(startTimeout, done)
			defer late.Stop()
			_ = control.SetWriteDeadline(time.Now().Add(jobTimeout))
			if _, err := control.Write([]byte{runnerGo}); err != nil {
				return
			}
		case runnerStarted:
			done()
			v.leave()
			set, _ := v.Set() // it may be another by now
			if why, err := v.who.mayNot(set, q.Project, q.Sandbox); !v.root && (why != "" || err != nil) {
				v.Review()
			}
		}
	}
}

// adopt makes a connection of a socket's descriptor, which it takes over.
func adopt(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, unix.EBADF)
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("descriptor %d is no unix socket", fd), c.Close())
	}
	return u, nil
}
