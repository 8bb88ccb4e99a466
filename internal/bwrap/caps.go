package bwrap

import (
	"fmt"

	"github.com/moby/sys/capability"
)

// capMask is the set of capabilities as /proc/PID/status shows one.
func capMask(names []string) (uint64, error) {
	var mask uint64
	for _, n := range names {
		found := false
		for _, c := range capability.ListKnown() {
			if capName(n) == capName(c.String()) {
				mask |= 1 << uint(c)
				found = true
			}
		}
		if !found {
			return 0, fmt.Errorf("there is no capability %q", n)
		}
	}
	return mask, nil
}
