package slot

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkRest looks at what a namespace as it was made does not have: rules of
// routing, neighbours set by hand, forwarding, tables of iptables (of the legacy
// kind).
func (s *Slot) checkRest(in inside) {
	if !slices.Equal(in.rules, firstRules()) {
		s.renew("rules of routing were changed inside")
	}
	for i, line := range strings.Split(in.neighbour, "\n") {
		f := strings.Fields(line)
		if i == 0 || len(f) < 3 {
			continue
		}
		const set = 0x04 | 0x08 // ATF_PERM, ATF_PUBL of linux/if_arp.h
		if flags, err := strconv.ParseUint(f[2], 0, 32); err != nil || flags&set != 0 {
			s.drift("neighbour %s set inside", f[0])
		}
	}
	if in.forwards {
		s.drift("forwarding is on inside")
	}
	if names := strings.Fields(in.tables); len(names) > 0 {
		s.renew("iptables has tables inside: %s", strings.Join(names, ", "))
	}
}

// renew is drift that only another namespace is without.
func (s *Slot) renew(format string, args ...any) {
	s.fresh = true
	s.Drift = append(s.Drift, fmt.Sprintf(format, args...))
}
