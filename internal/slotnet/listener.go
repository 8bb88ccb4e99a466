// Package slotnet keeps a port for sessions alone.
//
// The host's ends of slots come and go by the thousand, so a proxy listens on
// all addresses. [Listener] takes only what came from a slot's own address to
// the host's end of the very slot; all else is closed before a byte is read.
// That what comes from there is the slot's is the firewall's to hold, and the
// kernel's: the way back leads into the slot.
package slotnet

import (
	"net"
	"net/netip"

	"github.com/aicodesit/cordon/specs"
)

// Listener is a listener for the slots of Networks.
type Listener struct {
	net.Listener
	Networks []specs.Network
}

// Accept returns the next connection from a slot.
func (l Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.Takes(addr(c.LocalAddr()), addr(c.RemoteAddr())) {
			return c, nil
		}
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // nothing stays behind of strangers
		}
		_ = c.Close()
	}
}

// Takes tells whether local and remote are the two ends of one slot.
func (l Listener) Takes(local, remote netip.Addr) bool {
	for _, n := range l.Networks {
		if i, ok := n.SlotOf(remote); ok {
			host, own := n.SlotAddrs(i)
			return host.Addr() == local && own.Addr() == remote
		}
	}
	return false
}

func addr(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap()
}
