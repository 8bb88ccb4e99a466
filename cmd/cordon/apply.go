package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// consent is how a command may change things.
type consent struct {
	autoApprove  bool
	allowDeletes bool
}

func applyCommand(a *app) *cobra.Command {
	var c consent
	cmd := &cobra.Command{
		Use:   "apply [PLAN.json]",
		Short: "Make the host and the databases match the files",
		Long: `Make the host and the databases match the files.

It shows the plan and asks. Given a file that cordon plan --out wrote, it
applies that plan, and refuses when the files or the live state have moved
since.

A change that fails skips only what needs it; everything else proceeds, and
apply exits with 1.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NeedRoot("apply"); err != nil {
				return err
			}
			set, err := a.Load()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return a.apply(cmd.Context(), a.host(set), set, c, nil)
			}
			saved, err := savedPlan(args[0])
			if err != nil {
				return err
			}
			return a.apply(cmd.Context(), a.host(set), set, c, saved)
		},
	}
	cmd.Flags().BoolVar(&c.autoApprove, "auto-approve", false, "do not ask")
	cmd.Flags().BoolVar(&c.allowDeletes, "allow-deletes", false, "allow a plan that removes more than the deletion budget")
	return cmd
}

func savedPlan(path string) (*reconciler.PlanFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	saved, err := reconciler.ReadPlan(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(saved.Failures) > 0 {
		return nil, fmt.Errorf("%s: the plan is incomplete (%s could not be read): plan again", path, saved.Failures[0].Enforcer)
	}
	return saved, nil
}

// apply plans, asks when there is no saved plan and no approval, and makes
// the changes under the host's lock. What was shown is what is made: the plan
// is computed again under the lock and must be the same.
func (a *app) apply(ctx context.Context, h *host, set specs.Set, c consent, saved *reconciler.PlanFile) error {
	defer h.close(ctx)
	if saved == nil && !c.autoApprove {
		p, err := h.Plan(ctx, set)
		if err != nil {
			return err
		}
		if err := p.WriteText(a.Stdout, reconciler.Style{Color: a.Color(a.Stdout)}); err != nil {
			return err
		}
		if len(p.Changes) == 0 {
			return planExit(p, false)
		}
		if err := a.ask(ctx, "Make these changes?"); err != nil {
			return err
		}
		if saved, err = p.File(); err != nil {
			return err
		}
	}
	unlock, err := a.Rundir().Lock(ctx, true, func() {
		fmt.Fprintln(a.Stderr, "Another cordon is changing this host: waiting for it to finish.")
	})
	if err != nil {
		return err
	}
	defer unlock()
	p, err := h.Plan(ctx, set)
	if err != nil {
		return err
	}
	if saved != nil {
		if err := saved.Current(p); err != nil {
			return err
		}
	} else if err := p.WriteText(a.Stdout, reconciler.Style{Color: a.Color(a.Stdout)}); err != nil {
		return err
	}
	if !c.allowDeletes {
		if err := p.CheckBudget(); err != nil {
			return err
		}
	}
	return a.make(ctx, h, p)
}

// make applies p and tells the progress and the result.
func (a *app) make(ctx context.Context, h *host, p *reconciler.Plan) error {
	style := reconciler.Style{Color: a.Color(a.Stderr)}
	events := a.Recorder()
	defer events.Close(ctx)
	for _, f := range p.Failures {
		events.Add(loop.Event{Kind: loop.ChangeFailed, Part: f.Enforcer, Error: f.Err.Error()})
	}
	report := h.Apply(ctx, p, func(e reconciler.Event) {
		if !e.Done {
			return
		}
		events.Change(e)
		switch sign := style.Sign(e.Change.Action()); {
		case e.Skipped:
			fmt.Fprintf(a.Stderr, "%s %s: skipped\n", sign, e.Change.Addr())
		case e.Err != nil:
			fmt.Fprintf(a.Stderr, "%s %s: failed: %v\n", sign, e.Change.Addr(), e.Err)
		default:
			fmt.Fprintf(a.Stderr, "%s %s (%s)\n", sign, e.Change.Addr(), e.Duration.Round(100*time.Microsecond))
		}
	})
	var done reconciler.Summary
	for _, r := range report.Results {
		if r.Err == nil {
			done.Count(r.Change)
		}
	}
	fmt.Fprintf(a.Stdout, "Apply: %d added, %d changed, %d removed.\n", done.Add, done.Change, done.Remove)
	err := report.Err()
	for _, f := range p.Failures {
		err = errors.Join(err, fmt.Errorf("%s could not be read, nothing of it was changed: %w", f.Enforcer, f.Err))
	}
	if err == nil {
		return nil
	}
	fmt.Fprintf(a.Stderr, "\nNot everything was done:\n")
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(a.Stderr, "  %s\n", line)
	}
	return cli.Exit(1)
}

// ask returns an error unless a person at a terminal says yes.
func (a *app) ask(ctx context.Context, question string) error {
	if !term.IsTerminal(int(a.Stdin.Fd())) {
		return errors.New("standard input is no terminal to ask on: say --auto-approve, or apply a plan file")
	}
	fmt.Fprintf(a.Stderr, "%s Only \"yes\" is taken as yes: ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.Stdin).ReadString('\n') // no answer is not yes
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return errors.New("interrupted: nothing was changed")
	case said := <-answer:
		if said != "yes" {
			return errors.New("not approved: nothing was changed")
		}
	}
	return nil
}
