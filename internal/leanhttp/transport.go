// Package leanhttp sends HTTP/1.1 requests from the goroutine that asks: it
// writes the request, then reads the answer, on a kept connection. net/http's
// own transport hands each over to two goroutines of the connection and back,
// which takes longer than all else that a proxy does to a small request, the
// more so where processors are few or busy.
//
// It parses with net/http. It follows no redirects, keeps no
// cookies, knows no proxies, does not decompress, and repeats a request only
// where a kept connection turns out to have been closed.
package leanhttp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"
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
	idle map[string][]*conn // by scheme and address, the last used at the end
}

// RoundTrip sends one request. Its context ends the answer's body too.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	for {
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
	stop := context.AfterFunc(req.Context(), func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	sent := t.send(c, req)
	if errors.Is(sent, errRequest) { // and no answer will come
		stop()
		return nil, sent
	}
	// Where it could not be sent there may be an answer that says why.
	c.limit.left = headerBytes
	resp, err := http.ReadResponse(c.in, req)
	for err == nil && resp.StatusCode >= 100 && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp, err = http.ReadResponse(c.in, req)
	}
	c.limit.left = -1
	if err != nil {
		stop()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return nil, errors.Join(err, sent)
	}
	keep := sent == nil && !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
	resp.Body = &body{in: resp.Body, conn: c, transport: t, stop: stop, keep: keep, chunked: resp.TransferEncoding != nil}
	return resp, nil
}

// body gives the connection back at the answer's end.
type body struct {
	in        io.ReadCloser
	conn      *conn
	transport *Transport
	stop      func() bool
	keep      bool
	chunked   bool
	begun     bool
	done      bool
}

// Ready tells whether something of an answer of which nothing was read is
// there already, so that a Read would not wait.
func (b *body) Ready() bool {
	if b.done || b.begun {
		return false
	}
	there, err := b.conn.in.Peek(b.conn.in.Buffered())
	if err != nil || !b.chunked {
		return err == nil && len(there) > 0
	}
	_, chunk, ok := bytes.Cut(there, []byte("\n")) // after its length
	return ok && len(chunk) > 0
}

func (b *body) Read(p []byte) (int, error) {
	if b.done {
		return 0, io.EOF
	}
	b.begun = true
	n, err := b.in.Read(p)
	if err != nil {
		b.finish(b.keep && errors.Is(err, io.EOF))
	}
	return n, err
}

// Close ends the answer. What is left of it is not read: the connection goes.
func (b *body) Close() error {
	b.finish(false)
	return nil
}

func (b *body) finish(keep bool) {
	if b.done {
		return
	}
	b.done = true
	// When the context ended meanwhile, the connection's deadline is over.
	if b.stop() && keep && b.conn.in.Buffered() == 0 {
		b.transport.give(b.conn)
		return
	}
	_ = b.conn.Close()
}
