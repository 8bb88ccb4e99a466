// Package stricthttp is an HTTP/1.1 server of one goroutine for a connection.
// Its handler has only requests that no two readers take apart differently
// (RFC 9112, sections 2.2, 5.2, 6.1 and 11.2). Any other is answered with a status
// of 4xx and ends the connection.
package stricthttp

import (
	"net"
	"net/netip"
	"sync"

	"github.com/aicodesit/cordon/internal/rawsys"
)

// listener accepts connections, of each address so many.
type listener struct {
	net.Listener

	perAddress int // see Server

	mu   sync.Mutex
	open map[netip.Addr]int
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := addressOf(c.RemoteAddr())
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
		return &conn{Conn: c, addr: addr, release: sync.OnceFunc(func() { l.give(addr) })}, nil
	}
}

// addressOf returns the IP address of a peer, IPv4 as such even when it came
// mapped into IPv6; of anything but TCP the zero Addr.
func addressOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

func (l *listener) take(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perAddress > 0 && l.open[a] >= l.perAddress {
		return false
	}
	if l.open == nil {
		l.open = map[netip.Addr]int{}
	}
	l.open[a]++
	return true
}

func (l *listener) give(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[a]--; l.open[a] <= 0 {
		delete(l.open, a)
	}
}

// conn is a connection that counts until it is closed.
type conn struct {
	net.Conn
	addr    netip.Addr // the peer's, see addressOf
	release func()
}

func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}
