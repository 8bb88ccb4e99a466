package leanhttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/aicodesit/cordon/internal/httphead"
	"github.com/aicodesit/cordon/internal/rawsys"
)

// conn is one connection, used by one request at a time.
type conn struct {
	net.Conn
	tcp    *rawsys.Conn
	in     *bufio.Reader
	limit  *httphead.Limited
	to     origin
	since  time.Time // when it became idle
	reused bool
	over   func() // ends whoever reads or writes
}

// origin is what the requests of a connection go to.
type origin struct{ scheme, host string }

func originOf(req *http.Request) origin { return origin{req.URL.Scheme, req.URL.Host} }

// take returns a connection: the kept one that was used last, or a new one.
func (t *Transport) take(ctx context.Context, req *http.Request) (*conn, error) {
	for {
		// A peer that closed it, or said something unasked, shows in its socket.
		c := t.kept(originOf(req))
		if c == nil {
			return t.dial(ctx, req)
		}
		if time.Since(c.since) < idleTimeout && c.tcp.Quiet() {
			c.reused = true
			return c, nil
		}
		_ = c.Close()
	}
}

func (t *Transport) kept(to origin) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.idle[to]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	t.idle[to] = list[:len(list)-1]
	return c
}

func (t *Transport) give(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = map[origin][]*conn{}
	}
	c.since = time.Now()
	list := append(t.idle[c.to], c)
	for len(list) > idlePerHost || c.since.Sub(list[0].since) > idleTimeout {
		_ = list[0].Close()
		list[0] = nil
		list = list[1:]
	}
	t.idle[c.to] = list
}

// CloseIdleConnections closes all that are kept.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, list := range t.idle {
		for _, c := range list {
			_ = c.Close()
		}
	}
	t.idle = nil
}

func (t *Transport) dial(ctx context.Context, req *http.Request) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addr := req.URL.Host
	if req.URL.Port() == "" {
		addr = net.JoinHostPort(req.URL.Hostname(), map[string]string{"http": "80", "https": "443"}[req.URL.Scheme])
	}
	dialer := net.Dialer{KeepAlive: 30 * time.Second}
	tcp, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	raw, err := rawsys.NewConn(tcp.(*net.TCPConn))
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	c := &conn{Conn: raw, tcp: raw, to: originOf(req)}
	switch req.URL.Scheme {
	case "http":
	case "https":
		if c.Conn, err = t.handshake(ctx, raw, req.URL.Hostname()); err != nil {
			_ = raw.Close()
			return nil, err
		}
	default:
		_ = raw.Close()
		return nil, fmt.Errorf("%s: no such scheme", req.URL.Scheme)
	}
	c.over = func() { _ = c.SetDeadline(time.Unix(1, 0)) } // made once, as each would be allocated
	c.limit = &httphead.Limited{In: c.Conn, Left: -1}
	c.in = bufio.NewReaderSize(c.limit, bufferSize)
	return c, nil
}

func (t *Transport) handshake(ctx context.Context, raw net.Conn, host string) (net.Conn, error) {
	config := t.TLS.Clone() // of nil it is nil
	if config == nil {
		config = &tls.Config{}
	}
	config.ServerName, config.NextProtos = host, []string{"http/1.1"}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return c, nil
}
