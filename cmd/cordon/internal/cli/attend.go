package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/broker"
	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/specs"
)

// runnerCommand is what the daemon starts for each session of a user's.
func runnerCommand(a *App) *cobra.Command {
	return &cobra.Command{
		Use:    "runner",
		Short:  "Run a session for a client of the daemon",
		Hidden: true,
		// Its settings are the daemon's.
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { interruptible(cmd) },
		RunE:             func(cmd *cobra.Command, _ []string) error { return a.attended(cmd.Context()) },
	}
}

// attended runs the session that the daemon started this process for.
func (a *App) attended(ctx context.Context) error {
	client, err := broker.Attach()
	if err != nil {
		return err
	}
	job := client.Job
	if err := json.Unmarshal(job.Settings, &a.Settings); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if err := client.Receive(); err != nil {
		return err
	}
	hurry()
	r := a.runner(job.Set, a.Cgroups())
	r.Stdin, r.Stdout, r.Stderr = client.Files[0], client.Files[1], client.Files[2]
	r.Environ, r.Caller, r.Messages, r.Admit = client.Environ, client, client, client.Admit
	r.Reload, r.Operator = a.askSet, job.Operator
	events := a.Recorder()
	defer events.Close(ctx)
	events.by = func() string { return job.By }
	r.Told = events.session()
	began := r.Told.Began
	r.Told.Began = func(l specs.Lease) {
		if client.Started() != nil {
			go a.askReview(ctx)
		}
		began(l)
	}
	code, err := r.Run(context.WithoutCancel(ctx), session.Request{Sandbox: job.Sandbox, Project: job.Project, Command: client.Command})
	if err != nil {
		fmt.Fprintf(client, "cordon: %v\n", err)
	}
	if err := client.Exit(code); err != nil {
		a.Log().Debug("client", "error", err)
	}
	return nil
}

// enforced is what the files say or, for root where there are none, what the
// daemon enforces.
func (a *App) enforced(ctx context.Context) (set specs.Set, asked bool, err error) {
	files, err := filepath.Glob(filepath.Join(a.Dir, "*.hcl"))
	if err == nil && len(files) == 0 {
		set, err := broker.Set(ctx, a.Rundir().Socket())
		if !errors.As(err, new(*broker.NoDaemonError)) {
			return set, true, err
		}
	}
	set, err = a.Load()
	return set, false, err
}

// restartTimeout is for how long a daemon that is not there may be starting
// anew, restartPause is between two tries to reach it.
const (
	restartTimeout = 10 * time.Second
	restartPause   = 100 * time.Millisecond
)

// askSet is what the daemon enforces now.
func (a *App) askSet(ctx context.Context) (specs.Set, error) {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	for {
		set, err := broker.Set(ctx, a.Rundir().Socket())
		if !errors.As(err, new(*broker.NoDaemonError)) {
			return set, err
		}
		select {
		case <-ctx.Done():
			return set, err
		case <-time.After(restartPause):
		}
	}
}

// askReview has a daemon that did not start this session look at it. One that is
// not there yet does so when it begins.
func (a *App) askReview(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restartTimeout)
	defer cancel()
	if err := broker.Review(ctx, a.Rundir().Socket()); err != nil && !errors.As(err, new(*broker.NoDaemonError)) {
		a.Log().Warn("whether the user may still have this session is known at the next revision", "error", err)
	}
}

func (a *App) askStop(ctx context.Context, id string, order session.Order) error {
	return orNeedRoot(broker.Stop(ctx, a.Rundir().Socket(), id, order), "stopping a session")
}

// orNeedRoot adds to the lack of a daemon what would do without one.
func orNeedRoot(err error, what string) error {
	if errors.As(err, new(*broker.NoDaemonError)) {
		return fmt.Errorf("%w; %s without one needs root", err, what)
	}
	return err
}
