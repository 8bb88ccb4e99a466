package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/enforcers/git"
	"github.com/aicodesit/cordon/enforcers/proxy"
	"github.com/aicodesit/cordon/enforcers/proxy/gitgate"
	"github.com/aicodesit/cordon/internal/secret"
	"github.com/aicodesit/cordon/specs"
)

func gitCommand(a *app) *cobra.Command {
	var project string
	cmd := &cobra.Command{
		Use:   "git --project P -- fetch|push|ls-remote|clone [ARGS…]",
		Short: "Run git on the host for a project's declared remote, with its credential",
		Long: `Run git on the host for a project's declared remote, with its credential.

git runs as the project's user. What a session can write in the repository
decides nothing: neither its configuration nor its hooks are read. The
credential goes to the declared remote only and is written down nowhere.
clone fetches into the project's own directory.`,
		Example: `  cordon git --project shop -- fetch --prune
  cordon git --project shop -- push origin main`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if project == "" {
				return errors.New("say which project: cordon git --project P -- fetch")
			}
			if err := cli.NeedRoot("git for a project"); err != nil {
				return err
			}
			set, err := a.Load()
			if err != nil {
				return err
			}
			p := specs.Find(set.Projects, project)
			if p == nil {
				return specs.Undeclared("project", project, set.Projects)
			}
			// In the run directory: what a killed one leaves is gone with it.
			dir, err := a.Rundir().Make("git")
			if err != nil {
				return err
			}
			r := git.Runner{Dir: dir, Secret: a.Secrets(set.Secrets).Read, Stdout: a.Stdout, Stderr: a.Stderr, Log: a.Log()}
			return r.Run(cmd.Context(), *p, args...)
		},
	}
	cmd.Flags().StringVarP(&project, "project", "p", "", "project whose remote it is")
	return cmd
}

// gate answers what git asks of a proxy.
type gate func(w http.ResponseWriter, r *http.Request, s proxy.Session, report func(int, string))

// gitGate is the way of sessions to their repositories, for a proxy.
func (a *app) gitGate(set specs.Set, secrets *secret.Cache) (gate, error) {
	gate, err := gitgate.New(gitgate.Options{Projects: set.Projects, Secret: secrets.Read, Forget: secrets.Forget, Log: a.Log()})
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, r *http.Request, s proxy.Session, report func(int, string)) {
		gate.Serve(w, r, gitgate.Caller{Session: fmt.Sprint(s.Lease.ID, s.Lease.Started), Project: s.Lease.Project, Alive: s.Alive}, report)
	}, nil
}
