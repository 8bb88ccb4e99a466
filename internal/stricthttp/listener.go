// Package stricthttp stands between a listener and an HTTP/1.1 server and
// lets only requests through that no two readers take apart differently
// (RFC 9112, sections 2.2, 5.2, 6.1 and 11.2). A server that would mend or
// overlook an ambiguous form never sees it: its next read fails, and it
// answers 400 and closes the connection. [Server] is such a server, of one
// goroutine for a connection.
package stricthttp

import (
	"net"
	"net/netip"
	"sync"

	"github.com/aicodesit/cordon/internal/rawsys"
)

// Listener accepts connections and checks what comes over them.
type Listener struct {
	net.Listener

	// PerAddress is how many connections one address may have open at a
	// time; more are closed as they come. 0 is no bound.
	PerAddress int

	mu   sync.Mutex
	open map[netip.Addr]int
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := Addr(c.RemoteAddr())
		if !l.take(addr) {
			_ = c.Close()
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			if c, err = rawsys.NewConn(tcp); err != nil {
				l.give(addr)
				_ = tcp.Close()
				continue
			}
		}
		return &conn{Conn: c, remote: c.RemoteAddr().String(), release: sync.OnceFunc(func() { l.give(addr) })}, nil
	}
}

// Addr returns the IP address of a peer, IPv4 as such even when it came
// mapped into IPv6; of anything but TCP the zero Addr.
func Addr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

func (l *Listener) take(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.PerAddress > 0 && l.open[a] >= l.PerAddress {
		return false
	}
	if l.open == nil {
		l.open = map[netip.Addr]int{}
	}
	l.open[a]++
	return true
}

func (l *Listener) give(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[a]--; l.open[a] <= 0 {
		delete(l.open, a)
	}
}

// conn checks what is read from it.
type conn struct {
	net.Conn
	head    head
	remote  string // the peer's address and port
	release func()
	failed  error
}

func (c *conn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.Conn.Read(p)
	if bad := c.head.feed(p[:n]); bad != nil {
		c.failed = bad
		return 0, bad
	}
	return n, err
}

func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}
