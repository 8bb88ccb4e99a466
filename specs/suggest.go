package specs

import (
	"fmt"
	"slices"
	"strings"
)

// Suggest returns the one of known that given was most likely meant to be, or
// "" when none is near. Of equally near ones the first in alphabetical order
// wins, so that a message is the same each time.
func Suggest(given string, known []string) string {
	if len(given) > 64 {
		return ""
	}
	best, bestDistance := "", max(2, len(given)/3)+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if strings.EqualFold(k, given) {
			return k
		}
		if abs(len(k)-len(given)) >= bestDistance {
			continue
		}
		if d := distance(strings.ToLower(given), strings.ToLower(k)); d < bestDistance && d < max(len(k), len(given)) {
			best, bestDistance = k, d
		}
	}
	return best
}

// Undeclared is the error for a block that is not in list.
func Undeclared[T Named](kind, name string, list []T) error {
	known := make([]string, len(list))
	for i, e := range list {
		known[i] = e.ID()
	}
	return Unknown(fmt.Sprintf("%s %q is not declared", kind, name), name, known)
}

// Unknown is the error what for a name that is not among known: with the one that
// was most likely meant, else with some of those that there are.
func Unknown(what, name string, known []string) error {
	const most = 8
	if s := Suggest(name, known); s != "" {
		return fmt.Errorf("%s; did you mean %q?", what, s)
	}
	if len(known) == 0 {
		return fmt.Errorf("%s; there is none", what)
	}
	some := slices.Sorted(slices.Values(known))
	more := ""
	if len(some) > most {
		more = fmt.Sprintf(" and %d more", len(some)-most)
		some = some[:most]
	}
	return fmt.Errorf("%s; there is %s%s", what, strings.Join(some, ", "), more)
}

// distance is the number of letters to insert, delete, change or swap with
// their neighbour between a and b (optimal string alignment).
func distance(a, b string) int {
	previous, row := make([]int, len(b)+1), make([]int, len(b)+1)
	next := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], previous[j-2]+1)
			}
		}
		previous, row, next = row, next, previous
	}
	return row[len(b)]
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
