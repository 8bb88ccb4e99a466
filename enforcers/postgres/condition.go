package postgres

import (
	"bytes"
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// conditions are the expressions of policies. The catalogs hold them as trees,
// and pg_get_expr, which puts them in words, first has the server learn all
// about the table: thousands of them take longer than all else. But projects'
// policies are alike, so each kind is asked for once.
//
// Two are alike when their trees are, but for where they stood in the
// statements that made them, and the one column that they name, if any, has
// the same name in both tables. What the server says of the one is believed of
// the other only where it is a condition that cordon makes, of that very
// column: the name is of the transaction's snapshot, what the server says may
// be of a moment later.
type conditions struct {
	shapes map[string]*shape // by tree
	list   []condition
	tree   []byte // scratch
}

// shape is what the trees that are alike have in common.
type shape struct {
	column int            // number of the only column that it names, 0 if none
	shared bool           // nothing else of its table is in it
	byName map[string]int // index in the list, by the column's name
}

// condition is one that the server is asked for.
type condition struct {
	policy uint32
	check  bool   // WITH CHECK, not USING
	shared bool   // other policies have it too
	column string // that it names, if it is shared; "" is none
	text   string
}

// add returns where in the list the condition of a policy is, -1 if it has none.
// It is told the number and the name of a column.
func (c *conditions) add(tree []byte, policy uint32, check bool, column int, name string) int {
	if tree == nil {
		return -1
	}
	c.tree = unplaced(c.tree[:0], tree)
	s := c.shapes[string(c.tree)]
	if s == nil {
		s = newShape(c.tree)
		c.shapes[string(c.tree)] = s
	}
	one := condition{policy: policy, check: check, shared: s.shared && (s.column == 0 || s.column == column)}
	if !one.shared {
		c.list = append(c.list, one)
		return len(c.list) - 1
	}
	if s.column != 0 {
		one.column = name
	}
	i, known := s.byName[one.column]
	if !known {
		i = len(c.list)
		s.byName[one.column] = i
		c.list = append(c.list, one)
	}
	return i
}

// location precedes, in a tree, the place in the statement that made it. Of
// what others write into a tree, a name or a text, no space stands unescaped.
var location = []byte(" :location ")

// unplaced appends the tree without places.
func unplaced(to, tree []byte) []byte {
	for {
		i := bytes.Index(tree, location)
		if i < 0 {
			return append(to, tree...)
		}
		i += len(location)
		to = append(to, tree[:i]...)
		for tree = tree[i:]; len(tree) > 0 && (tree[0] == '-' || tree[0] >= '0' && tree[0] <= '9'); tree = tree[1:] {
		}
	}
}

// newShape looks for what of its table the tree names: columns, by number. A
// subquery may name it in more ways.
func newShape(tree []byte) *shape {
	s := &shape{shared: !bytes.Contains(tree, []byte("{QUERY ")) && !bytes.Contains(tree, []byte("{SUBLINK ")), byName: map[string]int{}}
	for rest := tree; s.shared; {
		var found bool
		if _, rest, found = bytes.Cut(rest, []byte("{VAR ")); !found {
			break
		}
		node, _, _ := bytes.Cut(rest, []byte("}"))
		n := firstColumn(node)
		s.shared = n != 0 && (s.column == 0 || s.column == n)
		s.column = n
	}
	return s
}

// firstColumn is the number of the column that the tree names first, 0 for
// none or for all of them together.
func firstColumn(tree []byte) int {
	_, after, _ := bytes.Cut(tree, []byte(":varattno "))
	digits, _, _ := bytes.Cut(after, []byte(" "))
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		return 0
	}
	return n
}

// conditionsSQL is asked with policies, $1, and which of their conditions, $2.
const conditionsSQL = `
SELECT w.i - 1, coalesce(pg_get_expr(CASE WHEN w.checks THEN p.polwithcheck ELSE p.polqual END, p.polrelid), '` + unknown + `')
FROM unnest($1::oid[], $2::bool[]) WITH ORDINALITY w(policy, checks, i) JOIN pg_policy p ON p.oid = w.policy`

// unknown is a condition of a table that is gone since: one that is there, and
// nothing that could be desired.
const unknown = "?"

func (c *conditions) queue(b *pgx.Batch, from int) {
	asked := c.list[from:]
	policies, checks := make([]uint32, len(asked)), make([]bool, len(asked))
	for i, one := range asked {
		policies[i], checks[i] = one.policy, one.check
		asked[i].text = unknown
	}
	b.Queue(conditionsSQL, policies, checks).Query(func(rows pgx.Rows) error {
		var i int
		var text string
		_, err := pgx.ForEachRow(rows, []any{&i, &text}, func() error { asked[i].text = text; return nil })
		return err
	})
}

// believed tells whether the text holds for all who share it.
func (c condition) believed() bool {
	form := shorten(c.text)
	switch {
	case !c.shared:
		return true
	case c.column == "":
		return form == "true"
	}
	return form == short("own", c.column) || form == short("nobody's", c.column)
}

func (s *state) scanPolicies(rows pgx.Rows) error {
	var of uint32
	var p livePolicy
	var name string
	_, err := pgx.ForEachRow(rows, []any{&of, &p.name, &p.command, &p.permissive, &p.roles, &p.comment, &p.oid, nil, nil, &name}, func() error {
		found := p
		found.marked = isMark(p.comment, "table", s.block)
		p.roles = nil // not to be scanned into again
		using, check := rows.RawValues()[7], rows.RawValues()[8]
		column := firstColumn(using)
		if using == nil {
			column = firstColumn(check)
		}
		found.usingAt = s.conditions.add(using, p.oid, false, column, name)
		found.checkAt = s.conditions.add(check, p.oid, true, column, name)
		if r := s.relations[of]; r != nil {
			r.policies = append(r.policies, found)
		}
		return nil
	})
	return err
}

// settle asks once more for the conditions that were not believed, of each
// policy by itself, and hands all to their policies.
func (s *state) settle(ctx context.Context, tx pgx.Tx) error {
	c := &s.conditions
	asked := len(c.list)
	apart := func(at *int, p *livePolicy, check bool) {
		if *at >= 0 && !c.list[*at].believed() {
			c.list = append(c.list, condition{policy: p.oid, check: check})
			*at = len(c.list) - 1
		}
	}
	s.eachPolicy(func(p *livePolicy) { apart(&p.usingAt, p, false); apart(&p.checkAt, p, true) })
	if len(c.list) > asked {
		b := new(pgx.Batch)
		c.queue(b, asked)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
	}
	s.eachPolicy(func(p *livePolicy) { p.using, p.check = c.text(p.usingAt), c.text(p.checkAt) })
	s.conditions = conditions{}
	return nil
}

func (s *state) eachPolicy(f func(*livePolicy)) {
	for _, r := range s.relations {
		for i := range r.policies {
			f(&r.policies[i])
		}
	}
}

// text is that of a condition, "" where there is none.
func (c *conditions) text(at int) string {
	if at < 0 {
		return ""
	}
	return c.list[at].text
}
