package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Exit codes of plan with --detailed-exitcode; 1 is an error or a part of the
// state that could not be read.
const exitChanges = 2

func planCommand(a *app) *cobra.Command {
	var asJSON, detailed, asSQL bool
	var out, live string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what apply would change",
		Long: `Show what apply would change, without changing anything.

It reads the live kernel and the declared databases, for which it needs root.
With --live it reads a file that cordon snapshot wrote instead, and needs
neither a host nor privilege.

With --detailed-exitcode it exits with 0 when nothing would change, 2 when
something would, and 1 when a part could not be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := a.load()
			if err != nil {
				return err
			}
			h := a.host(set)
			defer h.close(cmd.Context())
			p, err := a.plan(cmd.Context(), h, set, live)
			if err != nil {
				return err
			}
			if out != "" {
				if err := writePlan(out, p); err != nil {
					return err
				}
			}
			if asSQL {
				err = a.showSteps(cmd.Context(), h, p, live)
			} else {
				err = a.showPlan(p, asJSON)
			}
			if err != nil {
				return err
			}
			return planExit(p, detailed)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print the plan as JSON")
	f.BoolVar(&asSQL, "sql", false, "print the SQL that apply would send instead, with the locks that it takes")
	f.StringVar(&out, "out", "", "also write the plan to this file, for apply")
	f.StringVar(&live, "live", "", "plan against this snapshot instead of this host")
	f.BoolVar(&detailed, "detailed-exitcode", false, "exit with 2 when there are changes")
	return cmd
}

func (a *app) plan(ctx context.Context, h *host, set specs.Set, live string) (*reconciler.Plan, error) {
	if live == "" {
		if err := needRoot("reading the live state"); err != nil {
			return nil, fmt.Errorf("%w; with --live SNAPSHOT a plan needs none", err)
		}
		defer h.close(ctx)
		return h.Plan(ctx, set)
	}
	f, err := os.Open(live)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	snap, err := reconciler.ReadSnapshot(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", live, err)
	}
	return h.PlanRecorded(set, snap)
}

func (a *app) showPlan(p *reconciler.Plan, asJSON bool) error {
	if !asJSON {
		return p.WriteText(a.stdout, reconciler.Style{Color: a.color(a.stdout)})
	}
	f, err := p.File()
	if err != nil {
		return err
	}
	return writeJSON(a.stdout, f)
}

// showSteps prints the statements of the changes that are made by some, as a
// script.
func (a *app) showSteps(ctx context.Context, h *host, p *reconciler.Plan, live string) error {
	if live != "" {
		return errors.New("--sql asks the databases: it can't be used with --live")
	}
	for _, e := range h.Enforcers {
		x, ok := e.Enforcer.(reconciler.Explainer)
		if !ok {
			continue
		}
		changes := slices.DeleteFunc(slices.Clone(p.Changes), func(c reconciler.Change) bool { return c.Addr().Enforcer() != e.Name })
		steps, err := x.Explain(ctx, changes)
		if err != nil {
			return err
		}
		for i, c := range changes {
			fmt.Fprintf(a.stdout, "-- %s %s\n", c.Action(), c.Addr())
			for _, s := range steps[i] {
				lock := ""
				if s.Lock != "" {
					lock = " -- " + s.Lock
				}
				fmt.Fprintf(a.stdout, "%s;%s\n", s.Text, lock)
			}
		}
	}
	return nil
}

func planExit(p *reconciler.Plan, detailed bool) error {
	switch {
	case len(p.Failures) > 0:
		return exitError{1}
	case detailed && !p.Empty():
		return exitError{exitChanges}
	}
	return nil
}

func writePlan(path string, p *reconciler.Plan) error {
	file, err := p.File()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := writeJSON(f, file); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
