package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/enforcers/postgres"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/hcl/format"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

func importCommand(a *app) *cobra.Command {
	var database string
	cmd := &cobra.Command{
		Use:   "import --database NAME",
		Short: "Write project blocks for what a declared database has",
		Long: `Write project blocks for what a declared database has.

A schema that cordon made, or once took over, becomes the project that it was
made by; any other schema becomes one whose tables are closed to all but its
admin and service. A schema whose name no project can have is left out, and
stderr says so. Directories are to be filled in.

What it writes is planned back before it is shown: it ends with 1 if anyone but
an admin or a service would gain by it, and says on stderr what else a plan
would change.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := a.Load()
			if err != nil {
				return err
			}
			db := specs.Find(set.Databases, database)
			if db == nil {
				return specs.Undeclared("database", database, set.Databases)
			}
			h := a.host(set)
			defer h.close(cmd.Context())
			return a.importDatabase(cmd.Context(), h, *db)
		},
	}
	cmd.Flags().StringVar(&database, "database", "", "name of the database block")
	_ = cmd.MarkFlagRequired("database") // it is there
	return cmd
}

func (a *app) importDatabase(ctx context.Context, h *host, db specs.Database) error {
	projects, notes, err := h.postgres.Infer(ctx, db.Name, a.nameable)
	if err != nil {
		return err
	}
	text := importText(projects, db.Name)
	back, err := readBack(text, db)
	if err != nil {
		return err
	}
	r := &reconciler.Reconciler{Log: h.Log, Enforcers: []reconciler.Named{{Name: postgres.Name, Enforcer: h.postgres}}}
	p, err := r.Plan(ctx, back)
	if err != nil {
		return err
	}
	for _, f := range p.Failures {
		return f.Err
	}
	changes := slices.DeleteFunc(slices.Clone(p.Changes), func(c reconciler.Change) bool {
		return !strings.HasPrefix(string(c.Addr()), string(reconciler.NewAddr(postgres.Name, "table", db.Name)))
	})
	if more := postgres.Widens(changes); len(more) > 0 {
		return errors.New("what was read can't be declared without giving more:\n    " + strings.Join(more, "\n    "))
	}
	for _, n := range notes {
		fmt.Fprintf(a.Stderr, "%s: %s\n", n.Addr, printable(n.Text))
	}
	if len(p.Changes) == 0 {
		fmt.Fprintln(a.Stderr, "Planned back: nothing would change.")
	} else {
		fmt.Fprintf(a.Stderr, "Planned back: %d changes; by none does anyone but an admin or a service gain:\n", len(p.Changes))
		for _, c := range p.Changes {
			fmt.Fprintf(a.Stderr, "    %s %s\n", reconciler.Style{}.Sign(c.Action()), printable(string(c.Addr())))
		}
	}
	_, err = fmt.Fprint(a.Stdout, text)
	return err
}

// nameable tells whether a project can be named like a schema, and tells people
// when not: the others are imported nevertheless.
func (a *app) nameable(schema string) bool {
	if hcl.ValidProjectName(schema) {
		return true
	}
	fmt.Fprintf(a.Stderr, "schema %q is left out: a project's name is made of %s; rename the schema to import it\n", schema, hcl.ProjectNames)
	return false
}

// readBack loads the text as the files of a directory would be.
func readBack(text string, db specs.Database) (specs.Set, error) {
	whole := text + fmt.Sprintf("\nsecret \"import\" { env = \"NONE\" }\ndatabase %s { connection = secret.import }\n", hclString(db.Name))
	back, diags := hcl.LoadFiles([]hcl.File{{Name: "import.hcl", Bytes: []byte(whole)}}, hcl.Options{})
	if diags.HasErrors() {
		return specs.Set{}, fmt.Errorf("what was read can't be written: %w", diags.Err())
	}
	back.Databases = []specs.Database{db}
	return back, nil
}

// importText is the projects as blocks, formatted.
func importText(projects []specs.Project, database string) string {
	var b strings.Builder
	for i, p := range projects {
		if i > 0 {
			b.WriteByte('\n')
		}
		label := "imported"
		name := fmt.Sprintf("  name      = %s\n", hclString(p.Name))
		fmt.Fprintf(&b, "project %s {\n%s  directory = %s\n\n  schema {\n    database = database.%s\n", hclString(fmt.Sprintf("%s-%d", label, i+1)), name, hclString(p.Directory), database)
		if p.Schema.OwnerColumn != "" {
			fmt.Fprintf(&b, "    owner_column = %s\n", hclString(p.Schema.OwnerColumn))
		}
		for _, t := range p.Schema.Tables {
			importTable(&b, t)
		}
		for _, f := range p.Schema.Functions {
			who := "authenticated"
			if f.Anonymous {
				who = "anonymous"
			}
			fmt.Fprintf(&b, "\n    function %s {\n      %s = true\n    }\n", hclString(f.Name), who)
		}
		b.WriteString("  }\n}\n")
	}
	formatted, _ := format.Source("import.hcl", []byte(b.String()))
	return string(formatted)
}

func importTable(b *strings.Builder, t specs.TableAccess) {
	fmt.Fprintf(b, "\n    table %s {\n      anonymous = %s\n      authenticated = %s\n", hclString(t.Name), hclList(t.Anonymous), hclList(t.Authenticated))
	if t.OwnerColumn != "" {
		fmt.Fprintf(b, "      owner_column = %s\n", hclString(t.OwnerColumn))
	}
	if len(t.OwnerColumns) > 0 {
		b.WriteString("      owner_columns = {\n")
		for _, c := range slices.Sorted(maps.Keys(t.OwnerColumns)) {
			fmt.Fprintf(b, "        %s = %s\n", c, hclString(t.OwnerColumns[c]))
		}
		b.WriteString("      }\n")
	}
	if len(t.Columns) > 0 {
		b.WriteString("      columns = {\n")
		for _, c := range slices.Sorted(maps.Keys(t.Columns)) {
			fmt.Fprintf(b, "        %s = %s\n", c, hclList(t.Columns[c]))
		}
		b.WriteString("      }\n")
	}
	if t.Check != "" {
		fmt.Fprintf(b, "      check = %s\n", hclString(t.Check))
	}
	b.WriteString("    }\n")
}

func hclList(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, hclString(s))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// hclString quotes s: as in Go but for what begins a template.
func hclString(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
	return `"` + strings.NewReplacer("${", "$${", "%{", "%%{").Replace(s) + `"`
}
