package proxy

import (
	"context"
	"net/netip"

	"github.com/aicodesit/cordon/enforcers/proxy/token"

	"github.com/aicodesit/cordon/specs"
)

// Session is a session that lives, as the proxy sees it.
type Session struct {
	Lease specs.Lease
	Token token.Token // the zero Token when it has none

	// Alive ends when the session does, and when its token is revoked,
	// replaced or expires.
	Alive context.Context
}

// key tells sessions apart, also those of before a reboot.
func (s Session) key() string {
	return s.Lease.ID + "@" + s.Lease.Started.UTC().Format("20060102T150405")
}

// Sessions finds the session behind an address. It is asked for each request
// and must be quick.
type Sessions interface {
	ByAddr(netip.Addr) (Session, bool)
}
