package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// visit is one connection and what it asks for.
type visit struct {
	*Server
	conn  *net.UnixConn
	leave func() // the turnstile
	peer  peer
	who   *census
	root  bool
	set   specs.Set // what is enforced
	request
}

// serve deals with one connection.
func (s *Server) serve(ctx context.Context, c *net.UnixConn) {
	v := &visit{Server: s, conn: c}
	var err error
	if v.peer, err = peerOf(c); err != nil {
		s.Log.DebugContext(ctx, "daemon socket", "error", err)
		return
	}
	leave, ok := s.entrance.enter(v.peer.uid)
	if !ok {
		v.answer(nil, fmt.Errorf("too many requests wait already; a user may have %d at once", maxOfUser))
		return
	}
	defer leave()
	v.leave = leave
	_ = c.SetReadDeadline(time.Now().Add(requestTimeout))
	if err := readFrame(c, maxRequest, &v.request); err != nil {
		v.answer(nil, fmt.Errorf("the request: %w", err))
		return
	}
	if err := v.dispatch(ctx); err != nil {
		v.answer(nil, err)
	}
}

// dispatch answers the request. An error was not told yet.
func (v *visit) dispatch(ctx context.Context) error {
	if v.Version != version {
		return fmt.Errorf("the daemon speaks version %d, this cordon version %d: use the daemon's", version, v.Version)
	}
	r, known := v.routes[v.Kind]
	if v.Kind != KindRun && !known {
		return fmt.Errorf("the daemon does not know requests of the kind %s", quoted(v.Kind))
	}
	var err error
	if v.who, err = take(v.accounts, v.peer); err != nil {
		return err
	}
	if err := v.outside(); err != nil {
		return v.refused(runRequest{}, err)
	}
	v.root = v.peer.uid == 0 || int(v.peer.uid) == os.Geteuid()
	var ready bool
	v.set, ready = v.Set()
	if !ready && !(v.root && known) {
		return errNothingYet
	}
	if v.Kind == KindRun {
		return v.run(ctx)
	}
	caller, err := v.who.caller(v.set, v.root)
	if err != nil {
		return err
	}
	if !v.root && (r.who == Root || len(caller.Projects) == 0) {
		return refuse("user %s may not do that: %q is for %s", caller.Name, v.Kind, r.who)
	}
	body, err := v.handle(ctx, r.handle, caller)
	if err != nil {
		return v.refused(runRequest{}, err)
	}
	v.answer(body, nil)
	return nil
}

// handle calls a handler, and ends its context when the client hangs up.
func (v *visit) handle(ctx context.Context, h Handler, caller Caller) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = v.conn.SetReadDeadline(time.Time{})
	go func() {
		// Nothing more is to come; what does, or the end, is a client gone.
		_, _ = v.conn.Read(make([]byte, 1))
		cancel()
	}()
	return h(ctx, caller, v.Body)
}

// outside refuses processes of sessions: what a sandbox holds must not start
// what it is not held by, and as root in one it is root to the kernel.
func (v *visit) outside() error {
	inside, err := true, error(nil)
	if v.peer.pid > 0 {
		inside, err = v.Inside(v.peer.pid)
	}
	if err != nil || v.peer.pid == 0 || !alive(v.conn) {
		return refuse("the process that asks can't be seen from here, so it might be a session's")
	}
	if inside {
		return refuse("a process of a session may not ask the daemon")
	}
	return nil
}

// refused tells of a refusal, if it is one and not one too many. It returns
// err.
func (v *visit) refused(run runRequest, err error) error {
	var refusal *RefusedError
	if !errors.As(err, &refusal) {
		return err
	}
	untold, ok := v.hush.tell(v.peer.uid, time.Now())
	if !ok {
		return err
	}
	e := loop.Event{
		Kind: loop.SessionRefused, By: "user:" + v.who.name, Project: run.Project, Sandbox: run.Sandbox,
		Text: v.Kind, Error: refusal.Why,
	}
	if untold > 0 {
		e.Text += fmt.Sprintf(" (%d refusals before it are not in the log)", untold)
	}
	v.Emit(e)
	return err
}

// answer tells the outcome. A client that is gone does not learn it.
func (v *visit) answer(body any, err error) {
	a := answer{Kind: answerDone}
	if err == nil && body != nil {
		a.Body, err = json.Marshal(body)
	}
	if err != nil {
		a.Error, a.Refused = err.Error(), errors.As(err, new(*RefusedError))
	}
	_ = v.conn.SetWriteDeadline(time.Now().Add(answerTimeout))
	if err := writeFrame(v.conn, a); err != nil {
		v.Log.Debug("daemon socket", "error", err)
	}
}
