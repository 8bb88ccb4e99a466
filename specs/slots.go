package specs

import "slices"

// LeasedSlots are the numbers of n's slots that leases hold, sorted. A lease
// of a sandbox that is not declared, and a number outside the pool, hold
// nothing: what is unknown is closed.
func (s Set) LeasedSlots(n Network) []int {
	var taken []int
	for _, l := range s.Leases {
		if l.Network != n.Name || l.Slot < 0 || l.Slot >= n.Slots() || Find(s.Sandboxes, l.Sandbox) == nil {
			continue
		}
		taken = append(taken, l.Slot)
	}
	slices.Sort(taken)
	return slices.Compact(taken)
}

// DesiredSlots are the numbers of n's slots that should exist, sorted: the
// leased ones, and the lowest free ones that stand ready.
func (s Set) DesiredSlots(n Network) []int {
	slots := s.LeasedSlots(n)
	leased := len(slots)
	for i, ready := 0, 0; ready < n.Warm && i < n.Slots(); i++ {
		if _, taken := slices.BinarySearch(slots[:leased], i); !taken {
			slots = append(slots, i)
			ready++
		}
	}
	slices.Sort(slots)
	return slots
}
