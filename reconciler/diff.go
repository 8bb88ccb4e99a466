package reconciler

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Diff returns the changes that turn live into desired, in an order in which
// they can be made: what a resource needs before it, a deletion after all that
// needed the deleted. Among changes that may come next, deletions come first
// (closing before opening), then by address; so the order is a function of the
// inputs alone.
//
// It returns an error for two resources at one address and for needs in a
// circle.
func Diff(desired, live []Resource) ([]Change, error) {
	changes, err := compare(desired, live)
	if err != nil {
		return nil, err
	}
	return order(changes)
}

// compare pairs the resources by address and keeps the pairs that differ.
func compare(desired, live []Resource) ([]Change, error) {
	before := make(map[Addr]Resource, len(live))
	for _, r := range live {
		if _, dup := before[r.Addr()]; dup {
			return nil, fmt.Errorf("%s: read twice", r.Addr())
		}
		before[r.Addr()] = r
	}
	var changes []Change
	seen := make(map[Addr]bool, len(desired))
	for _, r := range desired {
		a := r.Addr()
		if seen[a] {
			return nil, fmt.Errorf("%s: desired twice", a)
		}
		seen[a] = true
		old, exists := before[a]
		if !exists {
			changes = append(changes, Change{After: r})
			continue
		}
		same, err := equal(old, r)
		if err != nil {
			return nil, err
		}
		if !same {
			changes = append(changes, Change{Before: old, After: r})
		}
	}
	for _, r := range live {
		if !seen[r.Addr()] {
			changes = append(changes, Change{Before: r})
		}
	}
	return changes, nil
}

func equal(a, b Resource) (bool, error) {
	if a, b := written(a), written(b); a != nil && bytes.Equal(a, b) {
		return true, nil
	}
	x, err := attributes(a)
	if err != nil {
		return false, err
	}
	y, err := attributes(b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(x, y), nil
}

// written is r's JSON as it is, nil for a record: most resources are equal
// without the decoding that attributes costs.
func written(r Resource) []byte {
	if _, ok := r.(Recorded); ok {
		return nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil // attributes says what is wrong
	}
	return b
}

// order sorts changes topologically.
func order(changes []Change) ([]Change, error) {
	g := newGraph(changes)
	ready := &queue{changes: changes}
	waits := make([]int, len(changes))
	for i := range changes {
		waits[i] = len(g.after[i])
		if waits[i] == 0 {
			heap.Push(ready, i)
		}
	}
	out := make([]Change, 0, len(changes))
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int)
		out = append(out, changes[i])
		for _, j := range g.before[i] {
			if waits[j]--; waits[j] == 0 {
				heap.Push(ready, j)
			}
		}
	}
	if len(out) < len(changes) {
		var stuck []string
		for i, n := range waits {
			if n > 0 {
				stuck = append(stuck, string(changes[i].Addr()))
			}
		}
		slices.Sort(stuck)
		return nil, fmt.Errorf("resources need each other in a circle: %s", strings.Join(stuck, ", "))
	}
	return out, nil
}

// graph tells which changes wait for which, by index.
type graph struct {
	after  [][]int // after[i] must be made before i
	before [][]int // i must be made before before[i]
}

func newGraph(changes []Change) graph {
	g := graph{after: make([][]int, len(changes)), before: make([][]int, len(changes))}
	index := make(map[Addr]int, len(changes))
	for i, c := range changes {
		index[c.Addr()] = i
	}
	edge := func(first, then int) {
		g.after[then] = append(g.after[then], first)
		g.before[first] = append(g.before[first], then)
	}
	for i, c := range changes {
		if c.After != nil {
			for _, n := range c.After.Needs() {
				if j, ok := index[n]; ok && j != i && changes[j].After != nil {
					edge(j, i)
				}
			}
		}
		if c.Before != nil {
			for _, n := range c.Before.Needs() {
				// What i no longer needs once it is made may then go.
				if j, ok := index[n]; ok && j != i && changes[j].After == nil {
					edge(i, j)
				}
			}
		}
	}
	return g
}

// queue is a heap of indices into changes: deletions first, then by address.
type queue struct {
	changes []Change
	items   []int
}

func (q *queue) Len() int      { return len(q.items) }
func (q *queue) Swap(i, j int) { q.items[i], q.items[j] = q.items[j], q.items[i] }
func (q *queue) Push(x any)    { q.items = append(q.items, x.(int)) }

func (q *queue) Pop() any {
	last := q.items[len(q.items)-1]
	q.items = q.items[:len(q.items)-1]
	return last
}

func (q *queue) Less(i, j int) bool {
	a, b := q.changes[q.items[i]], q.changes[q.items[j]]
	if (a.After == nil) != (b.After == nil) {
		return a.After == nil
	}
	return compareAddr(a.Addr(), b.Addr()) < 0
}

// compareAddr orders addresses with runs of digits by their value, so that
// slot 10 comes after slot 9.
func compareAddr(a, b Addr) int {
	x, y := string(a), string(b)
	for x != "" && y != "" {
		dx, dy := digits(x), digits(y)
		if dx > 0 && dy > 0 {
			nx, ny := strings.TrimLeft(x[:dx], "0"), strings.TrimLeft(y[:dy], "0")
			if c := cmp.Or(cmp.Compare(len(nx), len(ny)), cmp.Compare(nx, ny)); c != 0 {
				return c
			}
			x, y = x[dx:], y[dy:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
