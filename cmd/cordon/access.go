package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/enforcers/postgres"
	"github.com/aicodesit/cordon/specs"
)

func accessCommand(a *app) *cobra.Command {
	var asJSON bool
	var role string
	cmd := &cobra.Command{
		Use:   "access PROJECT TABLE",
		Short: "Tell who can do what with a table of a project, and why",
		Long: `Tell who can do what with a table of a project, and why.

It asks the database, not the files: what is granted directly, through PUBLIC
or through membership, the rows that policies leave, and the views, functions
and the like elsewhere that lead past them ("and by"). Without --role it
tells of the project's four roles; with it of any role, in full or as its kind
(anon, user, admin, service).`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.Load()
			if err != nil {
				return err
			}
			p := specs.Find(set.Projects, args[0])
			if p == nil || p.Schema == nil {
				return noSchema(set, args[0])
			}
			h := a.host(set)
			defer h.close(cmd.Context())
			list, err := h.postgres.Access(cmd.Context(), p.Schema.Database, p.SchemaName(), args[1], rolesOf(*p, role))
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return fmt.Errorf("there is no such role in the database")
			}
			return a.showAccess(list, asJSON)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "tell of this role")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func noSchema(set specs.Set, project string) error {
	var have []string
	for _, p := range set.Projects {
		if p.Schema != nil {
			have = append(have, p.Name)
		}
	}
	return specs.Unknown(fmt.Sprintf("there is no project %q with a schema", project), project, have)
}

func rolesOf(p specs.Project, role string) []string {
	kinds := []string{specs.RoleAnon, specs.RoleUser, specs.RoleAdmin, specs.RoleService}
	switch {
	case slices.Contains(kinds, role):
		return []string{p.Role(role)}
	case role != "":
		return []string{role}
	}
	var all []string
	for _, k := range kinds {
		all = append(all, p.Role(k))
	}
	return all
}

func (a *app) showAccess(list []postgres.Effective, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(a.Stdout, map[string]any{"format_version": "1.0", "access": list})
	}
	last := ""
	for _, e := range list {
		if e.Role != last {
			fmt.Fprintf(a.Stdout, "%q\n", e.Role)
			last = e.Role
		}
		columns := ""
		if len(e.Columns) > 0 {
			columns = fmt.Sprintf(" (%q)", e.Columns)
		}
		fmt.Fprintf(a.Stdout, "    %-6s %s%s\n           %s\n", e.Command, printable(e.Rows), columns, printable(strings.Join(e.Why, "; ")))
		for _, path := range e.Paths {
			fmt.Fprintf(a.Stdout, "           and %s\n", printable(path))
		}
	}
	return nil
}

// printable keeps control characters of what others named from reaching the
// terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
