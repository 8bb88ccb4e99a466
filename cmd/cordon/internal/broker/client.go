package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/specs"
)

// NoDaemonError says that nobody listens on the socket.
type NoDaemonError struct{ Socket string }

func (e *NoDaemonError) Error() string {
	return fmt.Sprintf("no daemon runs here (socket %s)", e.Socket)
}

// dialPause is how long to wait before trying again a socket that has its
// backlog full.
const dialPause = 20 * time.Millisecond

// dial connects, as soon as the daemon takes more connections.
func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", socket)
		switch {
		case err == nil:
			return c.(*net.UnixConn), nil
		case noDaemon(err):
			return nil, &NoDaemonError{socket}
		case !errors.Is(err, unix.EAGAIN):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(dialPause):
		}
	}
}

// Call makes a request and puts the answer's body into result, unless that is
// nil. It returns a *[NoDaemonError] when nobody listens, a *[RefusedError]
// when the daemon refused.
func Call(ctx context.Context, socket, kind string, body, result any) error {
	c, err := dial(ctx, socket)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	a, err := ask(c, kind, body)
	if err == nil && result != nil {
		err = decode(a.Body, result)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// ask sends a request and reads the first answer.
func ask(c *net.UnixConn, kind string, body any) (answer, error) {
	q := request{Version: version, Kind: kind}
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		q.Body = b
	}
	wrote := writeFrame(c, q) // a daemon that has enough answers all the same
	a, err := next(c)
	if err != nil {
		err = errors.Join(wrote, err)
	}
	return a, err
}

// next reads an answer; one that tells of an error is that error.
func next(c *net.UnixConn) (answer, error) {
	var a answer
	err := readFrame(c, maxAnswer, &a)
	switch {
	case errors.Is(err, io.EOF):
		return a, errors.New("the daemon ended without an answer")
	case err != nil:
		return a, fmt.Errorf("the daemon's answer: %w", err)
	case a.Refused:
		return a, &RefusedError{Why: a.Error}
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

// Set asks root's daemon what is enforced, without facts.
func Set(ctx context.Context, socket string) (specs.Set, error) {
	var set specs.Set
	err := Call(ctx, socket, kindSet, nil, &set)
	return set, err
}

// Review has the daemon look whether those who started sessions may still have
// them.
func Review(ctx context.Context, socket string) error {
	return Call(ctx, socket, kindReview, nil, nil)
}

// Sessions are those that the caller may deal with.
func Sessions(ctx context.Context, socket string) ([]Session, error) {
	var list []Session
	err := Call(ctx, socket, KindPS, nil, &list)
	return list, err
}

// Stop ends a session, and waits until it has ended.
func Stop(ctx context.Context, socket, id string, order session.Order) error {
	return Call(ctx, socket, KindStop, stopRequest{ID: id, Order: order}, nil)
}
