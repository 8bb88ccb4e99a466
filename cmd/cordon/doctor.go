package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/reconciler"
)

func doctorCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this host can and cannot enforce, and what to do about it",
		Long: `Tell what this host can and cannot enforce, and what to do about it.

With readable files in the directory the declared databases are examined too.
It exits with 1 when something would be refused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, _ := hcl.Load(a.Dir, a.LoadOptions()) // doctor works without files
			h := a.host(set)
			defer h.close(cmd.Context())
			findings := []reconciler.Finding{}
			for _, e := range h.Enforcers {
				if x, ok := e.Enforcer.(reconciler.Examiner); ok {
					findings = append(findings, x.Examine(cmd.Context())...)
				}
			}
			if err := a.showFindings(findings, asJSON); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Status == reconciler.Fail {
					return cli.Exit(1)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showFindings(findings []reconciler.Finding, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(a.Stdout, map[string]any{"format_version": "1.0", "findings": findings})
	}
	style := reconciler.Style{Color: a.Color(a.Stdout)}
	for _, f := range findings {
		fmt.Fprintf(a.Stdout, "%s %s: %s\n", style.Grade(f.Status), f.Subject, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(a.Stdout, "       %s\n", f.Remedy)
		}
	}
	return nil
}
