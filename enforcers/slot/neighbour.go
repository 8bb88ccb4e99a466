package slot

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/netask"
)

// neighbour is one of IPv4: who has an address on a link.
type neighbour struct {
	index    int // of the link; 0: any
	addr     netip.Addr
	state    uint16 // NUD_…
	flags    uint8  // NTF_…
	hardware bool   // it has a hardware address other than zero
}

// sizeofNdMsg is the size of struct ndmsg of linux/neighbour.h.
const sizeofNdMsg = 12

// neighboursBody asks for those with flags: those that are answered for
// (NTF_PROXY) are a list of their own.
func neighboursBody(flags byte) []byte {
	body := make([]byte, sizeofNdMsg)
	body[0], body[10] = unix.AF_INET, flags
	return body
}

// parseNeighbour reads an RTM_NEWNEIGH message, see rtnetlink(7).
func parseNeighbour(m []byte) (neighbour, error) {
	if len(m) < sizeofNdMsg {
		return neighbour{}, errCut
	}
	n := neighbour{
		index: int(int32(binary.NativeEndian.Uint32(m[4:]))),
		state: binary.NativeEndian.Uint16(m[8:]),
		flags: m[10],
	}
	err := netask.Attributes(m[sizeofNdMsg:], func(kind uint16, value []byte) error {
		switch kind {
		case unix.NDA_DST:
			a, ok := netip.AddrFromSlice(value)
			if !ok || !a.Is4() {
				return errCut
			}
			n.addr = a
		case unix.NDA_LLADDR:
			for _, b := range value {
				n.hardware = n.hardware || b != 0
			}
		}
		return nil
	})
	return n, err
}

// set tells whether someone set n, and not the kernel by ARP. Without ARP it knows
// by itself those of lo, and multicast and broadcast addresses.
func (n neighbour) set(in inside, session netip.Prefix) bool {
	if n.flags != 0 || n.state&unix.NUD_PERMANENT != 0 {
		return true
	}
	if n.state&unix.NUD_NOARP == 0 {
		return false
	}
	if in.linkName(n.index) == loop {
		return n.hardware
	}
	return !n.addr.IsMulticast() && n.addr != netip.AddrFrom4([4]byte{255, 255, 255, 255}) && !broadcast(session, n.addr)
}

// broadcast tells whether a is the first or the last address of p, a /30.
func broadcast(p netip.Prefix, a netip.Addr) bool {
	return p.Contains(a) && (!p.Contains(a.Prev()) || !p.Contains(a.Next()))
}
