package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/aicodesit/cordon/enforcers/session"
)

// Client is a process that has the daemon run a session for it.
type Client struct {
	Socket                string
	Stdin, Stdout, Stderr *os.File
	Environ               []string
}

// Run runs a session to its end and returns its exit code, which counts with
// an error too, as [session.Runner.Run] does. ctx ends the wait for the daemon
// alone; later, signals are the session's.
func (c Client) Run(ctx context.Context, q session.Request) (int, error) {
	conn, err := dial(ctx, c.Socket)
	if err != nil {
		return session.Failed, err
	}
	defer conn.Close()
	streams, err := newStreams([3]*os.File{c.Stdin, c.Stdout, c.Stderr})
	defer streams.flush(ctx)
	defer streams.passed()
	if err != nil {
		return session.Failed, err
	}
	r := &client{Client: c, conn: conn, tty: c.terminal(), streams: streams}
	signals := r.listen()
	defer func() { signal.Stop(signals); close(signals) }()
	if ctx.Err() != nil { // before it listened
		return session.Failed, context.Cause(ctx)
	}
	modes := r.foreground()
	go r.forward(signals)
	code, exited, err := r.run(q)
	if modes != nil && !exited { // the runner did not come to it
		_ = term.Restore(int(r.tty.Fd()), modes)
	}
	if sig := r.interrupted(); sig != 0 {
		return 128 + int(sig), fmt.Errorf("ended by %s before it began", unix.SignalName(sig))
	}
	return code, err
}

// terminal is the caller's, nil when none of its files is one.
func (c Client) terminal() *os.File {
	for _, f := range []*os.File{c.Stdin, c.Stdout, c.Stderr} {
		if term.IsTerminal(int(f.Fd())) {
			return f
		}
	}
	return nil
}

type client struct {
	Client
	conn *net.UnixConn
	tty  *os.File

	streams *streams

	mu    sync.Mutex
	begun bool
	early unix.Signal // that ended it before it begun
	stops bool        // it is to stop, when the runner has left the terminal
}

// run speaks with the daemon, then with the runner. exited tells whether that
// came to the session's end.
func (r *client) run(q session.Request) (code int, exited bool, err error) {
	a, err := ask(r.conn, KindRun, runRequest{Project: q.Project, Sandbox: q.Sandbox})
	if err == nil && a.Kind != answerReady {
		err = fmt.Errorf("the daemon's answer: %q where a session should begin", a.Kind)
	}
	if err == nil {
		err = r.begin(q.Command)
	}
	for err == nil {
		if a, err = next(r.conn); err != nil {
			break
		}
		switch a.Kind {
		case answerSay:
			fmt.Fprint(r.Stderr, a.Text)
		case answerStopped:
			r.stop()
		case answerExit:
			return a.Code, true, nil
		default:
			err = fmt.Errorf("the session's process: %q where it should go on", a.Kind)
		}
	}
	return session.Failed, false, err
}

// begin hands over what the session is to have.
func (r *client) begin(command []string) error {
	b, err := frame(begin{Command: bytesOf(command), Environ: bytesOf(r.Environ)})
	if err != nil {
		return err
	}
	if len(b) > maxBegin {
		return errors.New("command and environment are too large")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.early != 0 {
		return errors.New("interrupted")
	}
	r.begun = true
	f := r.streams.files
	_, _, err = r.conn.WriteMsgUnix(b[:headerLen], unix.UnixRights(int(f[0].Fd()), int(f[1].Fd()), int(f[2].Fd())), nil)
	r.streams.passed()
	if err != nil {
		return fmt.Errorf("pass the standard files: %w", err)
	}
	_, err = r.conn.Write(b[headerLen:])
	return err
}

// listen catches the signals that are the session's. Without a terminal a stop
// is this process's own.
func (r *client) listen() chan os.Signal {
	c := make(chan os.Signal, 16)
	for _, s := range relayed() {
		if r.tty != nil || s != unix.SIGTSTP && s != unix.SIGCONT && s != unix.SIGWINCH {
			signal.Notify(c, s)
		}
	}
	return c
}

// forward sends signals on. Before the session began, they end the wait for it.
func (r *client) forward(signals <-chan os.Signal) {
	for s := range signals {
		sig := s.(unix.Signal)
		if sig == unix.SIGCONT {
			r.foreground()
		}
		r.mu.Lock()
		switch {
		case r.begun:
			r.stops = r.stops || sig == unix.SIGTSTP
			_ = writeFrame(r.conn, signalMessage{strings.TrimPrefix(unix.SignalName(sig), "SIG")})
		case sig == unix.SIGTERM || sig == unix.SIGINT || sig == unix.SIGHUP || sig == unix.SIGQUIT:
			r.early = sig
			_ = r.conn.Close()
		}
		r.mu.Unlock()
	}
}

// stop stops this process, once for each time that it was asked to.
func (r *client) stop() {
	r.mu.Lock()
	stops := r.stops
	r.stops = false
	r.mu.Unlock()
	if stops {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
}

func (r *client) interrupted() unix.Signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.early
}

// foreground waits until this process may use its terminal: the runner is in
// no job of the terminal's, so nothing would keep it from taking what is typed
// for others. To set what is set stops who is in the background (SIGTTOU). It
// returns the terminal's modes, nil without one.
func (r *client) foreground() *term.State {
	if r.tty == nil {
		return nil
	}
	modes, err := term.GetState(int(r.tty.Fd()))
	if err != nil || term.Restore(int(r.tty.Fd()), modes) != nil {
		return nil
	}
	return modes
}
