package slot

import (
	"fmt"
	"slices"
	"strings"
)

// checkRest looks at what a namespace as it was made does not have: rules of
// routing, neighbours set by hand, tables of iptables (of the legacy kind).
func (s *Slot) checkRest(in inside) {
	if !slices.Equal(in.rules, firstRules()) {
		s.renew("rules of routing were changed inside")
	}
	for _, n := range in.neighbours {
		if !n.set(in, s.Session) {
			continue
		}
		report := s.renew
		if in.linkName(n.index) == inner { // and goes with it
			report = s.drift
		}
		report("neighbour %s set inside", n.addr)
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
