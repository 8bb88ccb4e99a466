package transcript

import "slices"

// automaton finds all of many short byte strings in one pass, regardless of
// the case of ASCII letters (Aho and Corasick, 1975, as a complete transition
// table). Its time depends on the length of the text only, never on what a
// hostile text holds.
type automaton struct {
	class  [256]uint8 // bytes that no anchor tells apart share a column
	next   []uint32   // next[state+column] is a state; states are multiples of the width
	accept uint32     // states from here on end anchors
	width  uint32
	ends   [][]int // which anchors end, by (state-accept)/width
}

// node is a state while the automaton is built.
type node struct {
	to   []int32 // by column; -1 is none
	fail int32
	ends []int
}

func newAutomaton(anchors [][]byte) *automaton {
	a := &automaton{}
	a.classify(anchors)
	nodes := a.trie(anchors)
	a.complete(nodes)
	a.number(nodes)
	return a
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func (a *automaton) classify(anchors [][]byte) {
	a.width = 1 // column 0 is every byte that occurs in no anchor
	for _, anchor := range anchors {
		for _, c := range anchor {
			if c = lower(c); a.class[c] == 0 {
				a.class[c] = uint8(a.width)
				a.width++
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		a.class[c] = a.class[lower(c)]
	}
}

func (a *automaton) node() node {
	n := node{to: make([]int32, a.width)}
	for i := range n.to {
		n.to[i] = -1
	}
	return n
}

func (a *automaton) trie(anchors [][]byte) []node {
	nodes := []node{a.node()}
	for id, anchor := range anchors {
		at := int32(0)
		for _, c := range anchor {
			col := a.class[c]
			if nodes[at].to[col] < 0 {
				nodes[at].to[col] = int32(len(nodes))
				nodes = append(nodes, a.node())
			}
			at = nodes[at].to[col]
		}
		nodes[at].ends = append(nodes[at].ends, id)
	}
	return nodes
}

// complete gives every state a successor for every column, breadth first.
func (a *automaton) complete(nodes []node) {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for col := range nodes[at].to {
			to := nodes[at].to[col]
			back := int32(0) // where the longest proper suffix leads
			if at != 0 {
				back = nodes[nodes[at].fail].to[col]
			}
			if to < 0 {
				nodes[at].to[col] = back
				continue
			}
			nodes[to].fail = back
			nodes[to].ends = append(nodes[to].ends, nodes[back].ends...)
			queue = append(queue, to)
		}
	}
}

// number lays the states out so that one comparison tells those that accept.
func (a *automaton) number(nodes []node) {
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return min(len(nodes[i].ends), 1) - min(len(nodes[j].ends), 1) })
	state := make([]uint32, len(nodes))
	for i, n := range order {
		state[n] = uint32(i) * a.width
	}
	a.accept = uint32(len(nodes)) * a.width
	for _, n := range order {
		for _, to := range nodes[n].to {
			a.next = append(a.next, state[to])
		}
		if len(nodes[n].ends) > 0 {
			a.accept = min(a.accept, state[n])
			a.ends = append(a.ends, nodes[n].ends)
		}
	}
}

// scan calls found for each place where anchors end, in order; end is the
// index behind them.
func (a *automaton) scan(text []byte, found func(end int, anchors []int)) {
	s := uint32(0)
	next, class := a.next, &a.class
	for i, c := range text {
		s = next[s+uint32(class[c])]
		if s >= a.accept {
			found(i+1, a.ends[(s-a.accept)/a.width])
		}
	}
}
