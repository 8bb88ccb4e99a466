package hcl

import (
	"fmt"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// nearWord is the sentence for what suggest finds, or "".
func nearWord(given string, known []string) string {
	if s := specs.Suggest(given, known); s != "" {
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
