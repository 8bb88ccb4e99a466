// Package terminal gives a session a pseudo-terminal of its own in place of
// the caller's, and relays between the two: bytes, window size, and the
// caller's stops and continues. The session never holds the caller's terminal,
// so it can neither type into it (TIOCSTI) nor change its settings.
package terminal

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Caller is the process that the terminal is in the hands of.
type Caller interface {
	// Notify hands the signals that the caller gets to c, as [signal.Notify]
	// does, until stop is called.
	Notify(c chan<- os.Signal, signals ...os.Signal) (stop func())
	// Stop stops the caller: the next of its signals is SIGCONT.
	Stop()
}

// Self is the caller that is this process.
type Self struct{}

// Notify implements [Caller].
func (Self) Notify(c chan<- os.Signal, signals ...os.Signal) (stop func()) {
	signal.Notify(c, signals...)
	return func() { signal.Stop(c) }
}

// Stop implements [Caller].
func (Self) Stop() { _ = unix.Kill(os.Getpid(), unix.SIGSTOP) }

// Relay stands between a caller's standard files and a session's.
type Relay struct {
	caller    Caller
	files     [3]*os.File // the session's
	tty       int
	user      *os.File // the caller's terminal; nil when none of the files is one
	typing    bool     // standard input is the terminal
	master    *os.File
	slave     *os.File
	output    sync.WaitGroup
	following sync.WaitGroup
	stop      chan struct{}
	once      sync.Once

	mu     sync.Mutex
	before *term.State   // of the caller's terminal, while it is raw
	held   chan struct{} // not nil while the caller is stopped: then nothing is relayed

	reads sync.Mutex // taken before mu: what is typed is read under it
}

// drain is how long the rest of a session's output may take to be written
// after its end.
const drain = time.Second

// New returns the files for a session: those of the caller's that are
// terminals are replaced by one pseudo-terminal of the same size, the others
// are passed through as they are.
func New(caller Caller, in, out, err *os.File) (*Relay, error) {
	r := &Relay{caller: caller, files: [3]*os.File{in, out, err}, tty: -1, stop: make(chan struct{})}
	for i, f := range r.files {
		if !term.IsTerminal(int(f.Fd())) {
			continue
		}
		if r.tty < 0 {
			r.tty = i
		}
		if r.user == nil || i == 1 { // output shows where standard output is, if that is a terminal
			r.user = f
		}
	}
	if r.tty < 0 {
		return r, nil
	}
	master, slave, e := pty.Open()
	if e != nil {
		return nil, e
	}
	r.master, r.slave = master, slave
	for i, f := range r.files {
		if term.IsTerminal(int(f.Fd())) {
			r.files[i] = slave
		}
	}
	r.typing = r.files[0] == slave
	r.resize()
	return r, nil
}

// Files are the session's standard input, output and error, and which of them
// is its controlling terminal; -1 is none.
func (r *Relay) Files() (files [3]*os.File, tty int) { return r.files, r.tty }

// Own gives the session's terminal to the user that the session runs as.
func (r *Relay) Own(uid int) error {
	if r.slave == nil {
		return nil
	}
	return errors.Join(r.slave.Chown(uid, -1), r.slave.Chmod(0o600))
}

// Start begins to relay. The session must have been started, for its end of
// the terminal is closed here. [Relay.Close] must follow.
func (r *Relay) Start(in *os.File) error {
	if r.master == nil {
		return nil
	}
	if err := r.slave.Close(); err != nil {
		return err
	}
	// Before the terminal is raw: a caller that is stopped then finds somebody
	// who makes it as it was.
	signals := make(chan os.Signal, 8)
	stop := r.caller.Notify(signals, unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT)
	if err := r.raw(); err != nil {
		stop()
		return err
	}
	r.output.Go(r.copyOut)
	if r.typing {
		go r.copyIn(in)
	}
	r.following.Go(func() {
		defer stop()
		r.follow(signals)
	})
	return nil
}

// Close ends the relay: what the session wrote last is shown, and the caller's
// terminal is as it was. It may be called twice, and without Start.
func (r *Relay) Close() {
	r.once.Do(func() {
		if r.master == nil {
			return
		}
		_ = r.slave.Close()
		done := make(chan struct{})
		go func() { r.output.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(drain):
		}
		r.end()
		r.following.Wait()
		r.restore()
		_ = r.master.Close()
	})
}

// raw lets the session's terminal, not the caller's, interpret what is typed.
func (r *Relay) raw() error {
	if !r.typing {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stop: // continued too late
		return nil
	default:
	}
	before, err := term.MakeRaw(int(r.user.Fd()))
	if err == nil && r.before == nil {
		r.before = before
	}
	return err
}

func (r *Relay) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.before != nil {
		_ = term.Restore(int(r.user.Fd()), r.before)
		r.before = nil
	}
}

func (r *Relay) resize() {
	if size, err := unix.IoctlGetWinsize(int(r.user.Fd()), unix.TIOCGWINSZ); err == nil {
		_ = unix.IoctlSetWinsize(int(r.master.Fd()), unix.TIOCSWINSZ, size)
	}
}

// follow passes on what happens to the caller and its terminal: a new size, a
// stop, being continued.
func (r *Relay) follow(signals <-chan os.Signal) {
	r.resize() // it may have changed before we listened
	for {
		select {
		case <-r.stop:
			return
		case s := <-signals:
			switch s {
			case unix.SIGTSTP:
				r.hold()
				r.restore()
				r.caller.Stop()
			case unix.SIGCONT:
				_ = r.raw()
				r.resize()
				r.letGo()
			default:
				r.resize()
			}
		}
	}
}
