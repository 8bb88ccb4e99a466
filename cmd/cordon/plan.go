package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Exit codes of plan with --detailed-exitcode; 1 is an error or a part of the
// state that could not be read.
const exitChanges = 2

func planCommand(a *app) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what apply would change",
		Long: `Show what apply would change, without changing anything.

It reads the live kernel and the declared databases, for which it needs root.
With --live it reads a file that cordon snapshot wrote instead, and needs
neither a host nor privilege.

With --base it compares two revisions of the git repository that the directory
lies in: what would change on a host that is as the base says, when --head is
taken; without --head, when the directory is as it lies there. That needs no
host either, and nothing is checked out. Variables have the same values on both
sides: those of --var, of --var-file as it lies there, and of the environment.
A base that has errors is taken to declare nothing, and the plan says so; a
head that has errors has no plan.

With --detailed-exitcode it exits with 0 when nothing would change, 2 when
something would, and 1 when a part could not be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.showPlanOf(cmd.Context(), o) },
	}
	f := cmd.Flags()
	cli.FormatFlags(cmd, &o.format, "print the plan")
	f.BoolVar(&o.asSQL, "sql", false, "print the SQL that apply would send instead, with the locks that it takes")
	f.StringVar(&o.out, "out", "", "also write the plan to this file, for apply")
	f.StringVar(&o.live, "live", "", "plan against this snapshot instead of this host; with --base: take the host's tables and sessions from it")
	f.StringVar(&o.revisions.base, "base", "", "compare with this revision: a branch, a tag, a hash, HEAD~1")
	f.StringVar(&o.revisions.head, "head", "", "plan this revision instead of the directory as it is")
	f.BoolVar(&o.detailed, "detailed-exitcode", false, "exit with 2 when there are changes")
	return cmd
}

type planOptions struct {
	format          reconciler.Format
	asSQL, detailed bool
	out, live       string
	revisions
}

func (o planOptions) check() error {
	switch {
	case o.base != "" && (o.out != "" || o.asSQL):
		return errors.New("a plan between revisions is not one to apply: --out and --sql go with the live state")
	case o.asSQL && o.format != reconciler.Text:
		return errors.New("--sql prints statements: it has no other format")
	}
	return nil
}

func (a *app) showPlanOf(ctx context.Context, o planOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.base != "" {
		doc, err := a.between(o.revisions, o.live)
		if err != nil {
			return err
		}
		return a.showDocument(doc, o)
	}
	head, err := a.head(o.head)
	if err != nil {
		return err
	}
	doc, err := a.Document(head)
	if err != nil {
		return err
	}
	if doc.Broken() {
		return a.showDocument(doc, o)
	}
	h := a.host(head.Set)
	defer h.close(ctx)
	if doc.Plan, err = a.plan(ctx, h, head.Set, o.live); err != nil {
		return err
	}
	if o.out != "" {
		if err := writePlan(o.out, doc.Plan); err != nil {
			return err
		}
	}
	if o.asSQL {
		if err := a.showSteps(ctx, h, doc.Plan, o.live); err != nil {
			return err
		}
		return planExit(doc.Plan, o.detailed)
	}
	doc.Places = h.Places(doc.Plan)
	return a.showDocument(doc, o)
}

func (a *app) showDocument(doc reconciler.Document, o planOptions) error {
	if !doc.Broken() || o.format != reconciler.Text {
		if err := doc.Write(a.Stdout, o.format, reconciler.Style{Color: a.Color(a.Stdout)}); err != nil {
			return err
		}
	}
	if doc.Broken() {
		return cli.Exit(1)
	}
	return planExit(doc.Plan, o.detailed)
}

func (a *app) plan(ctx context.Context, h *host, set specs.Set, live string) (*reconciler.Plan, error) {
	if live == "" {
		if err := cli.NeedRoot("reading the live state"); err != nil {
			return nil, fmt.Errorf("%w; with --live SNAPSHOT or --base REVISION a plan needs none", err)
		}
		defer h.close(ctx)
		return h.Plan(ctx, set)
	}
	snap, err := readSnapshot(live)
	if err != nil {
		return nil, err
	}
	return h.PlanRecorded(set, snap)
}

func readSnapshot(name string) (*reconciler.Snapshot, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	snap, err := reconciler.ReadSnapshot(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return snap, nil
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
			fmt.Fprintf(a.Stdout, "-- %s %s\n", c.Action(), c.Addr())
			for _, s := range steps[i] {
				lock := ""
				if s.Lock != "" {
					lock = " -- " + s.Lock
				}
				fmt.Fprintf(a.Stdout, "%s;%s\n", s.Text, lock)
			}
		}
	}
	return nil
}

func planExit(p *reconciler.Plan, detailed bool) error {
	switch {
	case len(p.Failures) > 0:
		return cli.Exit(1)
	case detailed && !p.Empty():
		return cli.Exit(exitChanges)
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
	if err := cli.WriteJSON(f, file); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
