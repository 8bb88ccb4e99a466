// Package leanhttp sends HTTP/1.1 requests from the goroutine that asks: it
// writes the request, then reads the answer, on a kept connection. net/http's
// own transport hands each over to two goroutines of the connection and back,
// which takes longer than all else that a proxy does to a small request, the
// more so where processors are few or busy. Its headers are lists: to fill and to
// read net/http's maps takes longer than to send them.
//
// It follows no redirects, keeps no cookies, knows no proxies, does not
// decompress, and repeats a request only where a kept connection turns out to
// have been closed.
package leanhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/httphead"
	"github.com/aicodesit/cordon/internal/rawsys"
)

// Bounds.
const (
	dialTimeout = 10 * time.Second // TLS included
	idleTimeout = 90 * time.Second
	idlePerHost = 64
	bufferSize  = 4 << 10
	headerBytes = 256 << 10 // of an answer
)

// Origin is what requests go to: a scheme, http or https, and a host with the
// port, if that is not the scheme's.
type Origin struct{ Scheme, Host string }

// Request is what is sent.
type Request struct {
	Origin Origin
	Method string
	Target string // a path and maybe a query, escaped (RFC 9112, section 3.2.1)

	// Header is sent as it is, but for what is said by the fields around it:
	// Host, Content-Length, Transfer-Encoding and Trailer are left out.
	Header httphead.Header
	Body   []byte
}

// Transport sends requests. The zero Transport is ready to use and trusts the
// certificates that the host does. Nothing is read of an answer before the request
// is sent.
type Transport struct {
	TLS *tls.Config // nil is the default; ServerName is set for each host

	buffers sync.Pool // of *[]byte

	mu   sync.Mutex
	idle map[Origin][]*conn // the last used at the end
}

// Do sends one request. Its context ends the answer too, which is to be closed.
// The error is the context's cause where that ended. What the request is made of
// is not looked at any more when Do returns.
func (t *Transport) Do(ctx context.Context, req *Request) (*Answer, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c, err := t.take(ctx, req.Origin)
		if err != nil {
			return nil, err
		}
		a, err := t.exchange(ctx, c, req)
		if err == nil {
			return a, nil
		}
		_ = c.Close()
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		// Only where a kept connection shows that its peer closed it, or said something unasked.
		if !c.reused || !errors.Is(err, rawsys.ErrNotQuiet) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return nil, err
		}
	}
}

// exchange writes the request and reads the answer's head.
func (t *Transport) exchange(ctx context.Context, c *conn, req *Request) (*Answer, error) {
	stop := ending.AfterFunc(ctx, c.over)
	sent := t.send(c, req)
	if errors.Is(sent, errRequest) || errors.Is(sent, rawsys.ErrNotQuiet) { // and no answer will come
		stop.Now()
		return nil, sent
	}
	// Where it could not be sent there may be an answer that says why.
	c.limit.Left = headerBytes
	a, err := c.readAnswer(req.Method)
	for err == nil && a.Status < 200 && a.Status != http.StatusSwitchingProtocols {
		a, err = c.readAnswer(req.Method)
	}
	c.limit.Left = -1
	if err != nil {
		stop.Now()
		return nil, errors.Join(err, sent)
	}
	a.transport, a.stop, a.keep = t, stop, a.keep && sent == nil
	return a, nil
}
