package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/leanhttp"
	"github.com/aicodesit/cordon/internal/stricthttp"
)

// Causes of an answer's end.
var (
	errEnded   = errors.New("the session ended or its token was revoked")
	errExpired = errors.New("the session's token expired")
)

// ended is why a session's requests end.
func ended(alive context.Context) error {
	if context.Cause(alive) == errExpired {
		return errExpired
	}
	return errEnded
}

// forward sends the order to the first upstream that takes it and passes the
// answer on. most is what was reserved; used is set to what is charged.
func (s *Server) forward(w *stricthttp.Response, r *stricthttp.Request, x *exchange, o *order, most usage, used *usage) *refusal {
	got, secrets, bad := s.try(r, x, o)
	if bad != nil {
		return bad
	}
	defer got.Close()
	o.body.drop()
	if bad := s.unfit(got, x); bad != nil {
		return bad
	}
	var body io.Reader = got
	kind := mediaType(got.Header.Get("Content-Type"))
	streams := got.Length < 0 && kind != "application/json" // it is flushed as it comes
	if got.Status >= 400 {
		var err error
		if body, err = hide(got, secrets); err != nil {
			return badGateway("upstream", "the upstream's answer broke off")
		}
		streams = false
	}
	m := newMeter(kind, &s.counters)
	if got.Status < 300 { // else nothing is charged
		defer func() { *used = m.charge(most, time.Since(x.start)) }()
	}
	// A client that does not read blocks a write, which no context ends.
	stop := ending.AfterFunc(o.ctx, func() { _ = w.SetWriteDeadline(time.Now()) })
	defer stop.Now()
	x.status = got.Status
	responseHeader(w, got.Header, secrets)
	w.WriteHeader(got.Status)
	// Where the next read is known not to wait, the head goes out with what it brings.
	if streams && !got.Ready() && w.Flush() != nil {
		s.abort(o.ctx, x)
	}
	s.pass(o.ctx, w, body, streams, x, m)
	return nil
}

// unfit refuses an answer that is not for the client.
func (s *Server) unfit(got *leanhttp.Answer, x *exchange) *refusal {
	switch {
	case got.Status < 200 || got.Status >= 300 && got.Status < 400:
		return badGateway("redirect", "the upstream sends elsewhere, which is not followed")
	case got.Status == http.StatusUnauthorized:
		s.log.Error("the upstream refuses the credential", "proxy", s.spec.Name, "upstream", x.upstream)
		return forbidden("credential", "the upstream refuses the proxy's own credential; tell who runs this host")
	}
	return nil
}

// failedOver tells whether a status means that another upstream may do better.
func failedOver(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, statusOverloaded:
		return true
	}
	return status == http.StatusUnauthorized
}

// try asks one upstream after the other until one answers well; the last one
// answers as it does.
func (s *Server) try(r *stricthttp.Request, x *exchange, o *order) (*leanhttp.Answer, []string, *refusal) {
	ups := inOrder(o.route.upstreams, x.start)
	for i, up := range ups {
		x.upstream = up.Name
		last := i == len(ups)-1
		got, secrets, bad := s.ask(r, o, up)
		if o.ctx.Err() != nil {
			if got != nil {
				_ = got.Close()
			}
			return nil, nil, cut(o.ctx)
		}
		failed := bad != nil || failedOver(got.Status)
		if failed {
			up.failed.Store(time.Now().UnixNano())
			s.metrics.failures.WithLabelValues(up.Name).Inc()
		}
		if got != nil && got.Status == http.StatusUnauthorized {
			up.refused()
		}
		if !failed || last {
			return got, secrets, bad
		}
		if got != nil {
			_ = got.Close()
		}
	}
	return nil, nil, badGateway("upstream", "there is no upstream") // no route is without
}

func (s *Server) ask(r *stricthttp.Request, o *order, up *upstream) (*leanhttp.Answer, []string, *refusal) {
	out, err := up.request(o.ctx, r, o.body.data)
	if err != nil {
		s.log.Error("no credential for the upstream", "proxy", s.spec.Name, "upstream", up.Name, "error", err)
		return nil, nil, badGateway("credential", "the proxy's own credential can't be had; tell who runs this host")
	}
	got, err := s.http.Do(o.ctx, &out.Request)
	if err != nil {
		if o.ctx.Err() == nil {
			s.log.Warn("upstream", "proxy", s.spec.Name, "upstream", up.Name, "error", err)
		}
		return nil, nil, badGateway("upstream", "the upstream can't be reached")
	}
	return got, out.secrets, nil
}

// cut is the refusal for a request that ended before an answer came.
func cut(ctx context.Context) *refusal {
	switch context.Cause(ctx) {
	case errEnded:
		return forbidden("ended", "the session has ended")
	case errExpired:
		return forbidden("expired", "the session's token has expired: start a new session")
	}
	return &refusal{status: 499, kind: "api_error", reason: "gone", message: "the client hung up"}
}

// hide is an error's body without the secrets: some APIs quote the key that they
// refuse. It takes the length, which may be another now, out of the header.
func hide(got *leanhttp.Answer, secrets []string) (io.Reader, error) {
	const most = 256 << 10
	text, err := io.ReadAll(io.LimitReader(got, most))
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets {
		text = bytes.ReplaceAll(text, []byte(secret), []byte("[redacted]"))
	}
	got.Header = got.Header.Without("Content-Length")
	return bytes.NewReader(text), nil
}

// sink is where an answer goes, as to a [stricthttp.Response].
type sink interface {
	io.Writer
	Flush() error
}

// pass copies the answer's body, and if that streams, as it comes. An answer that
// breaks off on either side is cut off on the other.
func (s *Server) pass(ctx context.Context, w sink, body io.Reader, streams bool, x *exchange, m *meter) {
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	for {
		n, err := body.Read(*buffer)
		if n > 0 {
			_, lost := w.Write((*buffer)[:n])
			if lost == nil && streams {
				lost = w.Flush()
			}
			// The client need not wait for what follows. What a lost one did not get is counted, too.
			s.passed(x, n)
			m.feed((*buffer)[:n])
			if lost != nil {
				s.abort(ctx, x)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if !streams {
				_ = w.Flush() // the client need not wait for what is yet to be counted; a lost one is none of the answer's
			}
			m.end()
			return
		case err != nil:
			s.abort(ctx, x)
		}
	}
}

func (s *Server) passed(x *exchange, n int) {
	if x.sent == 0 {
		x.first = time.Since(x.start)
		s.metrics.first.Observe(x.first.Seconds())
	}
	x.sent += int64(n)
}

// abort cuts the client's connection, so that it can't take a part for the whole.
func (s *Server) abort(ctx context.Context, x *exchange) {
	x.reason = "broken"
	if ctx.Err() != nil {
		x.reason = cut(ctx).reason
	}
	panic(http.ErrAbortHandler) // how the server is told
}
