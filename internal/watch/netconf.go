package watch

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// settingsOf tells whom a change of settings of interfaces is for: of all of
// them, as forwarding, or of one.
func settingsOf(m message) []string {
	if m.foreign {
		return []string{slot}
	}
	index, ok := netconfIndex(m.data)
	switch {
	case !ok || index <= 0: // NETCONFA_IFINDEX_ALL, NETCONFA_IFINDEX_DEFAULT
		return []string{slot, network}
	case isSlot(linkName(index)):
		return []string{slot}
	}
	return nil
}

// netconfIndex is the interface that a message of RTM_NEWNETCONF is about, see
// linux/netconf.h.
func netconfIndex(data []byte) (index int32, ok bool) {
	const header, ifindex = 4, 1 // size of struct netconfmsg, NETCONFA_IFINDEX
	if len(data) < header {
		return 0, false
	}
	attrs, err := nl.ParseRouteAttr(data[header:])
	if err != nil {
		return 0, false
	}
	for _, a := range attrs {
		if a.Attr.Type == ifindex && len(a.Value) == 4 {
			return int32(binary.NativeEndian.Uint32(a.Value)), true
		}
	}
	return 0, false
}

// linkName is what a link is called; "" when it has gone meanwhile.
func linkName(index int32) string {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	ask, err := unix.NewIfreq("")
	if err != nil {
		return ""
	}
	ask.SetUint32(uint32(index))
	if unix.IoctlIfreq(fd, unix.SIOCGIFNAME, ask) != nil {
		return ""
	}
	return ask.Name()
}
