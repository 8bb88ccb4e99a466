package specs

import "slices"

// checker gathers problems.
type checker struct{ problems []Problem }

func (c *checker) add(at Range, summary, detail string) {
	c.problems = append(c.problems, Problem{Range: at, Summary: summary, Detail: detail})
}

func (c *checker) sorted() []Problem {
	slices.SortStableFunc(c.problems, func(a, b Problem) int {
		if a.Range.File != b.Range.File {
			if a.Range.File < b.Range.File {
				return -1
			}
			return 1
		}
		return a.Range.Byte - b.Range.Byte
	})
	return c.problems
}

func (c *checker) networks(s Set)  {}
func (c *checker) sandboxes(s Set) {}
func (c *checker) projects(s Set)  {}
