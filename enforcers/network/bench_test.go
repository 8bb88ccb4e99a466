package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/reconciler"
)

// BenchmarkReadPart reads what one session's start needs, beside the members
// of others.
func BenchmarkReadPart(b *testing.B) {
	kerneltest.Host(b)
	use(b, nft)
	for _, members := range []int{1, 1000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			e := real()
			set := sets()[0]
			set.Networks[0].Pool = netip.MustParsePrefix("10.200.0.0/20")
			numbers := make([]int, members)
			for i := range numbers {
				numbers[i] = i
			}
			set.Leases = lease("llm", numbers...)
			b.Cleanup(func() { set.Networks, set.Leases = nil, nil; apply(b, e, set) })
			apply(b, e, set)
			m := Member{Network: "llm", Slot: 0}
			addrs := slices.DeleteFunc(append(m.Needs(), m.Addr()), func(a reconciler.Addr) bool { return a.Enforcer() != Name })
			for b.Loop() {
				if got, err := e.ReadPart(context.Background(), addrs); err != nil || len(got) < 6 {
					b.Fatal(got, err)
				}
			}
		})
	}
}
