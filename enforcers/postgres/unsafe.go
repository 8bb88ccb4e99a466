package postgres

import (
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/specs"
)

// scanUnsafe fills in what commands on the tables would do with rights of
// others, but for what is trusted or declared as a function of the schema.
func scanUnsafe(rows pgx.Rows, set specs.Set, found []specs.Table, database string) error {
	index := make(map[[2]string]int, len(found))
	for i, t := range found {
		index[[2]string{t.Schema, t.Name}] = i
	}
	known := knownFunctions(set, database)
	var schema, name, base, does string
	_, err := pgx.ForEachRow(rows, []any{&schema, &name, &base, &does}, func() error {
		i, there := index[[2]string{schema, name}]
		command := strings.ToLower(does)
		if !there || !slices.Contains(commands[:], command) || known(base) {
			return nil
		}
		found[i].Unsafe = append(found[i].Unsafe, specs.Unsafe{Command: command, Reaches: base})
		return nil
	})
	return err
}

// knownFunctions tells signatures of functions that the files name: as trusted,
// or in a project's schema.
func knownFunctions(set specs.Set, database string) func(signature string) bool {
	var trusted []string
	if d := specs.Find(set.Databases, database); d != nil {
		trusted = d.Trusted
	}
	declared := map[[2]string]bool{}
	for _, p := range set.Projects {
		if p.Schema == nil || p.Schema.Database != database {
			continue
		}
		for _, f := range p.Schema.Functions {
			declared[[2]string{p.SchemaName(), f.Name}] = true
		}
	}
	return func(signature string) bool {
		schema, rest, _ := aclName(signature, '.')
		name, _, called := aclName(rest, '(')
		return trusts(trusted, signature) || called && declared[[2]string{schema, name}]
	}
}

// withhold takes the commands that are not safe from everybody.
func (a *access) withhold(t specs.Table) {
	byReach := map[string][]string{}
	for _, u := range t.Unsafe {
		byReach[u.Reaches] = append(byReach[u.Reaches], u.Command)
	}
	var taken []string
	for _, reaches := range slices.Sorted(maps.Keys(byReach)) {
		had := both(byReach[reaches], slices.Concat(a.anon, a.own, a.all))
		if len(had) == 0 {
			continue
		}
		slices.Sort(had)
		a.notes = append(a.notes, "no "+strings.Join(had, ", ")+" for anybody: it would reach "+reaches+unsafeHint(reaches))
		taken = append(taken, had...)
	}
	a.anon, a.shared, a.own, a.all = minus(a.anon, taken), minus(a.shared, taken), minus(a.own, taken), minus(a.all, taken)
}

func unsafeHint(reaches string) string {
	if strings.HasSuffix(reaches, ")") {
		return ", a function that runs then past policies, or that a stranger to the table could replace; to allow it declare the function in the schema, or as trusted in the database block"
	}
	if strings.HasPrefix(reaches, "the view ") {
		return ", which a stranger to it could have call what he likes; to allow it give the view to the owner of what uses it"
	}
	return ", past its policies"
}
