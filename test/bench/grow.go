package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// growth is how one number of things compares with another.
type growth struct {
	size    int
	field   []*contender
	queries int // that a plan asks PostgreSQL; 0 is not counted
}

// grown prints the p50 of each contender at each size, and how it grows
// against the size before.
func grown(title, things string, rows []growth) {
	fmt.Printf("\n%s\n\n", title)
	fmt.Printf("  %8s", things)
	for _, c := range rows[0].field {
		fmt.Printf("  %-34s", c.name+", p50 ms (growth)")
	}
	if rows[0].queries > 0 {
		fmt.Printf("  %s", "statements of a plan")
	}
	fmt.Println()
	for i, r := range rows {
		fmt.Printf("  %8d", r.size)
		for j, c := range r.field {
			cell := "-"
			if c.why == "" {
				cell = ms(quantile(c.took, 0.5))
				if i > 0 && rows[i-1].field[j].why == "" {
					cell += fmt.Sprintf(" (×%.2f)", float64(quantile(c.took, 0.5))/float64(quantile(rows[i-1].field[j].took, 0.5)))
				}
			}
			fmt.Printf("  %-34s", cell)
		}
		if r.queries > 0 {
			fmt.Printf("  %d", r.queries)
		}
		fmt.Println()
	}
	for _, r := range rows {
		apologize(r.field)
	}
}

const projectsHCL = `
secret "postgres" { env = "CORDON_POSTGRES_URL" }

database "main" { connection = secret.postgres }

project "tenant" {
  for_each  = toset([%s])
  name      = each.key
  directory = "/srv/projects/${each.key}"
  user      = "shop"

  schema {
    database     = database.main
    owner_column = "user_id"

    table "t1" { anonymous = ["select"] }
    table "t2" { authenticated = ["select", "insert"] }
  }
}
`

// projects times a plan with nothing to do, at numbers of projects with five
// tables each.
func (b *bench) projects() error {
	var rows []growth
	conf := filepath.Join(b.work, "projects")
	for _, size := range b.sizes {
		names := make([]string, size)
		for i := range names {
			names[i] = fmt.Sprintf("tenant%04d", i)
		}
		if err := write(filepath.Join(conf, "all.hcl"), fmt.Sprintf(projectsHCL, quoted(names)), 0o644); err != nil {
			return err
		}
		// The first makes the schemas, the second closes the tables in them.
		if err := b.do("-C", conf, "apply", "--auto-approve"); err != nil {
			return err
		}
		if err := makeTables(names); err != nil {
			return err
		}
		if err := b.do("-C", conf, "apply", "--auto-approve"); err != nil {
			return err
		}
		plan := []string{b.cordon, "-C", conf, "plan", "--detailed-exitcode"}
		queries, err := statements(plan)
		if err != nil {
			return err
		}
		field := []*contender{{name: "plan", argv: plan}, {name: "validate", argv: []string{b.cordon, "-C", conf, "validate"}}}
		race(max(5, b.n/4), field)
		rows = append(rows, growth{size, field, queries})
	}
	grown("A plan with nothing to do, by the number of projects (5 tables each)", "projects", rows)
	return b.do("-C", conf, "destroy", "--auto-approve")
}

func makeTables(projects []string) error {
	var sql strings.Builder
	for i, p := range projects {
		for t := 1; t <= 5; t++ {
			fmt.Fprintf(&sql, "CREATE TABLE IF NOT EXISTS %s.t%d (id int PRIMARY KEY, user_id text);\n", p, t)
		}
		if i%100 == 99 {
			sql.WriteString("COMMIT; BEGIN;\n") // a transaction holds a lock for each table
		}
	}
	return psql("BEGIN;\n" + sql.String() + "COMMIT; ANALYZE;\n")
}

func psql(sql string) error {
	cmd := exec.Command("psql", "-qX", "-v", "ON_ERROR_STOP=1")
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c client_min_messages=warning")
	cmd.Stdin = strings.NewReader(sql)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w\n%s", err, out)
	}
	return nil
}

// statements counts what PostgreSQL is asked while argv runs.
func statements(argv []string) (int, error) {
	if err := logStatements("all"); err != nil {
		return 0, err
	}
	before, err := logged()
	if err != nil {
		return 0, err
	}
	if _, err := once(argv); err != nil {
		return 0, err
	}
	after, err := logged()
	if err != nil {
		return 0, err
	}
	return after - before, logStatements("none")
}

// logStatements returns when new connections have the setting.
func logStatements(which string) error {
	if err := psql("ALTER SYSTEM SET log_statement = '" + which + "'; SELECT pg_reload_conf() \\g /dev/null\n"); err != nil {
		return err
	}
	for range 200 {
		out, err := exec.Command("psql", "-qXAt", "-c", "SHOW log_statement").Output()
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(out)) == which {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("PostgreSQL did not take log_statement = %s", which)
}

func logged() (int, error) {
	log, err := os.ReadFile("/run/postgres/log")
	if err != nil {
		return 0, err
	}
	return bytes.Count(log, []byte("LOG:  statement: ")) + bytes.Count(log, []byte("LOG:  execute ")), nil
}
