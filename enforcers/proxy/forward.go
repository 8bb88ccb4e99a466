package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
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

func remote(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// forward sends the order to the first upstream that takes it and passes the
// answer on. most is what was reserved; used is set to what is charged.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, x *exchange, o *order, most usage, used *usage) *refusal {
	resp, secrets, bad := s.try(r, x, o)
	if bad != nil {
		return bad
	}
	defer resp.Body.Close()
	o.body.drop()
	switch {
	case resp.StatusCode < 200 || resp.StatusCode >= 300 && resp.StatusCode < 400:
		return badGateway("redirect", "the upstream sends elsewhere, which is not followed")
	case resp.StatusCode == http.StatusUnauthorized:
		s.log.Error("the upstream refuses the credential", "proxy", s.spec.Name, "upstream", x.upstream)
		return forbidden("credential", "the upstream refuses the proxy's own credential; tell who runs this host")
	}
	if resp.StatusCode >= 400 {
		if err := hide(resp, secrets); err != nil {
			return badGateway("upstream", "the upstream's answer broke off")
		}
	}
	m := newMeter(resp.Header.Get("Content-Type"), &s.counters)
	if resp.StatusCode < 300 { // else nothing is charged
		defer func() { *used = m.charge(most, time.Since(x.start)) }()
	}
	responseHeader(w.Header(), resp.Header, secrets)
	s.pass(o.ctx, w, resp, x, m)
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
func (s *Server) try(r *http.Request, x *exchange, o *order) (*http.Response, []string, *refusal) {
	ups := inOrder(o.route.upstreams, x.start)
	for i, up := range ups {
		x.upstream = up.Name
		last := i == len(ups)-1
		resp, secrets, bad := s.ask(r, o, up)
		if o.ctx.Err() != nil {
			if resp != nil {
				_ = resp.Body.Close()
			}
			return nil, nil, cut(o.ctx)
		}
		failed := bad != nil || failedOver(resp.StatusCode)
		if failed {
			up.failed.Store(time.Now().UnixNano())
			s.metrics.failures.WithLabelValues(up.Name).Inc()
		}
		if resp != nil && resp.StatusCode == http.StatusUnauthorized {
			up.refused()
		}
		if !failed || last {
			return resp, secrets, bad
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
	}
	return nil, nil, badGateway("upstream", "there is no upstream") // no route is without
}

func (s *Server) ask(r *http.Request, o *order, up *upstream) (*http.Response, []string, *refusal) {
	out, secrets, err := up.request(o.ctx, r, o.path, o.body)
	if err != nil {
		s.log.Error("no credential for the upstream", "proxy", s.spec.Name, "upstream", up.Name, "error", err)
		return nil, nil, badGateway("credential", "the proxy's own credential can't be had; tell who runs this host")
	}
	resp, err := s.http.RoundTrip(out)
	if err != nil {
		if o.ctx.Err() == nil {
			s.log.Warn("upstream", "proxy", s.spec.Name, "upstream", up.Name, "error", err)
		}
		return nil, nil, badGateway("upstream", "the upstream can't be reached")
	}
	return resp, secrets, nil
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

// hide takes the secrets out of an error's body: some APIs quote the key that
// they refuse.
func hide(resp *http.Response, secrets []string) error {
	const most = 256 << 10
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		text = bytes.ReplaceAll(text, []byte(secret), []byte("[redacted]"))
	}
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text))
	resp.ContentLength = int64(len(text))
	resp.Header.Del("Content-Length")
	return nil
}

// pass copies the answer as it comes. An answer that breaks off on either
// side is cut off on the other.
func (s *Server) pass(ctx context.Context, w http.ResponseWriter, resp *http.Response, x *exchange, m *meter) {
	rc := http.NewResponseController(w)
	// A client that does not read blocks a write, which no context ends.
	stop := ending.AfterFunc(ctx, func() { _ = rc.SetWriteDeadline(time.Now()) })
	defer stop.Now()
	x.status = resp.StatusCode
	w.WriteHeader(resp.StatusCode)
	streams := streaming(resp)
	if streams && !ready(resp.Body) && rc.Flush() != nil {
		s.abort(ctx, x)
	}
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	for {
		n, err := resp.Body.Read(*buffer)
		if n > 0 {
			_, lost := w.Write((*buffer)[:n])
			if lost == nil && streams {
				lost = rc.Flush()
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
				_ = rc.Flush() // the client need not wait for what is yet to be counted; a lost one is none of the answer's
			}
			m.end()
			return
		case err != nil:
			s.abort(ctx, x)
		}
	}
}

// ready tells whether the next read of an answer is known not to wait: its
// head then goes out with what it brings.
func ready(body io.Reader) bool {
	b, ok := body.(interface{ Ready() bool })
	return ok && b.Ready()
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

// streaming tells whether an answer is to be flushed as it comes.
func streaming(resp *http.Response) bool {
	if resp.ContentLength >= 0 {
		return false
	}
	return mediaType(resp.Header.Get("Content-Type")) != "application/json"
}
