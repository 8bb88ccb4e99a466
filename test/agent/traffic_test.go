package agent

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// traffic is all that went over the host's links but the loopback.
type traffic struct {
	mu   sync.Mutex
	data []byte
}

func capture(t *testing.T) *traffic {
	lo, err := net.InterfaceByName("lo")
	must(t, err)
	all := uint16(unix.ETH_P_ALL)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all<<8|all>>8))
	must(t, err)
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}))
	c, quit, done := &traffic{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<17)
		for {
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if link, ok := from.(*unix.SockaddrLinklayer); err == nil && ok && link.Ifindex != lo.Index {
				c.mu.Lock()
				c.data = append(c.data, buf[:n]...)
				c.mu.Unlock()
			}
			select {
			case <-quit:
				return
			default:
			}
		}
	}()
	t.Cleanup(func() { close(quit); <-done; _ = unix.Close(fd) })
	return c
}

func (c *traffic) holds(s string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.data, []byte(s))
}

func random(t testing.TB) string {
	b := make([]byte, 24)
	_, err := rand.Read(b)
	must(t, err)
	return hex.EncodeToString(b)
}
