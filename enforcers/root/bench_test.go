package root

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// BenchmarkRead reads one tree of 110 binds, as the start of a session does.
func BenchmarkRead(b *testing.B) {
	h := host(b)
	e := newEnforcer(h + "/cordon")
	var files []string
	for i := range 100 {
		files = append(files, write(b, fmt.Sprintf("%s/share/%03d", h, i), "x", 0o644))
	}
	box := func(name string) specs.Sandbox {
		return sandbox(name, specs.Filesystem{Programs: []string{"/bin/bash", "/usr/bin/env"}, Files: files})
	}
	defer os.RemoveAll(h)
	for _, trees := range []int{1, 5} {
		var boxes []specs.Sandbox
		for i := range trees {
			boxes = append(boxes, box(fmt.Sprintf("s%d", i)))
		}
		apply(b, e, boxes...)
		b.Run(fmt.Sprintf("part of %d", trees), func(b *testing.B) {
			for b.Loop() {
				live, err := e.ReadPart(context.Background(), []reconciler.Addr{"root.s0"})
				if err != nil || len(live) != 1 || live[0].(Resource).Drift != nil {
					b.Fatal(live, err)
				}
			}
		})
	}
	b.Run("build", func(b *testing.B) {
		want, err := desired(box("s0"))
		must(b, err)
		for b.Loop() {
			must(b, e.Apply(context.Background(), reconciler.Change{After: want}))
		}
	})
	apply(b, e)
}
