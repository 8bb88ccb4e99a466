package leanhttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
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
	to     Origin
	since  time.Time // when it became idle
	reused bool
	over   func() // ends whoever reads or writes
}

// take returns a connection: the kept one that was used last, or a new one.
func (t *Transport) take(ctx context.Context, to Origin) (*conn, error) {
	for {
		c := t.kept(to)
		if c == nil {
			return t.dial(ctx, to)
		}
		if time.Since(c.since) < idleTimeout {
			c.reused = true
			return c, nil
		}
		_ = c.Close()
	}
}

func (t *Transport) kept(to Origin) *conn {
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
		t.idle = map[Origin][]*conn{}
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

func (t *Transport) dial(ctx context.Context, to Origin) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	at := url.URL{Host: to.Host} // takes a host apart
	addr := to.Host
	if at.Port() == "" {
		addr = net.JoinHostPort(at.Hostname(), map[string]string{"http": "80", "https": "443"}[to.Scheme])
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
	c := &conn{Conn: raw, tcp: raw, to: to}
	switch to.Scheme {
	case "http":
	case "https":
		if c.Conn, err = t.handshake(ctx, raw, at.Hostname()); err != nil {
			_ = raw.Close()
			return nil, err
		}
	default:
		_ = raw.Close()
		return nil, fmt.Errorf("%s: no such scheme", to.Scheme)
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
