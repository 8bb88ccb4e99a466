// Package leanhttp sends HTTP/1.1 requests from the goroutine that asks: it
// writes the request, then reads the answer, on a kept connection. net/http's
// own transport hands each over to two goroutines of the connection and back,
// which takes longer than all else that a proxy does to a small request, the
// more so where processors are few or busy.
//
// It follows no redirects, keeps no cookies, knows no proxies, does not
// decompress, and repeats a request only where a kept connection turns out to
// have been closed.
package leanhttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
)

// Bounds.
const (
	dialTimeout = 10 * time.Second // TLS included
	idleTimeout = 90 * time.Second
	idlePerHost = 64
	bufferSize  = 4 << 10
	headerBytes = 256 << 10 // of an answer
)

// Transport is an http.RoundTripper. The zero Transport is ready to use and
// trusts the certificates that the host does. A request's body must be whole
// in memory or on disk, and of a known length: nothing is read of an answer
// before it is sent.
type Transport struct {
	TLS *tls.Config // nil is the default; ServerName is set for each host

	writers sync.Pool // of *bufio.Writer

	mu   sync.Mutex
	idle map[origin][]*conn // the last used at the end
}

// RoundTrip sends one request. Its context ends the answer's body too.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
		if req.Context().Err() != nil {
			closeBody(req)
			return nil, context.Cause(req.Context())
		}
		c, err := t.take(req.Context(), req)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := c.do(t, req)
		if err == nil {
			return resp, nil
		}
		_ = c.Close()
		if cause := context.Cause(req.Context()); cause != nil {
			return nil, cause
		}
		// Only a connection that was closed while it was kept: nothing came back.
		if !c.reused || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			return nil, err
		}
		if req.Body != nil {
			if req.GetBody == nil {
				return nil, err
			}
			again := req.Clone(req.Context())
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
			req = again
		}
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// send writes the request, through a buffer that the connection does not keep:
// its answer may take hours.
func (t *Transport) send(c *conn, req *http.Request) error {
	defer closeBody(req)
	out, ok := t.writers.Get().(*bufio.Writer)
	if !ok {
		out = bufio.NewWriterSize(nil, bufferSize)
	}
	out.Reset(c.Conn)
	err := write(out, req)
	if err == nil {
		err = out.Flush()
	}
	out.Reset(nil)
	t.writers.Put(out)
	return err
}

// do writes the request and reads the answer's head.
func (c *conn) do(t *Transport, req *http.Request) (*http.Response, error) {
	stop := ending.AfterFunc(req.Context(), c.over)
	sent := t.send(c, req)
	if errors.Is(sent, errRequest) { // and no answer will come
		stop.Now()
		return nil, sent
	}
	// Where it could not be sent there may be an answer that says why.
	c.limit.Left = headerBytes
	resp, keep, err := c.readAnswer(req)
	for err == nil && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp, keep, err = c.readAnswer(req)
	}
	c.limit.Left = -1
	if err != nil {
		stop.Now()
		return nil, errors.Join(err, sent)
	}
	b := resp.Body.(*body)
	b.transport, b.stop, b.keep = t, stop, keep && sent == nil
	return resp, nil
}
