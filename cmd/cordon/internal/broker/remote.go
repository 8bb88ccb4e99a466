package broker

import (
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// remote is a client as the caller of a session: its signals come over the
// connection, and when that ends it has hung up. It implements
// [terminal.Caller].
type remote struct {
	conn *net.UnixConn

	writing sync.Mutex
	begin   sync.Once // of reading

	mu      sync.Mutex
	subs    []*subscription
	stopped bool // asked to be let stop, and was not continued since
	gone    bool
}

type subscription struct {
	to      chan<- os.Signal
	signals []os.Signal
}

// relayed are the signals that a client may send.
func relayed() []unix.Signal {
	return []unix.Signal{
		unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT,
	}
}

// Notify implements [terminal.Caller]. Signals of this process count too: `cordon
// stop` sends one.
func (r *remote) Notify(c chan<- os.Signal, signals ...os.Signal) (stop func()) {
	sub := &subscription{to: c, signals: signals}
	r.mu.Lock()
	r.subs = append(r.subs, sub)
	if r.stopped || r.gone {
		sub.send(unix.SIGTSTP)
	}
	if r.gone {
		sub.send(unix.SIGHUP)
	}
	r.mu.Unlock()
	signal.Notify(c, signals...)
	r.begin.Do(func() { go r.listen() })
	return func() {
		signal.Stop(c)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.subs = slices.DeleteFunc(r.subs, func(s *subscription) bool { return s == sub })
	}
}

// Stop implements [terminal.Caller].
func (r *remote) Stop() { _ = r.send(answer{Kind: answerStopped}) }

// listen passes signals on until the client is gone, or says what no client
// says.
func (r *remote) listen() {
	for {
		var m signalMessage
		if readFrame(r.conn, maxSignal, &m) != nil {
			break
		}
		sig := unix.SignalNum("SIG" + m.Signal)
		if !slices.Contains(relayed(), sig) {
			break
		}
		r.deliver(sig)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	// Its terminal is left alone from now on, then it is as for a hangup.
	for _, s := range r.subs {
		s.send(unix.SIGTSTP)
		s.send(unix.SIGHUP)
	}
}

func (r *remote) deliver(sig unix.Signal) {
	r.mu.Lock()
	taken := false
	for _, s := range r.subs {
		taken = s.send(sig) || taken
	}
	switch sig {
	case unix.SIGTSTP:
		r.stopped = true
	case unix.SIGCONT:
		r.stopped = false
	}
	r.mu.Unlock()
	if sig == unix.SIGTSTP && !taken { // nobody has the terminal
		r.Stop()
	}
}

// send drops what its receiver is too slow for, as [signal.Notify] does.
func (s *subscription) send(sig os.Signal) (wanted bool) {
	if !slices.Contains(s.signals, sig) {
		return false
	}
	select {
	case s.to <- sig:
	default:
	}
	return true
}

// send writes a frame to the client. One that does not read it in time is as
// good as gone.
func (r *remote) send(a answer) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	_ = r.conn.SetWriteDeadline(time.Now().Add(answerTimeout))
	return writeFrame(r.conn, a)
}
