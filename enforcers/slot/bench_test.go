package slot

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// crowd makes slots 0 to n-1 of a network.
func crowd(b *testing.B, e *Enforcer, n int) specs.Network {
	b.Helper()
	net := specs.Network{Name: "llm", Pool: netip.MustParsePrefix("10.201.0.0/16"), Egress: specs.EgressNone}
	for i := range n {
		must(b, create(b, e, net, i))
	}
	return net
}

// BenchmarkCreate makes one more slot beside 0, 100 and 1,000: it costs the
// same.
func BenchmarkCreate(b *testing.B) {
	kerneltest.Host(b)
	e, _ := real()
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			s := desired(crowd(b, e, others), others)
			for b.Loop() {
				must(b, e.Apply(context.Background(), reconciler.Change{After: s}))
				b.StopTimer()
				must(b, e.Apply(context.Background(), reconciler.Change{Before: s}))
				b.StartTimer()
			}
		})
	}
}

// BenchmarkReadPart reads one slot beside others, as a session's start does.
func BenchmarkReadPart(b *testing.B) {
	kerneltest.Host(b)
	ownSys(b)
	e, _ := real()
	for _, slots := range []int{1, 1000} {
		b.Run(fmt.Sprint(slots), func(b *testing.B) {
			crowd(b, e, slots)
			for b.Loop() {
				got, err := e.ReadPart(context.Background(), []reconciler.Addr{Addr("llm", slots-1)})
				if err != nil || len(got) != 1 || len(got[0].(Slot).Drift) > 0 {
					b.Fatal(got, err)
				}
			}
		})
	}
}

// BenchmarkRead reads all slots.
func BenchmarkRead(b *testing.B) {
	kerneltest.Host(b)
	e, _ := real()
	for _, slots := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(slots), func(b *testing.B) {
			crowd(b, e, slots)
			for b.Loop() {
				got, err := e.Read(context.Background())
				if err != nil || len(got) != slots {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
