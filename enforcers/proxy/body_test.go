package proxy

import (
	"bytes"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/stricthttp"
)

// nobody sends bodies that are there already.
type nobody struct{}

func (nobody) SetReadDeadline(time.Time) error { return nil }

// readText lets a server read a body.
func readText(t testing.TB, s *Server, g *gate, text []byte) body {
	t.Helper()
	b, bad := s.receive(new(ending.Context), nobody{}, &stricthttp.Request{Body: bytes.NewReader(text), Length: int64(len(text))}, g)
	if bad != nil {
		t.Fatal(bad)
	}
	return b
}

// Memory that a body had before shows nothing of it, and is that of one body at
// a time, however often one is dropped.
func TestBodyMemoryIsReused(t *testing.T) {
	s, g := &Server{}, &gate{all: newGates(nil)}
	for _, size := range []int{1, pooled/8 - 1, pooled / 8, pooled - 1, pooled, pooled + 1, 3 * pooled} {
		first := readText(t, s, g, bytes.Repeat([]byte{'a'}, size))
		first.drop()
		first.drop()
		if first.data != nil {
			t.Errorf("%d bytes: they can still be read", size)
		}
		second, third := bytes.Repeat([]byte{'b'}, size), bytes.Repeat([]byte{'c'}, max(1, size-1))
		two, three := readText(t, s, g, second), readText(t, s, g, third)
		if !bytes.Equal(two.data, second) || !bytes.Equal(three.data, third) {
			t.Errorf("%d bytes: not what was sent", size)
		}
		two.drop()
		three.drop()
		if held := g.all.memory.Load(); held != 0 || g.memory != 0 {
			t.Errorf("%d bytes: %d and %d are held", size, held, g.memory)
		}
	}
}

// Bodies are read no more in any order; only those that began too long ago are late.
func TestReads(t *testing.T) {
	for first := range 3 {
		for second := range 3 {
			if second == first {
				continue
			}
			var r reads
			all := make([]read, 3)
			for i := range all {
				r.begin(&all[i], nobody{})
			}
			all[1].since = time.Now().Add(-time.Hour)
			if !r.end(time.Now().Add(-time.Minute)) {
				t.Error("none is read")
			}
			for left, i := range []int{first, second, 3 - first - second} {
				if r.done(&all[i]) != (i != 1) {
					t.Errorf("%d: late %v", i, all[i].late)
				}
				if r.end(time.Time{}) != (left < 2) || len(r.open) != 2-left {
					t.Errorf("%d are left", len(r.open))
				}
			}
		}
	}
}

// Whoever ends slow bodies is told that one is read.
func TestReadingStirs(t *testing.T) {
	s := &Server{stirred: make(chan struct{}, 1)}
	readText(t, s, &gate{all: newGates(nil)}, []byte("a"))
	if len(s.stirred) == 0 {
		t.Error("it is not")
	}
}

func BenchmarkBody(b *testing.B) {
	for name, size := range map[string]int{"small": 86, "large": 100 << 10} {
		b.Run(name, func(b *testing.B) {
			s, g := &Server{}, &gate{all: newGates(nil)}
			sent := make([]byte, size)
			text, ctx := bytes.NewReader(sent), new(ending.Context)
			r := &stricthttp.Request{Body: text, Length: int64(size)}
			b.ReportAllocs()
			for b.Loop() {
				text.Reset(sent)
				read, bad := s.receive(ctx, nobody{}, r, g)
				if bad != nil {
					b.Fatal(bad)
				}
				read.drop()
			}
		})
	}
}
