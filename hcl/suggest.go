package hcl

import (
	"fmt"
	"slices"
	"strings"
)

// suggest returns the one of known that given was most likely meant to be, or
// "" when none is near. Of equally near ones the first in alphabetical order
// wins, so that a message is the same each time.
func suggest(given string, known []string) string {
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

// nearWord is the sentence for what suggest finds, or "".
func nearWord(given string, known []string) string {
	if s := suggest(given, known); s != "" {
		return fmt.Sprintf("Did you mean %q?", s)
	}
	return ""
}

// didYouMean is the sentence for what suggest finds; else it lists known
// when that is short, else it is "".
func didYouMean(given string, known []string) string {
	if s := nearWord(given, known); s != "" {
		return s
	}
	switch {
	case len(known) == 0:
		return ""
	case len(known) == 1:
		return fmt.Sprintf("The only one there is: %q.", known[0])
	case len(known) <= 16:
		return "There are: " + quotedList(known) + "."
	}
	return ""
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ")
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
